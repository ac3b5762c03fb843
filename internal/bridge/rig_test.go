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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rig is a server of a directory over RDMA in memory, and a bridge to it on a
// TCP port.
type rig struct {
	t      testing.TB
	dir    string
	mux    *oncrpc.Mux // of the server
	far    *far
	line   *rpcrdma.Client
	bridge *Bridge
	addr   string // of the bridge
}

// A far is the server's end. It can be stopped and started.
type far struct {
	t       testing.TB
	service oncrpc.Service
	inline  int

	mu    sync.Mutex
	l     *rdmatest.Listener // nil: it is stopped
	srv   *rpcrdma.Server
	ended chan error
}

func (f *far) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := rdmatest.Listen(f.t)
	f.t.Cleanup(f.stop) // before the listener is closed
	f.l, f.ended = l, make(chan error, 1)
	f.srv = &rpcrdma.Server{Handler: f.service, Inline: f.inline, MaxPayload: MaxPayload, Log: slog.New(slog.DiscardHandler)}
	go func(s *rpcrdma.Server, ended chan<- error) { ended <- s.Serve(l) }(f.srv, f.ended)
}

// stop ends the server at once, as if it were killed.
func (f *far) stop() {
	f.mu.Lock()
	l, srv, ended := f.l, f.srv, f.ended
	f.l = nil
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
func (f *far) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	f.mu.Lock()
	l := f.l
	f.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	return l.Dial(ctx, cfg)
}

// A setup describes a rig.
type setup struct {
	inline  int                                 // of both ends; 0: the default
	credits int                                 // of the client's end; 0: the default
	giveUp  time.Duration                       // of the RDMA connection
	service func(oncrpc.Service) oncrpc.Service // wraps the server's programs
	front   func(oncrpc.Service) oncrpc.Service // wraps the bridge
	mount   func(*rig) *Mount                   // of the bridge
}

// newRig makes a rig. At the end of the test, leftover goroutines or buffers
// fail it.
func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() { settled(t, before) })
	g := &rig{t: t, dir: t.TempDir(), mux: &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}}
	files, err := posix.Open(g.dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, files.Close()) })
	nfs, err := nfsserver.New(nfsserver.Config{
		Exports:    []nfsserver.Export{{Path: "/x", FS: files, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}},
		MaxPayload: 1 << 20, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	nfs.Register(g.mux)
	g.far = &far{t: t, service: g.mux, inline: s.inline}
	if s.service != nil {
		g.far.service = s.service(g.mux)
	}
	g.far.start()
	g.line, err = rpcrdma.Dial(t.Context(), g.far, "server", rpcrdma.ClientConfig{
		Conn: rpcrdma.ClientConnConfig{Inline: s.inline, Credits: s.credits}, GiveUp: s.giveUp, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.line.Close()) })
	null := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version} // for the server's grant
	require.NoError(t, g.line.Call(t.Context(), &null))
	null.Release()
	g.bridge = &Bridge{NFS: g.line, Credits: func() int { return g.line.Conn().Credits() }, Insecure: true, Log: slog.New(slog.DiscardHandler)}
	g.bridge.Dial = func(ctx context.Context) (Line, error) {
		return rpcrdma.DialConn(ctx, g.far, "server", rpcrdma.ClientConnConfig{Inline: s.inline})
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

// settled checks that all goroutines and buffers are gone, or go soon.
func settled(t testing.TB, before int) {
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

// mount returns a client over TCP, at the bridge or the server.
func mount(t testing.TB, addr string) *nfsclient.FS {
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

// handle returns the file handle of the export.
func (g *rig) handle() nfs3.FH {
	g.t.Helper()
	c, err := oncrpc.DialTCP(g.t.Context(), g.addr, oncrpc.ClientConfig{})
	require.NoError(g.t, err)
	defer c.Close()
	root, err := nfsclient.NewMount(c, nil).Mnt(g.t.Context(), "/x")
	require.NoError(g.t, err)
	return root
}

// A raw is a TCP connection for records that our clients would not send.
type raw struct {
	t testing.TB
	net.Conn
}

func dialRaw(t testing.TB, addr string) raw {
	t.Helper()
	return dialFrom(t, "127.0.0.1", addr)
}

// dialFrom is dialRaw from an address of this host.
func dialFrom(t testing.TB, ip, addr string) raw {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return raw{t, c}
}

// record returns a message as one fragment.
func record(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...)
}

func (r raw) send(msg []byte) {
	r.t.Helper()
	_, err := r.Write(record(msg))
	require.NoError(r.t, err)
}

// fragment reads one fragment.
func (r raw) fragment() (msg []byte, last bool) {
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

// answered reports whether a reply comes, and not the connection's end.
func (r raw) answered() bool {
	r.t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := r.Read(make([]byte, 1<<10))
	assert.NotErrorIs(r.t, err, os.ErrDeadlineExceeded)
	return n > 0
}

// reply reads a reply, which is one fragment.
func (r raw) reply() []byte {
	r.t.Helper()
	msg, last := r.fragment()
	assert.True(r.t, last, "more than one fragment")
	return msg
}

// closed checks that the other end closes the connection.
func (r raw) closed() {
	r.t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := io.Copy(io.Discard, r)
	assert.Zero(r.t, n, "bytes before the end")
	assert.NotErrorIs(r.t, err, os.ErrDeadlineExceeded)
}

// call returns a call message with a credential of AUTH_SYS.
func call(xid, prog, vers, proc uint32, args []byte) []byte {
	x := oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}}
	return append(oncrpc.AppendCall(nil, xid, &x, "client"), args...)
}

// random returns n incompressible bytes, which depend on the seed.
func random(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// A spy records the calls that reach a server.
type spy struct {
	oncrpc.Service
	mu   sync.Mutex
	seen []oncrpc.Request
}

func (s *spy) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.mu.Lock()
	s.seen = append(s.seen, oncrpc.Request{
		Msg: slices.Clone(req.Msg), Item: slices.Clone(req.Item), ItemPos: req.ItemPos, MaxReply: req.MaxReply,
	})
	s.mu.Unlock()
	return s.Service.Serve(ctx, req, rep)
}

// take returns the calls since the last take.
func (s *spy) take() []oncrpc.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}
