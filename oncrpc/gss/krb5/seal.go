package krb5

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

const confounderSize = blockSize

// A sealKey encrypts, or decrypts, and protects the integrity of texts that begin with a
// confounder (RFC 3961, Section 5.3; RFC 8009, Section 5).
type sealKey struct {
	integrity macKey
	cts       ctsKey
	macCipher bool
}

// initSealing derives the keys for encryption.
func (s *sealKey) initSealing(k Key, u usage) { s.init(k, u, cipher.NewCBCEncrypter) }

// initOpening derives the keys for decryption.
func (s *sealKey) initOpening(k Key, u usage) { s.init(k, u, cipher.NewCBCDecrypter) }

func (s *sealKey) init(k Key, u usage, create func(cipher.Block, []byte) cipher.BlockMode) {
	p := profiles[k.Enctype]
	s.integrity = newMACKey(p, k.deriveKey(u, forIntegrity, p.macKeySize))
	s.cts.init(k.deriveKey(u, forEncryption, p.keySize), create)
	s.macCipher = p.macCipher
}

// seal encrypts text in place, and writes its MAC to mac, which has the MAC's
// size.
func (s *sealKey) seal(text [][]byte, mac []byte) {
	if s.macCipher {
		s.cts.encrypt(text)
		s.integrity.appendSum(mac[:0], s.hashText(text))
		return
	}
	s.integrity.appendSum(mac[:0], s.hashText(text))
	s.cts.encrypt(text)
}

// open decrypts text in place, and reports whether mac is its MAC. If not, no plaintext
// is left in text.
func (s *sealKey) open(text [][]byte, mac []byte) bool {
	if s.macCipher {
		if !s.integrity.verifySum(s.hashText(text), mac) {
			return false
		}
		s.cts.decrypt(text)
		return true
	}
	s.cts.decrypt(text)
	if !s.integrity.verifySum(s.hashText(text), mac) {
		clearAll(text)
		return false
	}
	return true
}

// hashText returns a pooled hash of text, after the initial vector if the MAC covers the
// ciphertext.
func (s *sealKey) hashText(text [][]byte) *hashState {
	h := s.integrity.getHash()
	if s.macCipher {
		h.Write(zeroIV[:])
	}
	h.writeAll(text)
	return h
}

var errIntegrity = errors.New("the integrity check failed")

// encrypt returns the EncryptedData cipher for plain.
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

// decrypt returns an EncryptedData cipher's plaintext, in new memory.
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
