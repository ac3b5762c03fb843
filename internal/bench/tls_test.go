package main

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBareTLS checks that the limit has full records of TLS 1.3, and the cipher
// suite whose cost the AES-128-GCM row shows.
func TestBareTLS(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, createCertificate(dir))
	cfg, err := plainTLSConfig(dir)
	require.NoError(t, err)
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		sendRepeatedly(tls.Server(far, cfg), make([]byte, blockSize))
	}()
	seen := &byteCounter{Conn: near}
	c := tls.Client(seen, cfg)
	require.NoError(t, c.Handshake())
	seen.bytes = 0
	_, err = io.ReadFull(c, make([]byte, blockSize))
	require.NoError(t, err)
	assert.Equal(t, tls.TLS_AES_128_GCM_SHA256, c.ConnectionState().CipherSuite)
	assert.Equal(t, blockSize/tlsRecordSize*(5+tlsRecordSize+1+16), seen.bytes) // header, content, type, tag
	near.Close()
}

// A byteCounter counts the bytes that are read.
type byteCounter struct {
	net.Conn
	bytes int
}

func (s *byteCounter) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.bytes += n
	return n, err
}

// TestGCM checks that the cipher's role measures for the given time.
func TestGCM(t *testing.T) {
	text := captureOutput(t, func() error { return runGCM([]string{"", "1ns"}) })
	assert.Contains(t, text, `"bytes":1048576,`)
}
