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

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A testServer serves a directory as /x over the software RNIC.
type testServer struct {
	dir  string // served directory
	addr string
	url  string // URL of the export
	stop func() // stops the server at once, like a kill
	nlm  *nlm4test.Server

	hideNLM atomic.Bool // the server has no lock manager

	// holdCall, if set, selects the calls to which the server does not reply.
	holdCall atomic.Pointer[func(*oncrpc.Request) bool]
	calls    atomic.Int64
}

// A serverSetting changes the configuration of a rig.
type serverSetting func(*rpcrdma.Server, *iwarp.Config, *nfsserver.Config)

// newTestServer starts a server. Resources that the server or its clients leave behind
// fail the test.
func newTestServer(t *testing.T, set ...serverSetting) *testServer {
	t.Helper()
	checkLeaks(t)
	return startTestServer(t, set...)
}

// checkLeaks checks at the end of a test that it has released everything.
func checkLeaks(t *testing.T) {
	world := countResources(t)
	t.Cleanup(func() { world.assertReleased(t) })
}

// startTestServer starts a server without that check, for tests with several servers.
func startTestServer(t *testing.T, set ...serverSetting) *testServer {
	t.Helper()
	return startTestServerAt(t, "127.0.0.1:0", set...)
}

func startTestServerAt(t *testing.T, addr string, set ...serverSetting) *testServer {
	t.Helper()
	r := &testServer{dir: t.TempDir(), nlm: nlm4test.New(t)}
	files, err := posix.Open(r.dir, posix.Options{})
	require.NoError(t, err)
	cfg := nfsserver.Config{
		Exports: []nfsserver.Export{{Path: "/x", FS: files, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}},
		Log:     slog.New(slog.DiscardHandler),
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	mux := &oncrpc.Mux{}
	mux.Register(nlm4.Program, nlm4.Version, r.nlm)
	mux.Restrict(nlm4.Program, func(*oncrpc.Peer) bool { return !r.hideNLM.Load() })
	srv := &rpcrdma.Server{Handler: &callHolder{mux, r}}
	rnic := iwarp.Config{CRC: (&app{crc: cli.Choice{Word: "off"}}).crcPolicy()}
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

// A callHolder counts calls, and does not reply to those that holdCall selects.
type callHolder struct {
	oncrpc.Service
	server *testServer
}

func (s *callHolder) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.server.calls.Add(1)
	if hang := s.server.holdCall.Load(); hang != nil && (*hang)(req) {
		<-ctx.Done()
		return false
	}
	return s.Service.Serve(ctx, req, rep)
}

// runCommand runs the program until it ends.
func runCommand(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// mustRun runs the program, which must succeed without an error message.
func mustRun(t testing.TB, args ...string) (stdout string) {
	t.Helper()
	status, stdout, stderr := runCommand(t, args...)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Empty(t, stderr)
	return stdout
}

// mustFail runs the program, which must fail, and returns its error message.
func mustFail(t testing.TB, args ...string) (stderr string) {
	t.Helper()
	status, _, stderr := runCommand(t, args...)
	require.Equal(t, cli.ExitError, status, stderr)
	return stderr
}

// resourceCounts counts the resources that a run must release.
type resourceCounts struct{ goroutines, files int }

func countResources(t testing.TB) resourceCounts {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return resourceCounts{runtime.NumGoroutine(), len(fds)}
}

func (w resourceCounts) assertReleased(t testing.TB) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	now := countResources(t)
	for (!now.atMost(w) || buf.Default.Out() > 0) && time.Now().Before(end) {
		time.Sleep(time.Millisecond) // goroutines need a moment to exit
		now = countResources(t)
	}
	assert.True(t, now.atMost(w), "%+v, before: %+v", now, w)
	assert.Zero(t, buf.Default.Out(), "buffers")
}

func (w resourceCounts) atMost(before resourceCounts) bool {
	return w.goroutines <= before.goroutines && w.files <= before.files
}

// randomBytes returns n bytes that do not compress and depend on the seed.
func randomBytes(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// writeFile creates a file and its parent directories.
func writeFile(t testing.TB, data []byte, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, data, 0o644))
}

// snapshotTree describes everything below a directory by path: type, permissions,
// and a file's hash or a link's target.
func snapshotTree(t testing.TB, dir string) map[string]string {
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

// listenTCP starts a listener that is not an RDMA service, and calls serve with each
// connection.
func listenTCP(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	addr, stop := listenTCPAt(t, "127.0.0.1:0", serve)
	t.Cleanup(stop)
	return addr
}

// listenTCPAt does so at an address, until stop is called.
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
