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

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// TestTCPLine makes calls while the server is restarted at its port again and again,
// and checks that each is answered.
func TestTCPLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	serve := func(l net.Listener) (stop func()) {
		s := &Server{Handler: echoMux(), Log: discardLogger()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		return func() {
			now, cancel := context.WithCancel(t.Context())
			cancel()
			_ = s.Shutdown(now) // its error is that of now
			assert.NoError(t, <-served)
			assert.NoError(t, s.Shutdown(t.Context()), "its calls have ended")
		}
	}
	stop := serve(l)
	line, err := DialTCPLine(t.Context(), addr, TCPLineConfig{Line: LineConfig{Log: discardLogger()}})
	require.NoError(t, err)
	var over atomic.Bool
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			data := bytes.Repeat([]byte{byte(i), 2, 3}, 10_000*i)
			for n := 0; n < 5 || !over.Load(); n++ {
				if err := callEcho(t.Context(), t, line, procEcho, data); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	for range 5 {
		require.NoError(t, callEcho(t.Context(), t, line, procHead, nil))
		stop()
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		stop = serve(l)
	}
	over.Store(true)
	callers.Wait()
	require.NoError(t, callEcho(t.Context(), t, line, procHead, nil), "the callers may not have used the last server")
	assert.True(t, line.Up())
	require.NoError(t, line.Close())
	stop()
	assert.Zero(t, buf.Default.Out(), "buffers")
}

// TestTCPLinePort checks that connections of a Line come from one port, in whatever way
// the one before has ended: by the port too, Linux's server recognizes the calls that are
// sent again.
func TestTCPLinePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	accept := func() *net.TCPConn {
		nc, err := l.Accept()
		require.NoError(t, err)
		return nc.(*net.TCPConn)
	}
	line, err := DialTCPLine(t.Context(), l.Addr().String(), TCPLineConfig{Line: LineConfig{Log: discardLogger()}})
	require.NoError(t, err)
	defer line.Close()
	server := accept()
	port := server.RemoteAddr().String()
	for name, end := range map[string]func(){
		"in order": func() { server.Close() },
		"reset":    func() { _ = server.SetLinger(0); server.Close() },
		"half":     func() { _ = server.CloseWrite() },
		"aborted":  func() { line.Conn().Abort(errors.New("silent")) },
		"nonsense": func() { sendParts(t, server, []byte("HTTP/1.1 400 Bad Request")) },
	} {
		done := make(chan error, 1)
		go func() { done <- callEcho(t.Context(), t, line, procHead, nil) }()
		first := xidOf(readRecord(t, server))
		end()
		next := accept()
		assert.Equal(t, port, next.RemoteAddr().String(), name)
		server.Close()
		server = next
		sendParts(t, server, newRecord(rpcmsg.AppendAccepted(nil, xidOf(readRecord(t, server)), rpcmsg.Success))) // the Line's own call
		again := readRecord(t, server)
		assert.Equal(t, first, xidOf(again), name)
		sendParts(t, server, newRecord(echoReply(first, procHead, nil)))
		require.NoError(t, <-done)
	}
	server.Close()
}

// TestDialAgain checks that a port that is in use is not waited for.
func TestDialAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	first, err := DialReserved(t.Context(), l.Addr().String())
	require.NoError(t, err)
	defer first.Close()
	next, err := redialFrom(t.Context(), l.Addr().String(), localPort(first))
	require.NoError(t, err)
	defer next.Close()
	assert.NotEqual(t, localPort(first), localPort(next))
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
