package bridge

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A testBridge is a server that exports a directory over RDMA in memory, and a
// bridge to it on a TCP port.
type testBridge struct {
	t      testing.TB
	dir    string
	mux    *oncrpc.Mux // the server's programs
	server *restartableServer
	client *rpcrdma.Client
	bridge *Bridge
	addr   string // the bridge's address
}

// A restartableServer is the server that the bridge uses. It can be killed and
// started again.
type restartableServer struct {
	t       testing.TB
	service oncrpc.Service
	inline  int

	mu       sync.Mutex
	listener *rdmatest.Listener // nil: it is stopped
	srv      *rpcrdma.Server
	served   chan error
}

func (f *restartableServer) startServer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := rdmatest.Listen(f.t)
	f.t.Cleanup(f.killServer) // before the listener is closed
	f.listener, f.served = l, make(chan error, 1)
	f.srv = &rpcrdma.Server{Handler: f.service, Inline: f.inline, MaxPayload: maxPayload, Log: slog.New(slog.DiscardHandler)}
	go func(s *rpcrdma.Server, ended chan<- error) { ended <- s.Serve(l) }(f.srv, f.served)
}

// killServer stops the server at once, as if it were killed.
func (f *restartableServer) killServer() {
	f.mu.Lock()
	l, srv, ended := f.listener, f.srv, f.served
	f.listener = nil
	f.mu.Unlock()
	if l == nil {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = srv.Shutdown(now)
	assert.NoError(f.t, <-ended)
}

// Dial implements rdma.Dialer.
func (f *restartableServer) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	f.mu.Lock()
	l := f.listener
	f.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	return l.Dial(ctx, cfg)
}

// A bridgeOptions describes a testBridge.
type bridgeOptions struct {
	inline  int                                 // inline threshold for both ends; 0: the default
	credits int                                 // credits that the client requests; 0: the default
	giveUp  time.Duration                       // GiveUp of the RDMA client
	service func(oncrpc.Service) oncrpc.Service // wraps the server's programs
	front   func(oncrpc.Service) oncrpc.Service // wraps the bridge
	mount   func(*testBridge) *Mount            // the bridge's address
}

// newTestBridge starts a server and a bridge to it. At the end of the test,
// leftover goroutines or buffers fail it.
func newTestBridge(t testing.TB, s bridgeOptions) *testBridge {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() { assertNoLeaks(t, before) })
	g := &testBridge{t: t, dir: t.TempDir(), mux: &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}}
	files, err := posix.Open(g.dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, files.Close()) })
	nfs, err := nfsserver.New(nfsserver.Config{
		Exports:    []nfsserver.Export{{Path: "/x", FS: files, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}},
		MaxPayload: 1 << 20, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	nfs.Register(g.mux)
	g.server = &restartableServer{t: t, service: g.mux, inline: s.inline}
	if s.service != nil {
		g.server.service = s.service(g.mux)
	}
	g.server.startServer()
	g.client, err = rpcrdma.Dial(t.Context(), g.server, "server", rpcrdma.ClientConfig{
		Conn: rpcrdma.ClientConnConfig{Inline: s.inline, Credits: s.credits}, GiveUp: s.giveUp, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.client.Close()) })
	null := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version} // to get the server's credit grant
	require.NoError(t, g.client.Call(t.Context(), &null))
	null.Release()
	g.bridge = &Bridge{NFS: g.client, Credits: func() int { return g.client.Conn().Credits() }, Insecure: true, Log: slog.New(slog.DiscardHandler)}
	g.bridge.Dial = func(ctx context.Context) (Line, error) {
		return rpcrdma.DialConn(ctx, g.server, "server", rpcrdma.ClientConnConfig{Inline: s.inline})
	}
	if s.mount != nil {
		g.bridge.MOUNT = s.mount(g)
	}
	var service oncrpc.Service = g.bridge
	if s.front != nil {
		service = s.front(service)
	}
	g.addr = serveTCP(t, service)
	return g
}

// assertNoLeaks waits until no goroutines and buffers are left over, or fails the
// test.
func assertNoLeaks(t testing.TB, before int) {
	end := time.Now().Add(5 * time.Second)
	for (runtime.NumGoroutine() > before || buf.Default.Out() > 0) && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before, "goroutines")
	assert.Zero(t, buf.Default.Out(), "buffers")
}

// serveTCP serves a service on TCP until the test ends.
func serveTCP(t testing.TB, s oncrpc.Service) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &oncrpc.Server{Handler: s, MaxRecord: MaxRecord, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-ended)
	})
	return l.Addr().String()
}

// mountOverTCP mounts the export over TCP, from the bridge or the server.
func mountOverTCP(t testing.TB, addr string) *nfsclient.FS {
	t.Helper()
	c, err := oncrpc.DialTCP(t.Context(), addr, oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	root, err := nfsclient.NewMount(c, nil).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	fs, err := nfsclient.New(c, nfsclient.Config{}).FS(t.Context(), root, "/x")
	require.NoError(t, err)
	return fs
}

// exportHandle returns the export's file handle.
func (g *testBridge) exportHandle() nfs3.FH {
	g.t.Helper()
	c, err := oncrpc.DialTCP(g.t.Context(), g.addr, oncrpc.ClientConfig{})
	require.NoError(g.t, err)
	defer c.Close()
	root, err := nfsclient.NewMount(c, nil).Mnt(g.t.Context(), "/x")
	require.NoError(g.t, err)
	return root
}

// A rawConn is a TCP connection for records that our clients would not send.
type rawConn struct {
	t testing.TB
	net.Conn
}

func dialRaw(t testing.TB, addr string) rawConn {
	t.Helper()
	return dialFrom(t, "127.0.0.1", addr)
}

// dialFrom connects from an address of this host.
func dialFrom(t testing.TB, ip, addr string) rawConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return rawConn{t, c}
}

// encodeRecord returns a message as one fragment.
func encodeRecord(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...)
}

func (r rawConn) sendMessage(msg []byte) {
	r.t.Helper()
	_, err := r.Write(encodeRecord(msg))
	require.NoError(r.t, err)
}

// readFragment reads one fragment.
func (r rawConn) readFragment() (msg []byte, last bool) {
	r.t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	var mark [4]byte
	_, err := io.ReadFull(r, mark[:])
	require.NoError(r.t, err)
	n := binary.BigEndian.Uint32(mark[:])
	msg = make([]byte, n&^(1<<31))
	_, err = io.ReadFull(r, msg)
	require.NoError(r.t, err)
	return msg, n>>31 == 1
}

// isAnswered reports whether a reply arrives before the connection is closed.
func (r rawConn) isAnswered() bool {
	r.t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := r.Read(make([]byte, 1<<10))
	assert.NotErrorIs(r.t, err, os.ErrDeadlineExceeded)
	return n > 0
}

// readReply reads a reply, which is one fragment.
func (r rawConn) readReply() []byte {
	r.t.Helper()
	msg, last := r.readFragment()
	assert.True(r.t, last, "more than one fragment")
	return msg
}

// assertClosed checks that the other end closes the connection.
func (r rawConn) assertClosed() {
	r.t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := io.Copy(io.Discard, r)
	assert.Zero(r.t, n, "bytes before the end")
	assert.NotErrorIs(r.t, err, os.ErrDeadlineExceeded)
}

// encodeCall returns a call message with an AUTH_SYS credential.
func encodeCall(xid, prog, vers, proc uint32, args []byte) []byte {
	x := oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}}
	return append(oncrpc.AppendCall(nil, xid, &x, "client"), args...)
}

// randomBytes returns n incompressible bytes, which depend on the seed.
func randomBytes(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// A recordingService records the calls that reach a server.
type recordingService struct {
	oncrpc.Service
	mu   sync.Mutex
	seen []oncrpc.Request
}

func (s *recordingService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.mu.Lock()
	s.seen = append(s.seen, oncrpc.Request{
		Msg: slices.Clone(req.Msg), Item: slices.Clone(req.Item), ItemPos: req.ItemPos, MaxReply: req.MaxReply,
	})
	s.mu.Unlock()
	return s.Service.Serve(ctx, req, rep)
}

// takeCalls returns the calls since the last take.
func (s *recordingService) takeCalls() []oncrpc.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}
