#include "textflag.h"

// x^(2048+32) and x^(2048-32) modulo the polynomial of CRC32c, in the reflected
// order of bits, which makes it one bit longer.
DATA foldBy<>+0(SB)/8, $0xdcb17aa4
DATA foldBy<>+8(SB)/8, $0xb9e02b86
GLOBL foldBy<>(SB), RODATA|NOPTR, $16

// MULTIPLY brings the state, Z0 to Z3, 256 bytes further. It is in two parts, the
// second of which is in Z4 to Z7: in each lane of 128 bits, high half times the
// second of foldBy, and low half times the first.
#define MULTIPLY \
	VPCLMULQDQ $0x00, Z8, Z0, Z4; \
	VPCLMULQDQ $0x00, Z8, Z1, Z5; \
	VPCLMULQDQ $0x00, Z8, Z2, Z6; \
	VPCLMULQDQ $0x00, Z8, Z3, Z7; \
	VPCLMULQDQ $0x11, Z8, Z0, Z0; \
	VPCLMULQDQ $0x11, Z8, Z1, Z1; \
	VPCLMULQDQ $0x11, Z8, Z2, Z2; \
	VPCLMULQDQ $0x11, Z8, Z3, Z3

// STORE stores four registers to 256 bytes at p.
#define STORE(a, b, c, d, p) \
	VMOVDQU64 a, (p); \
	VMOVDQU64 b, 64(p); \
	VMOVDQU64 c, 128(p); \
	VMOVDQU64 d, 192(p)

// func fold(state *[foldLen]byte, crc uint32, p *byte, n int)
TEXT ·fold(SB), NOSPLIT, $0-32
	MOVQ state+0(FP), DX
	MOVL crc+8(FP), AX
	MOVQ p+16(FP), SI
	MOVQ n+24(FP), CX
	VBROADCASTI32X4 foldBy<>(SB), Z8
	VMOVD AX, X9
	VPXORQ (SI), Z9, Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	JMP next

loop:
	MULTIPLY
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
next:
	ADDQ $256, SI
	DECQ CX
	JNZ loop

	STORE(Z0, Z1, Z2, Z3, DX)
	VZEROUPPER
	RET

// ahead is how far beyond the copied bytes foldCopy prefetches. The processor
// itself looks no further than to the end of a page.
#define ahead 8192

// func foldCopy(state *[foldLen]byte, crc uint32, dst, src *byte, n int)
TEXT ·foldCopy(SB), NOSPLIT, $0-40
	MOVQ state+0(FP), DX
	MOVL crc+8(FP), AX
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	VBROADCASTI32X4 foldBy<>(SB), Z8
	VMOVD AX, X9
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	STORE(Z0, Z1, Z2, Z3, DI)
	VPXORQ Z9, Z0, Z0
	JMP next

	// Each byte is read once, and the same value is stored and added.
loop:
	PREFETCHT0 ahead(SI)
	PREFETCHT0 ahead+64(SI)
	PREFETCHT0 ahead+128(SI)
	PREFETCHT0 ahead+192(SI)
	VMOVDQU64 (SI), Z10
	VMOVDQU64 64(SI), Z11
	VMOVDQU64 128(SI), Z12
	VMOVDQU64 192(SI), Z13
	STORE(Z10, Z11, Z12, Z13, DI)
	MULTIPLY
	VPTERNLOGQ $0x96, Z10, Z4, Z0
	VPTERNLOGQ $0x96, Z11, Z5, Z1
	VPTERNLOGQ $0x96, Z12, Z6, Z2
	VPTERNLOGQ $0x96, Z13, Z7, Z3
next:
	ADDQ $256, SI
	ADDQ $256, DI
	DECQ CX
	JNZ loop

	STORE(Z0, Z1, Z2, Z3, DX)
	VZEROUPPER
	RET

// func unfold(state *[foldLen]byte) uint32
TEXT ·unfold(SB), NOSPLIT, $0-12
	MOVQ state+0(FP), SI
	MOVQ $32, CX
	XORL AX, AX
loop:
	CRC32Q (SI), AX
	ADDQ $8, SI
	DECQ CX
	JNZ loop
	MOVL AX, ret+8(FP)
	RET
