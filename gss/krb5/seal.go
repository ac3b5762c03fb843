package krb5

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

const confounderSize = blockSize

// A sealKey encrypts, or decrypts, and protects the integrity of texts that
// begin with a confounder (RFC 3961, Section 5.3; RFC 8009, Section 5).
type sealKey struct {
	integrity macKey
	cts       ctsKey
	macCipher bool
}

// initSealing makes the derived keys for encryption.
func (s *sealKey) initSealing(k Key, u usage) { s.init(k, u, cipher.NewCBCEncrypter) }

// initOpening makes the derived keys for decryption.
func (s *sealKey) initOpening(k Key, u usage) { s.init(k, u, cipher.NewCBCDecrypter) }

func (s *sealKey) init(k Key, u usage, create func(cipher.Block, []byte) cipher.BlockMode) {
	p := profiles[k.Enctype]
	s.integrity = newMACKey(p, k.derive(u, forIntegrity, p.macKeySize))
	s.cts.init(k.derive(u, forEncryption, p.keySize), create)
	s.macCipher = p.macCipher
}

// seal encrypts text in place, and writes its MAC to mac, which has the MAC's
// size.
func (s *sealKey) seal(text [][]byte, mac []byte) {
	if s.macCipher {
		s.cts.encrypt(text)
		s.integrity.appendSum(mac[:0], s.begin(text))
		return
	}
	s.integrity.appendSum(mac[:0], s.begin(text))
	s.cts.encrypt(text)
}

// open decrypts text in place, and reports whether mac is its MAC. If it is
// not, nothing of the plain text is left in text.
func (s *sealKey) open(text [][]byte, mac []byte) bool {
	if s.macCipher {
		if !s.integrity.verify(s.begin(text), mac) {
			return false
		}
		s.cts.decrypt(text)
		return true
	}
	s.cts.decrypt(text)
	if !s.integrity.verify(s.begin(text), mac) {
		clearAll(text)
		return false
	}
	return true
}

// begin lends a hash that has read text, after the initial vector if the MAC
// covers the ciphertext.
func (s *sealKey) begin(text [][]byte) *hashState {
	h := s.integrity.begin()
	if s.macCipher {
		h.Write(zeroIV[:])
	}
	h.writeAll(text)
	return h
}

var errIntegrity = errors.New("the integrity check failed")

// encrypt returns the cipher of an EncryptedData of plain.
func (k Key) encrypt(u usage, plain []byte) []byte {
	var s sealKey
	s.initSealing(k, u)
	out := make([]byte, confounderSize+len(plain)+s.integrity.size)
	rand.Read(out[:confounderSize])
	text, mac := out[:confounderSize+len(plain)], out[confounderSize+len(plain):]
	copy(text[confounderSize:], plain)
	s.seal([][]byte{text}, mac)
	return out
}

// decrypt returns the plain text of the cipher of an EncryptedData, in new
// memory.
func (k Key) decrypt(u usage, cipher []byte) ([]byte, error) {
	var s sealKey
	s.initOpening(k, u)
	n := len(cipher) - s.integrity.size
	if n < confounderSize {
		return nil, errIntegrity
	}
	text := append([]byte(nil), cipher[:n]...)
	if !s.open([][]byte{text}, cipher[n:]) {
		return nil, errIntegrity
	}
	return text[confounderSize:], nil
}
