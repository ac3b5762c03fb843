package krb5

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"io"
	"slices"
)

// An Enctype is an encryption type number (RFC 3961, Section 2). The constants are all
// that this package supports.
type Enctype int32

// The encryption types from RFC 3962, Section 7, and RFC 8009, Section 8.
const (
	AES128SHA1   Enctype = 17 // aes128-cts-hmac-sha1-96
	AES256SHA1   Enctype = 18 // aes256-cts-hmac-sha1-96
	AES128SHA256 Enctype = 19 // aes128-cts-hmac-sha256-128
	AES256SHA384 Enctype = 20 // aes256-cts-hmac-sha384-192
)

// String returns the standard's name.
func (e Enctype) String() string {
	if p := profiles[e]; p != nil {
		return p.name
	}
	return fmt.Sprintf("encryption type %d", int32(e))
}

// A profile is an encryption type with its parameters. Sizes are in bytes.
type profile struct {
	name       string
	keySize    int
	macKeySize int // for the derived keys Kc and Ki
	macSize    int // after truncation
	hashes     *hashPool
	deriveKey  func(key, constant []byte, size int) []byte
	macCipher  bool // the MAC covers the ciphertext, and is checked before decryption (RFC 8009, Section 5)
}

var (
	sha1Hashes   = &hashPool{create: sha1.New}
	sha256Hashes = &hashPool{create: sha256.New}
	sha384Hashes = &hashPool{create: sha512.New384}

	profiles = map[Enctype]*profile{
		AES128SHA1:   {"aes128-cts-hmac-sha1-96", 16, 16, 12, sha1Hashes, deriveByAES, false},
		AES256SHA1:   {"aes256-cts-hmac-sha1-96", 32, 32, 12, sha1Hashes, deriveByAES, false},
		AES128SHA256: {"aes128-cts-hmac-sha256-128", 16, 16, 16, sha256Hashes, deriveBySHA256, true},
		AES256SHA384: {"aes256-cts-hmac-sha384-192", 32, 24, 24, sha384Hashes, deriveBySHA384, true},
	}
)

// A Key is a protocol key. Formatted output never contains its value.
type Key struct {
	Enctype Enctype
	Value   []byte
}

// newKey checks a key's type and length, and returns a copy.
func newKey(e Enctype, value []byte) (Key, error) {
	p := profiles[e]
	if p == nil {
		return Key{}, fmt.Errorf("%v is not supported: only aes128-cts and aes256-cts are (17 to 20)", e)
	}
	if len(value) != p.keySize {
		return Key{}, fmt.Errorf("a key for %v has %d bytes, not %d", e, p.keySize, len(value))
	}
	return Key{e, slices.Clone(value)}, nil
}

// String returns the key's type.
func (k Key) String() string { return fmt.Sprintf("key of %v", k.Enctype) }

// Format writes the key's type, for any verb.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }
