package nfs4client

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A testServer is a server on a loopback TCP port, which can restart.
type testServer struct {
	t      testing.TB
	realm  *exportset.Set
	server *nfs4server.Server
	addr   string
	mux    atomic.Pointer[oncrpc.Mux]

	// each call holds calls for reading: a daemon that has stopped executes no
	// more calls.
	calls sync.RWMutex

	mu    sync.Mutex
	epoch uint32
	conns []*brokenConn
	// The next refuseDials attempts to connect fail; wrapConn, if not nil,
	// wraps each connection.
	refuseDials int
	wrapConn    func(Conn) Conn
}

// Serve passes calls to the present server (oncrpc.Service).
func (g *testServer) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	g.calls.RLock()
	defer g.calls.RUnlock()
	return g.mux.Load().Serve(ctx, req, rep)
}

func newTestServer(t testing.TB, exports ...exportset.Export) *testServer {
	t.Helper()
	if len(exports) == 0 {
		exports = []exportset.Export{{Path: "/a/b", FS: mem.New(mem.Options{Size: 1 << 30})}}
	}
	out := buf.Default.Out()
	t.Cleanup(func() { assert.Equal(t, out, buf.Default.Out(), "unreturned buffers") })
	r, err := exportset.New(exportset.Config{Exports: exports})
	require.NoError(t, err)
	g := &testServer{t: t, realm: r, epoch: 6}
	g.restartServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.addr = l.Addr().String()
	srv := &oncrpc.Server{Handler: g}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return g
}

// restartServer makes the server lose all clients' state, and closes the
// connections.
func (g *testServer) restartServer() {
	g.mu.Lock()
	g.epoch++
	start, epoch := time.Now(), g.epoch
	g.mu.Unlock()
	state := nfs4state.New(nfs4server.WithFiles(nfs4state.Config{Now: func() time.Duration { return time.Since(start) }, Epoch: epoch, Lease: 40 * time.Second}))
	s := nfs4server.New(nfs4server.Config{Exports: g.realm, State: state, Lease: 40 * time.Second})
	mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	s.Register(mux)
	g.calls.Lock()
	g.mux.Store(mux)
	g.calls.Unlock()
	g.cutConns()
	if g.server != nil {
		g.server.Close() // a process that has exited has nothing open
	}
	g.server = s
}

// cutConns closes all connections.
func (g *testServer) cutConns() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

func (g *testServer) dialServer(ctx context.Context) (Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuseDials > 0 {
		g.refuseDials--
		return nil, io.ErrUnexpectedEOF
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", g.addr)
	if err != nil {
		return nil, err
	}
	c := &brokenConn{Conn: nc}
	g.conns = append(g.conns, c)
	var conn Conn = oncrpc.NewTCPClient(c, oncrpc.ClientConfig{})
	if g.wrapConn != nil {
		conn = g.wrapConn(conn)
	}
	return conn, nil
}

// lastConn returns the present connection.
func (g *testServer) lastConn() *brokenConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns[len(g.conns)-1]
}

var asRoot = rpcmsg.Cred{Flavor: rpcmsg.AuthSys}

// newSession creates a Session that the test closes.
func (g *testServer) newSession(change ...func(*Config)) *Session {
	g.t.Helper()
	cfg := Config{Dial: g.dialServer, Network: "tcp", Minor: 2, Cred: asRoot, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	s, err := Dial(g.t.Context(), cfg)
	require.NoError(g.t, err)
	closeLater(g.t, s)
	return s
}

// closeLater closes s when the test ends, and fails the test if that takes
// long.
func closeLater(t testing.TB, s *Session) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, s.Close(ctx))
	})
}

// exportRoot returns the export's handle.
func exportRoot(t testing.TB, s *Session) nfs4.FH {
	t.Helper()
	h, err := s.Walk(t.Context(), "/a/b")
	require.NoError(t, err)
	return h
}

// A brokenConn closes after a number of bytes in one direction, if it is armed.
type brokenConn struct {
	net.Conn
	mu   sync.Mutex
	left [2]int // bytes to be read, written
	on   [2]bool
}

const (
	reading = iota
	writing
)

// armAfter makes c close after n more bytes in one direction.
func (c *brokenConn) armAfter(way, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[way], c.on[way] = n, true
}

// disarmCut disarms c, and reports whether c was still armed.
func (c *brokenConn) disarmCut(way int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on[way] = false
	return c.left[way] > 0
}

// allowBytes returns the number of bytes, of n, that may pass, and whether c
// closes after them.
func (c *brokenConn) allowBytes(way, n int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on[way] || n < c.left[way] {
		c.left[way] -= n
		return n, false
	}
	may := c.left[way]
	c.left[way] = 0
	return may, true
}

func (c *brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	may, over := c.allowBytes(reading, n)
	if over {
		_ = c.Close()
		return may, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *brokenConn) Write(p []byte) (int, error) {
	may, over := c.allowBytes(writing, len(p))
	n, err := c.Conn.Write(p[:may])
	if over {
		_ = c.Close()
		return n, io.ErrClosedPipe
	}
	return n, err
}

// newRDMASession creates a Session over RPC-over-RDMA in memory. sent, if any,
// gets each message that the client sends.
func (g *testServer) newRDMASession(sent ...func(msg []byte)) *Session {
	g.t.Helper()
	l := rdmatest.Listen(g.t)
	srv := &rpcrdma.Server{Handler: g}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	g.t.Cleanup(func() {
		assert.NoError(g.t, srv.Shutdown(context.Background()))
		assert.NoError(g.t, <-served)
	})
	return g.newSession(func(c *Config) {
		c.Network = "rdma"
		c.Dial = func(ctx context.Context) (Conn, error) {
			return rpcrdma.DialConn(ctx, recordingDialer{fakeDialer{l}, sent}, "", rpcrdma.ClientConnConfig{})
		}
	})
}

// fakeDialer dials a listener in memory.
type fakeDialer struct{ l *rdmatest.Listener }

func (d fakeDialer) Dial(ctx context.Context, _ string, c rdma.ConnConfig) (rdma.Conn, error) {
	return d.l.Dial(ctx, c)
}
