package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A rig is a server of a directory, /x, over the software RNIC.
type rig struct {
	dir  string // served
	addr string
	url  string // of the export
	stop func() // at once, like a kill
	nlm  *nlm4test.Server

	nlmGone atomic.Bool // the server has no lock manager

	// hang, if set, holds the calls for which it returns true.
	hang  atomic.Pointer[func(*oncrpc.Request) bool]
	calls atomic.Int64
}

// A setting changes the configuration of a rig.
type setting func(*rpcrdma.Server, *iwarp.Config, *nfsserver.Config)

// newRig starts a server. Resources that the server or its clients leave behind
// fail the test.
func newRig(t *testing.T, set ...setting) *rig {
	t.Helper()
	guard(t)
	return startRig(t, set...)
}

// guard checks at the end that a test has released everything.
func guard(t *testing.T) {
	world := look(t)
	t.Cleanup(func() { world.unchanged(t) })
}

// startRig is newRig without the check, for tests with several servers.
func startRig(t *testing.T, set ...setting) *rig {
	t.Helper()
	return startRigAt(t, "127.0.0.1:0", set...)
}

func startRigAt(t *testing.T, addr string, set ...setting) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), nlm: nlm4test.New(t)}
	files, err := posix.Open(r.dir, posix.Options{})
	require.NoError(t, err)
	cfg := nfsserver.Config{
		Exports: []nfsserver.Export{{Path: "/x", FS: files, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}},
		Log:     slog.New(slog.DiscardHandler),
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	mux := &oncrpc.Mux{}
	mux.Register(nlm4.Program, nlm4.Version, r.nlm)
	mux.Restrict(nlm4.Program, func(*oncrpc.Peer) bool { return !r.nlmGone.Load() })
	srv := &rpcrdma.Server{Handler: &turnstile{mux, r}}
	rnic := iwarp.Config{CRC: (&app{crc: cli.Choice{Word: "off"}}).policy()}
	for _, f := range set {
		f(srv, &rnic, &cfg)
	}
	nfs, err := nfsserver.New(cfg)
	require.NoError(t, err)
	nfs.Register(mux)
	l, err := iwarp.Open(rnic).Listen("tcp", addr)
	require.NoError(t, err)
	r.addr = l.Addr().String()
	r.url = scheme + r.addr + "/x"
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	r.stop = func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Shutdown(now)
	}
	t.Cleanup(func() {
		r.stop()
		assert.NoError(t, <-ended)
		assert.NoError(t, files.Close())
	})
	return r
}

// A turnstile counts calls, and holds those that hang selects.
type turnstile struct {
	oncrpc.Service
	rig *rig
}

func (s *turnstile) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.rig.calls.Add(1)
	if hang := s.rig.hang.Load(); hang != nil && (*hang)(req) {
		<-ctx.Done()
		return false
	}
	return s.Service.Serve(ctx, req, rep)
}

// command runs the program to its end.
func command(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// must runs the program, which must succeed without a message.
func must(t testing.TB, args ...string) (stdout string) {
	t.Helper()
	status, stdout, stderr := command(t, args...)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Empty(t, stderr)
	return stdout
}

// refused runs the program, which must fail, and returns its message.
func refused(t testing.TB, args ...string) (stderr string) {
	t.Helper()
	status, _, stderr := command(t, args...)
	require.Equal(t, cli.ExitError, status, stderr)
	return stderr
}

// world counts the resources that a run must release.
type world struct{ goroutines, files int }

func look(t testing.TB) world {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return world{runtime.NumGoroutine(), len(fds)}
}

func (w world) unchanged(t testing.TB) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	now := look(t)
	for (!now.within(w) || buf.Default.Out() > 0) && time.Now().Before(end) {
		time.Sleep(time.Millisecond) // ending goroutines take a moment
		now = look(t)
	}
	assert.True(t, now.within(w), "%+v, before: %+v", now, w)
	assert.Zero(t, buf.Default.Out(), "buffers")
}

func (w world) within(before world) bool {
	return w.goroutines <= before.goroutines && w.files <= before.files
}

// random returns n bytes that do not compress and depend on the seed.
func random(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// write makes a file with all directories above it.
func write(t testing.TB, data []byte, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, data, 0o644))
}

// snapshot describes everything below a directory, by path: type, permissions,
// and a file's hash or a link's text.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		what := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			sum := sha256.Sum256(data)
			what += " " + string(sum[:])
		case fs.ModeSymlink:
			text, err := os.Readlink(path)
			require.NoError(t, err)
			what += " " + text
		}
		rel, err := filepath.Rel(dir, path)
		all[rel] = what
		return err
	}))
	return all
}

// listenTCP starts a listener that is no RDMA service; serve gets each
// connection.
func listenTCP(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	addr, stop := listenTCPAt(t, "127.0.0.1:0", serve)
	t.Cleanup(stop)
	return addr
}

// listenTCPAt is listenTCP at an address, until stop.
func listenTCPAt(t testing.TB, at string, serve func(net.Conn)) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	return l.Addr().String(), func() {
		l.Close()
		all.Wait()
	}
}
