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

// A direction is one of a connection's directions, as the kernel numbers them for its end
// (linux/tls.h).
type direction int

const (
	sending   direction = 1 // TLS_TX
	receiving direction = 2 // TLS_RX
)

// trafficSecrets are a connection's first application traffic secrets (RFC 8446, Section
// 7.1), which crypto/tls provides only as key log lines.
type trafficSecrets struct{ client, server []byte }

// Write parses one key log line (tls.Config.KeyLogWriter):
//
//	label │ client random │ secret
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

// forDirection returns the secret for a direction.
func (s *trafficSecrets) forDirection(d direction, server bool) []byte {
	if server == (d == sending) {
		return s.server
	}
	return s.client
}

// A kernelSuite has a cipher suite's parameters for the kernel (linux/tls.h).
type kernelSuite struct {
	cipher uint16 // TLS_CIPHER_...
	key    int    // bytes
	salt   int    // bytes at the nonce's start that have a separate field
	hash   func() hash.Hash
}

var kernelSuites = map[uint16]kernelSuite{
	tls.TLS_AES_128_GCM_SHA256:       {51, 16, 4, sha256.New},
	tls.TLS_AES_256_GCM_SHA384:       {52, 32, 4, sha512.New384},
	tls.TLS_CHACHA20_POLY1305_SHA256: {54, 32, 0, sha256.New},
}

const (
	nonceLen    = 12 // for all TLS 1.3 suites
	sequenceLen = 8
)

var (
	errSuite  = errors.New("rpctls: kernel TLS is not used for this cipher suite")
	errSecret = errors.New("rpctls: crypto/tls did not provide the connection's secrets")
)

// cryptoInfo returns one direction's keys in the kernel's format, with record number 0.
// All structures tls12_crypto_info_... in linux/tls.h have this order:
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

// infoLen returns the length in bytes of cryptoInfo's result.
func infoLen(s kernelSuite) int { return 4 + nonceLen + s.key + sequenceLen }

// expandLabel is HKDF-Expand-Label without a context (RFC 8446, Section 7.1).
func expandLabel(h func() hash.Hash, secret []byte, label string, n int) ([]byte, error) {
	const prefix = "tls13 "
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len(prefix)+len(label)))
	info = append(info, prefix+label...)
	return hkdf.Expand(h, secret, string(append(info, 0)), n)
}
