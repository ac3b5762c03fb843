package krb5

import (
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
)

// A usage is a key usage number, so that keys for different purposes differ (RFC 3961,
// Section 4).
type usage uint32

const (
	usageTicket        usage = 2  // RFC 4120, Section 7.5.1
	usageAuthenticator usage = 11 // likewise
	usageAPRep         usage = 12 // likewise
	usageAcceptorSeal  usage = 22 // RFC 4121, Section 2
	usageAcceptorSign  usage = 23
	usageInitiatorSeal usage = 24
	usageInitiatorSign usage = 25
)

// The last byte of a derivation constant (RFC 3961, Section 5.3).
const (
	forChecksum   = 0x99 // Kc
	forEncryption = 0xaa // Ke
	forIntegrity  = 0x55 // Ki
)

// deriveKey returns a key with size bytes for the usage.
func (k Key) deriveKey(u usage, purpose byte, size int) []byte {
	constant := append(binary.BigEndian.AppendUint32(nil, uint32(u)), purpose)
	return profiles[k.Enctype].deriveKey(k.Value, constant, size)
}

// deriveByAES is the function DK (RFC 3961, Section 5.1), whose random-to-key is the
// identity for AES (RFC 3962, Section 6).
func deriveByAES(key, constant []byte, size int) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // a Key has a valid AES length
	}
	state := nfold(constant, aes.BlockSize)
	var out []byte
	for len(out) < size {
		block.Encrypt(state, state)
		out = append(out, state...)
	}
	return out[:size]
}

// nfold stretches or compresses in to size bytes (RFC 3961, Section 5.1): it returns the
// one's complement sum of copies of in, each rotated right by 13 bits more than the one
// before.
func nfold(in []byte, size int) []byte {
	bits := len(in) * 8
	sum := make([]int, size) // bytes, with the carries
	for i := range size * len(in) / gcd(size, len(in)) {
		first := i%len(in)*8 - i/len(in)*13 // the bit of in that becomes this byte's first
		first = (first%bits + bits) % bits
		two := uint16(in[first/8])<<8 | uint16(in[(first/8+1)%len(in)])
		sum[i%size] += int(two >> (8 - first%8) & 0xff)
	}
	for carry := 1; carry != 0; {
		carry = 0
		for i := size - 1; i >= 0; i-- {
			sum[i] += carry
			carry, sum[i] = sum[i]>>8, sum[i]&0xff
		}
		sum[size-1] += carry // around the end
	}
	out := make([]byte, size)
	for i, b := range sum {
		out[i] = byte(b)
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func deriveBySHA256(key, label []byte, size int) []byte {
	return deriveByHMAC(sha256.New, key, label, size)
}

func deriveBySHA384(key, label []byte, size int) []byte {
	return deriveByHMAC(sha512.New384, key, label, size)
}

// deriveByHMAC is KDF-HMAC-SHA2 (RFC 8009, Section 3) without a context.
func deriveByHMAC(create func() hash.Hash, key, label []byte, size int) []byte {
	h := hmac.New(create, key)
	h.Write([]byte{0, 0, 0, 1})
	h.Write(label)
	h.Write([]byte{0})
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(size*8)))
	return h.Sum(nil)[:size]
}
