package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

func testCertificate(t *testing.T) (dir string, files rpctls.Files) {
	dir = t.TempDir()
	require.NoError(t, makeCertificate(dir))
	return dir, rpctls.Files{Cert: filepath.Join(dir, certFile), Key: filepath.Join(dir, keyFile)}
}

// TestDialNFS checks that calls are inside of TLS exactly if they shall be.
func TestDialNFS(t *testing.T) {
	dir, files := testCertificate(t)
	guard, err := rpctls.NewServer(rpctls.ServerConfig{Files: files})
	require.NoError(t, err)
	program := make(observer, 1)
	mux := new(oncrpc.Mux)
	mux.Register(nfs3.Program, nfs3.Version, program)
	l, err := listen()
	require.NoError(t, err)
	s := &oncrpc.Server{Handler: mux, Guard: guard}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	}()
	for _, secure := range []bool{false, true} {
		c, err := dialNFS(t.Context(), l.Addr().String(), map[bool][]string{true: {dir}}[secure])
		require.NoError(t, err)
		x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: 1}
		require.NoError(t, c.Call(t.Context(), &x))
		x.Release()
		assert.Equal(t, secure, <-program)
		require.NoError(t, c.Close())
	}
}

// An observer is a program that reports of each call whether it was inside of TLS.
type observer chan bool

// ServeRPC takes no arguments (oncrpc.Handler).
func (o observer) ServeRPC(_ context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
	o <- c.Peer.Security != nil
	return c.Args.Done()
}

// TestBareTLS checks that the limit has full records of TLS 1.3, and the cipher suite of
// which the row of AES-128-GCM has the cost.
func TestBareTLS(t *testing.T) {
	dir, _ := testCertificate(t)
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
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	os.Stdout = w
	require.NoError(t, gcm([]string{"", "1ns"}))
	w.Close()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"bytes":1048576,`)
}
