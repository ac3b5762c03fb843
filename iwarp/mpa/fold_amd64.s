#include "textflag.h"

// x^(2048+32) and x^(2048-32) modulo the polynomial of CRC32c, in the reflected
// order of bits, which makes it one bit longer.
DATA foldBy<>+0(SB)/8, $0xdcb17aa4
DATA foldBy<>+8(SB)/8, $0xb9e02b86
GLOBL foldBy<>(SB), RODATA|NOPTR, $16

// func fold(crc uint32, p *byte, n int) uint32
TEXT ·fold(SB), NOSPLIT, $256-28
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTI32X4 foldBy<>(SB), Z8
	VMOVD AX, X9
	VPXORQ (SI), Z9, Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	JMP next

	// In each lane of 128 bits: low half times the first of foldBy, high half
	// times the second, and what comes.
loop:
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
next:
	ADDQ $256, SI
	DECQ CX
	JNZ loop

	// The CRC of what is left, 8 octets at a time.
	VMOVDQU64 Z0, state-256(SP)
	VMOVDQU64 Z1, state-192(SP)
	VMOVDQU64 Z2, state-128(SP)
	VMOVDQU64 Z3, state-64(SP)
	VZEROUPPER
	LEAQ state-256(SP), SI
	MOVQ $32, CX
	XORL AX, AX
rest:
	CRC32Q (SI), AX
	ADDQ $8, SI
	DECQ CX
	JNZ rest
	MOVL AX, ret+24(FP)
	RET
