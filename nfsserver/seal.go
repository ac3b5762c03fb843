package nfsserver

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
)

// A sealer makes and checks the seals of file handles: AES-256-CMAC (RFC 4493,
// NIST SP 800-38B) cut to sealLen octets. It costs two to four blocks of AES,
// which is less than a system call, where a hash with a key takes some more.
// GMAC would be cheaper yet, but needs a nonce for each handle, while an object
// has one handle.
//
// It may be used by many goroutines at once.
type sealer struct {
	block  cipher.Block
	k1, k2 [aes.BlockSize]byte // subkeys: for a message that ends with a whole block, or not
}

// sealLen is the octets of a seal. Who guesses is right once in 2^96 times,
// and has to ask the server each time: a million guesses a second, for a
// century, come to 2^52.
const sealLen = 12

// A mac is room for the computation. It is lent by the caller, whose memory
// is on the heap already: what goes to a cipher.Block by pointer escapes.
type mac [aes.BlockSize]byte

// newSealer makes a sealer with a key, or with one of its own if that is zero.
func newSealer(key [32]byte) *sealer {
	if key == ([32]byte{}) {
		rand.Read(key[:])
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 octets are a key
	}
	s := &sealer{block: block}
	block.Encrypt(s.k1[:], s.k1[:])
	double(&s.k1)
	s.k2 = s.k1
	double(&s.k2)
	return s
}

// double multiplies by x in the field of 2^128 elements (RFC 4493, Section 2.3).
func double(k *[aes.BlockSize]byte) {
	hi, lo := binary.BigEndian.Uint64(k[:]), binary.BigEndian.Uint64(k[8:])
	binary.BigEndian.PutUint64(k[:], hi<<1|lo>>63)
	binary.BigEndian.PutUint64(k[8:], lo<<1^0x87*(hi>>63))
}

// sum computes the MAC of msg in m (RFC 4493, Section 2.4).
func (s *sealer) sum(m *mac, msg []byte) {
	*m = mac{}
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

// append appends the seal of b to it.
func (s *sealer) append(m *mac, b []byte) []byte {
	s.sum(m, b)
	return append(b, m[:sealLen]...)
}

// intact tells whether b, of sealLen octets at least, ends with the seal of
// what is in front.
func (s *sealer) intact(m *mac, b []byte) bool {
	msg, seal := b[:len(b)-sealLen], b[len(b)-sealLen:]
	s.sum(m, msg)
	return subtle.ConstantTimeCompare(m[:sealLen], seal) == 1
}
