package exportset

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
)

// A sealer creates and checks the seals of file handles: AES-256-CMAC (RFC 4493, NIST SP
// 800-38B) truncated to sealLen bytes. It costs two to four AES blocks, less than a system
// call; a keyed hash takes somewhat longer. GMAC would be cheaper still, but needs a nonce for
// each handle, while an object has one handle.
//
// A sealer is safe for concurrent use.
type sealer struct {
	block  cipher.Block
	k1, k2 [aes.BlockSize]byte // subkeys: for a message with a whole last block, or not
}

// sealLen is the number of bytes in a seal. A guess is right once in 2^72 times, and each guess
// takes a call to the server: a million guesses a second, for a century, come to 2^52, and
// succeed once in 2^20 centuries. Longer seals would have a cost: a listing has space for fewer
// entries, and Linux looks up the others one by one. With this length, the file handles of most
// file systems are a multiple of 4 bytes, as on the wire.
const sealLen = 9

// A macBuffer is a buffer for the computation. The caller provides it from memory that is
// already on the heap, because a pointer passed to a cipher.Block escapes.
type macBuffer [aes.BlockSize]byte

// newSealer returns a sealer with a key, or with a random key if key is zero.
func newSealer(key [32]byte) *sealer {
	if key == ([32]byte{}) {
		rand.Read(key[:])
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes are a valid key
	}
	s := &sealer{block: block}
	block.Encrypt(s.k1[:], s.k1[:])
	doubleKey(&s.k1)
	s.k2 = s.k1
	doubleKey(&s.k2)
	return s
}

// doubleKey multiplies by x in the field of 2^128 elements (RFC 4493, Section 2.3).
func doubleKey(k *[aes.BlockSize]byte) {
	hi, lo := binary.BigEndian.Uint64(k[:]), binary.BigEndian.Uint64(k[8:])
	binary.BigEndian.PutUint64(k[:], hi<<1|lo>>63)
	binary.BigEndian.PutUint64(k[8:], lo<<1^0x87*(hi>>63))
}

// computeMAC computes msg's MAC in m (RFC 4493, Section 2.4).
func (s *sealer) computeMAC(m *macBuffer, msg []byte) {
	*m = macBuffer{}
	for len(msg) > aes.BlockSize {
		subtle.XORBytes(m[:], m[:], msg[:aes.BlockSize])
		s.block.Encrypt(m[:], m[:])
		msg = msg[aes.BlockSize:]
	}
	subtle.XORBytes(m[:], m[:], msg)
	key := &s.k1
	if len(msg) < aes.BlockSize {
		m[len(msg)] ^= 0x80
		key = &s.k2
	}
	subtle.XORBytes(m[:], m[:], key[:])
	s.block.Encrypt(m[:], m[:])
}

// appendSeal appends b's seal to b.
func (s *sealer) appendSeal(m *macBuffer, b []byte) []byte {
	s.computeMAC(m, b)
	return append(b, m[:sealLen]...)
}

// hasValidSeal reports whether b, which has at least sealLen bytes, ends with the seal for the
// preceding bytes.
func (s *sealer) hasValidSeal(m *macBuffer, b []byte) bool {
	msg, seal := b[:len(b)-sealLen], b[len(b)-sealLen:]
	s.computeMAC(m, msg)
	return subtle.ConstantTimeCompare(m[:sealLen], seal) == 1
}
