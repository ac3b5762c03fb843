package fusefs

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A testServer serves a directory of the host in this process, over RPC-over-RDMA
// in memory.
type testServer struct {
	t      testing.TB
	dir    string // the served directory
	l      *rdmatest.Listener
	keeper *delegserver.Keeper // nil: the server grants nothing
}

// needFUSE checks that the environment permits these tests.
func needFUSE(t testing.TB) {
	t.Helper()
	require.Zero(t, os.Geteuid(), "these tests mount file systems and act as several users: run them as root")
	_, err := os.Stat(device)
	require.NoError(t, err, "these tests mount FUSE file systems: load the kernel's FUSE with modprobe fuse")
}

// newBackingDir returns a directory for a server, in memory if possible: elsewhere
// most changes wait for the disk.
func newBackingDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fusefs")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// newServer serves a new directory, wrapped by wrap if not nil.
func newServer(t testing.TB, wrap func(vfs.FS) vfs.FS) *testServer {
	return newServerWith(t, wrap, nil, exports.Options{})
}

// newServerWith serves a new directory, wrapped by wrap if not nil, and grants
// delegations with keep if not nil.
func newServerWith(t testing.TB, wrap func(vfs.FS) vfs.FS, keep *delegserver.Keeper, how exports.Options) *testServer {
	t.Helper()
	needFUSE(t)
	s := &testServer{t: t, dir: newBackingDir(t), l: rdmatest.Listen(t), keeper: keep}
	require.NoError(t, os.Chmod(s.dir, 0o777))
	fs, err := posix.Open(s.dir, posix.Options{})
	require.NoError(t, err)
	served := vfs.FS(fs)
	if wrap != nil {
		served = wrap(fs)
	}
	mux, err := newPrograms(served, keep, how)
	require.NoError(t, err)
	srv := &rpcrdma.Server{Handler: mux}
	if keep != nil {
		srv.Extensions = keep.Extension()
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(s.l) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-done)
		assert.NoError(t, fs.Close())
		assert.Zero(t, buf.Default.Out(), "unreturned buffers")
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		assert.NotContains(t, string(stacks), "fusefs.(*Mount)", "goroutines left")
	})
	return s
}

// newPrograms returns the NFS and MOUNT programs that export fs as /x.
func newPrograms(fs vfs.FS, keep *delegserver.Keeper, how exports.Options) (*oncrpc.Mux, error) {
	how.NoRootSquash, how.Insecure = true, true
	n, err := nfsserver.New(nfsserver.Config{
		Exports: []nfsserver.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(how)}}, Grants: keep,
	})
	if err != nil {
		return nil, err
	}
	mux := &oncrpc.Mux{Log: discard}
	n.Register(mux)
	return mux, nil
}

// newReachableDir returns a directory that all users can access, unlike a test's own.
func newReachableDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	return dir
}

// path returns the path of a file in the server's directory.
func (s *testServer) path(name string) string { return filepath.Join(s.dir, name) }

// discard is a logger that discards everything.
var discard = slog.New(slog.DiscardHandler)

type memDialer struct {
	l    *rdmatest.Listener
	last atomic.Pointer[rdmatest.Conn]
}

func (d *memDialer) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := d.l.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d.last.Store(c)
	return c, nil
}

// An observedConn is a connection that tests can observe and manipulate.
type observedConn struct {
	to oncrpc.Caller

	mu    sync.Mutex
	count [nfs3.NumProc]int
	all   int // number of calls, to any program
	// before, if not nil, is called before each call, and may wait or return an
	// error.
	before func(ctx context.Context, x *oncrpc.Exchange) error
	// after, if not nil, gets the results.
	after func(x *oncrpc.Exchange)
	down  bool
}

// Call implements oncrpc.Caller.
func (l *observedConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	l.mu.Lock()
	l.all++
	if x.Prog == nfs3.Program {
		l.count[x.Proc]++
	}
	before, after := l.before, l.after
	l.mu.Unlock()
	if before != nil {
		if err := before(ctx, x); err != nil {
			return err
		}
	}
	err := l.to.Call(ctx, x)
	if err == nil && after != nil {
		after(x)
	}
	return err
}

// callCount returns the number of calls to a procedure.
func (l *observedConn) callCount(proc uint32) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[proc]
}

// totalCalls returns the number of calls that the client has sent, to any
// procedure.
func (l *observedConn) totalCalls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

func (l *observedConn) setBefore(f func(ctx context.Context, x *oncrpc.Exchange) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = f
}

func (l *observedConn) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

func (l *observedConn) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.down
}

// A testMount is a Mount and its parts.
type testMount struct {
	*Mount
	*observedConn
	t   testing.TB
	dir string
	set *delegclient.Set // nil: no delegations

	dial *memDialer
}

// mount mounts the server with Linux's default attribute lifetimes. change, if
// not nil, may change the Config.
func (s *testServer) mount(change func(c *Config)) *testMount {
	s.t.Helper()
	ctx := context.Background()
	var how rpcrdma.ClientConnConfig
	var set *delegclient.Set
	if s.keeper != nil {
		set = delegclient.New(delegclient.Config{Drop: Drop})
		how.Extensions = set.NewAttachment().Extension()
	}
	dial := &memDialer{l: s.l}
	c, err := rpcrdma.Dial(ctx, dial, "", rpcrdma.ClientConfig{Conn: how, Log: discard})
	require.NoError(s.t, err)
	l := &observedConn{to: c}
	client := nfsclient.New(l, nfsclient.Config{})
	root, err := nfsclient.NewMount(l, nil).Mnt(ctx, "/x")
	require.NoError(s.t, err)
	fs, err := client.FS(ctx, root, "/x")
	require.NoError(s.t, err)
	cfg := Config{
		Client: client, FS: fs, Source: "server:/x", Point: newReachableDir(s.t), Direct: true, Up: l.isUp, Log: discard,
		RegMin: 3 * time.Second, RegMax: time.Minute, DirMin: 30 * time.Second, DirMax: time.Minute, Held: set,
	}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		if err := m.Unmount(); !assert.NoError(s.t, err) {
			assert.NoError(s.t, unix.Unmount(cfg.Point, unix.MNT_DETACH|unix.MNT_FORCE))
			m.Wait()
		}
		assert.NoError(s.t, c.Close())
		set.Close()
	})
	return &testMount{Mount: m, observedConn: l, t: s.t, dir: cfg.Point, set: set, dial: dial}
}

// path returns the path of a file in the mount.
func (m *testMount) path(name string) string { return filepath.Join(m.dir, name) }

// newMount returns a server and a mount of it.
func newMount(t testing.TB) (*testServer, *testMount) {
	t.Helper()
	s := newServer(t, nil)
	return s, s.mount(nil)
}

// randomBytes returns n pseudo-random bytes.
func randomBytes(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(p)
	return p
}
