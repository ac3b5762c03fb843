package oncrpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/buf"
)

// TestTCPLine makes calls while the server is restarted at its port again and again,
// and checks that each is answered.
func TestTCPLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	serve := func(l net.Listener) (stop func()) {
		s := &Server{Handler: echoMux(), Log: quiet()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		return func() {
			now, cancel := context.WithCancel(t.Context())
			cancel()
			_ = s.Shutdown(now) // its error is that of now
			assert.NoError(t, <-served)
		}
	}
	stop := serve(l)
	line, err := DialTCPLine(t.Context(), addr, TCPLineConfig{Line: LineConfig{Log: quiet()}})
	require.NoError(t, err)
	var over atomic.Bool
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			data := bytes.Repeat([]byte{byte(i), 2, 3}, 10_000*i)
			for n := 0; n < 5 || !over.Load(); n++ {
				if err := ask(t.Context(), t, line, procEcho, data); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	for range 5 {
		require.NoError(t, ask(t.Context(), t, line, procHead, nil))
		stop()
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		stop = serve(l)
	}
	over.Store(true)
	callers.Wait()
	assert.True(t, line.Up())
	require.NoError(t, line.Close())
	stop()
	assert.Zero(t, buf.Default.Out(), "buffers")
}

// TestTCPLineSecure checks that no byte leaves over a connection that cannot be made
// secure, and that the reason is told.
func TestTCPLineSecure(t *testing.T) {
	refused := errors.New("no TLS here")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = DialTCPLine(t.Context(), l.Addr().String(), TCPLineConfig{
		Secure: func(_ context.Context, nc net.Conn) (net.Conn, error) {
			nc.Close()
			return nil, refused
		},
	})
	assert.Equal(t, refused, err)
	nc, err := l.Accept()
	require.NoError(t, err)
	defer nc.Close()
	n, err := nc.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.Error(t, err)
}
