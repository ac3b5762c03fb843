package rpctls

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// now is the time of all tests.
var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func testNow() time.Time { return now }

type (
	authority = certtest.Authority
	holder    = certtest.Holder
)

func newAuthority(t testing.TB, name string) *authority { return certtest.New(t, name, now) }

// filesOf returns the files of a holder, and of the authorities that it trusts.
func filesOf(h holder, trusted ...*authority) Files {
	f := Files{Cert: h.Cert, Key: h.Key}
	if len(trusted) > 0 {
		f.CA = certtest.Bundle(trusted...)
	}
	return f
}

// A testLog is a log that tests read.
type testLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *testLog) newLogger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *testLog) debugLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A testServer is a Server, and clients of it over TCP of this host.
type testServer struct {
	t      testing.TB
	server *Server
	log    *testLog
	l      net.Listener
}

func newRig(t testing.TB, cfg ServerConfig) *testServer {
	t.Helper()
	r := &testServer{t: t, log: new(testLog)}
	cfg.Log = r.log.newLogger()
	if cfg.Now == nil {
		cfg.Now = testNow
	}
	var err error
	r.server, err = NewServer(cfg)
	require.NoError(t, err)
	r.l, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		r.l.Close()
		assert.Zero(t, buf.Default.Out(), "buffers")
		st := r.server.Stats()
		assert.Zero(t, st.Open, "connections")
		assert.Zero(t, st.Handshakes, "handshakes")
		assert.Zero(t, r.server.memory.InUse(), "memory of writers")
		assert.Zero(t, r.server.writers.Len(), "parties of writers")
	})
	return r
}

func newTestClient(t testing.TB, cfg ClientConfig) *Client {
	t.Helper()
	if cfg.Host == "" {
		cfg.Host = "server"
	}
	if cfg.Now == nil {
		cfg.Now = testNow
	}
	c, err := NewClient(cfg)
	require.NoError(t, err)
	return c
}

// dialBoth returns both ends of a new connection.
func (r *testServer) dialBoth() (client, server net.Conn) {
	r.t.Helper()
	client, err := net.Dial("tcp", r.l.Addr().String())
	require.NoError(r.t, err)
	server, err = r.l.Accept()
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

// An handshakeEnd is what a handshake has at one end.
type handshakeEnd struct {
	conn *Conn
	err  error
}

// handshake makes a handshake, without a probe, and closes an end that has none. The client
// then waits for the server's verdict, as a client that reads does.
func (r *testServer) handshake(c *Client) (client, server handshakeEnd) {
	r.t.Helper()
	near, far := r.dialBoth()
	done := make(chan handshakeEnd, 1)
	go func() {
		s, err := r.server.Secure(context.Background(), far)
		if err != nil {
			done <- handshakeEnd{err: err}
			return
		}
		done <- handshakeEnd{conn: s.(*Conn)}
	}()
	client.conn, client.err = c.performHandshake(context.Background(), near, protocolRPC, c.cfg.Strict)
	server = <-done
	switch {
	case client.err == nil && server.err != nil:
		_, client.err = client.conn.Read(make([]byte, 1))
		client.conn.Close()
		client.conn = nil
	case client.err != nil && server.err == nil:
		_, server.err = server.conn.Read(make([]byte, 1))
		server.conn.Close()
		server.conn = nil
	}
	r.t.Cleanup(func() {
		for _, e := range []handshakeEnd{client, server} {
			if e.conn != nil {
				e.conn.Close()
			}
		}
	})
	return client, server
}

// handshakeOK is meet, which must succeed.
func (r *testServer) handshakeOK(c *Client) (client, server *Conn) {
	r.t.Helper()
	a, b := r.handshake(c)
	require.NoError(r.t, a.err)
	require.NoError(r.t, b.err)
	return a.conn, b.conn
}

var _ oncrpc.SecureConn = (*Conn)(nil)
