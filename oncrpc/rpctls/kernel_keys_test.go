package rpctls

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20poly1305"
)

func decodeHex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestKeySchedule checks the kernel's form of keys against the application traffic of RFC
// 8448, Section 3.
func TestKeySchedule(t *testing.T) {
	for _, c := range []struct{ secret, key, iv string }{
		{
			"9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
			"17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9",
		},
		{
			"a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
			"9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984",
		},
	} {
		info, err := cryptoInfo(tls.TLS_AES_128_GCM_SHA256, decodeHex(t, c.secret))
		require.NoError(t, err)
		want := binary.NativeEndian.AppendUint16(nil, 0x0304)
		want = binary.NativeEndian.AppendUint16(want, 51)
		want = append(want, decodeHex(t, c.iv[8:]+c.key+c.iv[:8]+"0000000000000000")...)
		assert.Equal(t, want, info)
	}
	for suite, size := range map[uint16]int{tls.TLS_AES_128_GCM_SHA256: 40, tls.TLS_AES_256_GCM_SHA384: 56, tls.TLS_CHACHA20_POLY1305_SHA256: 56} {
		info, err := cryptoInfo(suite, make([]byte, kernelSuites[suite].hash().Size()))
		require.NoError(t, err)
		assert.Len(t, info, size, "the structure of linux/tls.h")
	}
	_, err := cryptoInfo(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, make([]byte, 32))
	assert.ErrorIs(t, err, errSuite)
	_, err = cryptoInfo(tls.TLS_AES_128_GCM_SHA256, nil)
	assert.ErrorIs(t, err, errSecret)
}

// TestTrafficSecrets checks that the secrets of both directions are taken from the lines
// of the key log, and others are not.
func TestTrafficSecrets(t *testing.T) {
	var s trafficSecrets
	for i, label := range []string{
		"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0", "EXPORTER_SECRET",
	} {
		_, err := fmt.Fprintf(&s, "%s 00112233 %02x%02x\n", label, i, i)
		require.NoError(t, err)
	}
	assert.Equal(t, trafficSecrets{client: []byte{2, 2}, server: []byte{3, 3}}, s)
	assert.Equal(t, s.server, s.forDirection(sending, true))
	assert.Equal(t, s.client, s.forDirection(receiving, true))
	assert.Equal(t, s.client, s.forDirection(sending, false))
	assert.Equal(t, s.server, s.forDirection(receiving, false))
}

// A recordSealer makes and opens the records of one direction (RFC 8446, Section 5.2).
type recordSealer struct {
	t    testing.TB
	aead cipher.AEAD
	iv   []byte
	next uint64
}

func newSealer(t testing.TB, suite uint16, secret []byte) *recordSealer {
	s := kernelSuites[suite]
	key, err := expandLabel(s.hash, secret, "key", s.key)
	require.NoError(t, err)
	iv, err := expandLabel(s.hash, secret, "iv", nonceLen)
	require.NoError(t, err)
	if suite == tls.TLS_CHACHA20_POLY1305_SHA256 {
		aead, err := chacha20poly1305.New(key)
		require.NoError(t, err)
		return &recordSealer{t: t, aead: aead, iv: iv}
	}
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(t, err)
	return &recordSealer{t: t, aead: aead, iv: iv}
}

func (s *recordSealer) nextNonce() []byte {
	nonce := append([]byte(nil), s.iv...)
	last := nonce[nonceLen-8:]
	binary.BigEndian.PutUint64(last, binary.BigEndian.Uint64(last)^s.next)
	s.next++
	return nonce
}

// sealRecord returns the next record.
func (s *recordSealer) sealRecord(kind byte, content []byte) []byte {
	content = append(append([]byte(nil), content...), kind)
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(content)+s.aead.Overhead()))
	return s.aead.Seal(head, s.nextNonce(), content, head)
}

// openRecord returns the type and the content of the next record, without its header.
func (s *recordSealer) openRecord(body []byte) (kind byte, content []byte) {
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(body)))
	content, err := s.aead.Open(nil, s.nextNonce(), body, head)
	require.NoError(s.t, err)
	last := len(content) - 1
	return content[last], content[:last]
}
