package rpctls

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
)

// A direction is one of the two ways of a connection, as the kernel names them for its
// end (linux/tls.h).
type direction int

const (
	sending   direction = 1 // TLS_TX
	receiving direction = 2 // TLS_RX
)

// trafficSecrets are the first application traffic secrets of a connection (RFC 8446,
// Section 7.1), which crypto/tls hands out as lines of a key log only.
type trafficSecrets struct{ client, server []byte }

// Write takes one line of the key log (tls.Config.KeyLogWriter):
//
//	label │ random bytes of the client │ secret
func (s *trafficSecrets) Write(line []byte) (int, error) {
	words := strings.Fields(string(line))
	if len(words) != 3 {
		return len(line), nil
	}
	secret, err := hex.DecodeString(words[2])
	switch words[0] {
	case "CLIENT_TRAFFIC_SECRET_0":
		s.client = secret
	case "SERVER_TRAFFIC_SECRET_0":
		s.server = secret
	}
	return len(line), err
}

// of returns the secret of a direction.
func (s *trafficSecrets) of(d direction, server bool) []byte {
	if server == (d == sending) {
		return s.server
	}
	return s.client
}

// A kernelSuite is what the kernel must know of a cipher suite (linux/tls.h).
type kernelSuite struct {
	cipher uint16 // TLS_CIPHER_...
	key    int    // bytes
	salt   int    // bytes of the nonce's start that are a field of their own
	hash   func() hash.Hash
}

var kernelSuites = map[uint16]kernelSuite{
	tls.TLS_AES_128_GCM_SHA256:       {51, 16, 4, sha256.New},
	tls.TLS_AES_256_GCM_SHA384:       {52, 32, 4, sha512.New384},
	tls.TLS_CHACHA20_POLY1305_SHA256: {54, 32, 0, sha256.New},
}

const (
	nonceLen    = 12 // of all suites of TLS 1.3
	sequenceLen = 8
)

var (
	errSuite  = errors.New("rpctls: a cipher suite that TLS in the kernel is not used for")
	errSecret = errors.New("rpctls: crypto/tls has not told the secrets of a connection")
)

// cryptoInfo returns the kernel's form of the keys of one direction, whose first record
// is number 0. All structures tls12_crypto_info_... of linux/tls.h have this order:
//
//	version │ cipher │ rest of the nonce │ key │ start of the nonce │ record number
//	   2        2                                                          8
func cryptoInfo(suite uint16, secret []byte) ([]byte, error) {
	s, ok := kernelSuites[suite]
	if !ok {
		return nil, errSuite
	}
	if len(secret) != s.hash().Size() {
		return nil, errSecret
	}
	key, err := expandLabel(s.hash, secret, "key", s.key)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	nonce, err := expandLabel(s.hash, secret, "iv", nonceLen)
	if err != nil {
		return nil, err
	}
	info := make([]byte, 4, infoLen(s))
	binary.NativeEndian.PutUint16(info, tls.VersionTLS13)
	binary.NativeEndian.PutUint16(info[2:], s.cipher)
	info = append(info, nonce[s.salt:]...)
	info = append(info, key...)
	info = append(info, nonce[:s.salt]...)
	return info[:infoLen(s)], nil
}

// infoLen returns the length in bytes of the kernel's form.
func infoLen(s kernelSuite) int { return 4 + nonceLen + s.key + sequenceLen }

// expandLabel is HKDF-Expand-Label without a context (RFC 8446, Section 7.1).
func expandLabel(h func() hash.Hash, secret []byte, label string, n int) ([]byte, error) {
	const prefix = "tls13 "
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len(prefix)+len(label)))
	info = append(info, prefix+label...)
	return hkdf.Expand(h, secret, string(append(info, 0)), n)
}
