package main

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBareTLS checks that the limit has full records of TLS 1.3, and the cipher suite of
// which the row of AES-128-GCM has the cost.
func TestBareTLS(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, makeCertificate(dir))
	cfg, err := bareTLS(dir)
	require.NoError(t, err)
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		send(tls.Server(far, cfg), make([]byte, block))
	}()
	seen := &tally{Conn: near}
	c := tls.Client(seen, cfg)
	require.NoError(t, c.Handshake())
	seen.bytes = 0
	_, err = io.ReadFull(c, make([]byte, block))
	require.NoError(t, err)
	assert.Equal(t, tls.TLS_AES_128_GCM_SHA256, c.ConnectionState().CipherSuite)
	assert.Equal(t, block/record*(5+record+1+16), seen.bytes) // header, content, type, tag
	near.Close()
}

// A tally counts the bytes that are read.
type tally struct {
	net.Conn
	bytes int
}

func (s *tally) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.bytes += n
	return n, err
}

// TestGCM checks that the cipher's role measures as long as told.
func TestGCM(t *testing.T) {
	text := printed(t, func() error { return gcm([]string{"", "1ns"}) })
	assert.Contains(t, text, `"bytes":1048576,`)
}
