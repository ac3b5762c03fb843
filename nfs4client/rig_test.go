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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A rig is a server on a loopback TCP port, which can restart.
type rig struct {
	t      testing.TB
	realm  *realm.Realm
	server *nfs4server.Server
	addr   string
	mux    atomic.Pointer[oncrpc.Mux]

	// calls is held for reading by each call: a daemon that has ended executes
	// none any more.
	calls sync.RWMutex

	mu    sync.Mutex
	epoch uint32
	conns []*cutConn
	// refuse makes the next attempts to connect fail; wrap, if not nil, is put
	// in front of each connection.
	refuse int
	wrap   func(Conn) Conn
}

// Serve passes calls to the present server (oncrpc.Service).
func (g *rig) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	g.calls.RLock()
	defer g.calls.RUnlock()
	return g.mux.Load().Serve(ctx, req, rep)
}

func newRig(t testing.TB, exports ...realm.Export) *rig {
	t.Helper()
	if len(exports) == 0 {
		exports = []realm.Export{{Path: "/a/b", FS: mem.New(mem.Options{Size: 1 << 30})}}
	}
	out := buf.Default.Out()
	t.Cleanup(func() { assert.Equal(t, out, buf.Default.Out(), "unreturned buffers") })
	r, err := realm.New(realm.Config{Exports: exports})
	require.NoError(t, err)
	g := &rig{t: t, realm: r, epoch: 6}
	g.restart()
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

// restart makes the server forget all clients, and cuts the connections.
func (g *rig) restart() {
	g.mu.Lock()
	g.epoch++
	start, epoch := time.Now(), g.epoch
	g.mu.Unlock()
	state := nfs4state.New(nfs4server.WithFiles(nfs4state.Config{Now: func() time.Duration { return time.Since(start) }, Epoch: epoch, Lease: 40 * time.Second}))
	s := nfs4server.New(nfs4server.Config{Realm: g.realm, State: state, Lease: 40 * time.Second})
	mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	s.Register(mux)
	g.calls.Lock()
	g.mux.Store(mux)
	g.calls.Unlock()
	g.cut()
	if g.server != nil {
		g.server.Close() // a process that ends has nothing open
	}
	g.server = s
}

// cut ends all connections.
func (g *rig) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

func (g *rig) dial(ctx context.Context) (Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse > 0 {
		g.refuse--
		return nil, io.ErrUnexpectedEOF
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", g.addr)
	if err != nil {
		return nil, err
	}
	c := &cutConn{Conn: nc}
	g.conns = append(g.conns, c)
	var conn Conn = oncrpc.NewTCPClient(c, oncrpc.ClientConfig{})
	if g.wrap != nil {
		conn = g.wrap(conn)
	}
	return conn, nil
}

// last returns the present connection.
func (g *rig) last() *cutConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns[len(g.conns)-1]
}

var asRoot = rpcmsg.Cred{Flavor: rpcmsg.AuthSys}

// connect makes a Session that the test closes.
func (g *rig) connect(change ...func(*Config)) *Session {
	g.t.Helper()
	cfg := Config{Dial: g.dial, Network: "tcp", Minor: 2, Cred: asRoot, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	s, err := Dial(g.t.Context(), cfg)
	require.NoError(g.t, err)
	closeLater(g.t, s)
	return s
}

// closeLater closes s at the end of the test, which fails if that takes long.
func closeLater(t testing.TB, s *Session) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, s.Close(ctx))
	})
}

// home returns the handle of the export.
func home(t testing.TB, s *Session) nfs4.FH {
	t.Helper()
	h, err := s.Walk(t.Context(), "/a/b")
	require.NoError(t, err)
	return h
}

// A cutConn ends after a number of bytes in one direction, if it is armed.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left [2]int // bytes to be read, written
	on   [2]bool
}

const (
	reading = iota
	writing
)

// arm makes c end after n more bytes in one direction.
func (c *cutConn) arm(way, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[way], c.on[way] = n, true
}

// disarm lets c live on, and reports whether c was still to end.
func (c *cutConn) disarm(way int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on[way] = false
	return c.left[way] > 0
}

// allow returns how many of n bytes may go, and whether c ends after them.
func (c *cutConn) allow(way, n int) (int, bool) {
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

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	may, over := c.allow(reading, n)
	if over {
		_ = c.Close()
		return may, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *cutConn) Write(p []byte) (int, error) {
	may, over := c.allow(writing, len(p))
	n, err := c.Conn.Write(p[:may])
	if over {
		_ = c.Close()
		return n, io.ErrClosedPipe
	}
	return n, err
}

// overRDMA makes a Session over RPC-over-RDMA in memory. sent, if any, gets each
// message that the client sends.
func (g *rig) overRDMA(sent ...func(msg []byte)) *Session {
	g.t.Helper()
	l := rdmatest.Listen(g.t)
	srv := &rpcrdma.Server{Handler: g}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	g.t.Cleanup(func() {
		assert.NoError(g.t, srv.Shutdown(context.Background()))
		assert.NoError(g.t, <-served)
	})
	return g.connect(func(c *Config) {
		c.Network = "rdma"
		c.Dial = func(ctx context.Context) (Conn, error) {
			return rpcrdma.DialConn(ctx, tap{memDialer{l}, sent}, "", rpcrdma.ClientConnConfig{})
		}
	})
}

// memDialer dials a listener in memory.
type memDialer struct{ l *rdmatest.Listener }

func (d memDialer) Dial(ctx context.Context, _ string, c rdma.ConnConfig) (rdma.Conn, error) {
	return d.l.Dial(ctx, c)
}
