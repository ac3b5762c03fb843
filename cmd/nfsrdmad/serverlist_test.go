package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// hostChanges is the number of times that the service moves to the other host.
const hostChanges = 20

// sharedHosts are two hosts of one file system, of which one runs the daemon. Both have
// the export /x and the state directory.
type sharedHosts struct {
	t     *testing.T
	dir   string
	args  []string
	addrs [2]map[string]string // of each host, by transport
	serve int                  // the host that serves
	proc  *daemonProc
}

// startSharedHosts starts the daemon on the first host.
func startSharedHosts(t *testing.T) *sharedHosts {
	t.Helper()
	h := &sharedHosts{t: t, dir: t.TempDir()}
	h.args = []string{"--state", t.TempDir(), "--no-root-squash", "--control", h.control(), "--exclusive", h.dir + "=/x"}
	for i := range h.addrs {
		host := randomLoopback().String()
		h.addrs[i] = map[string]string{"rdma": freeAddr(t, host), "tcp": freeAddr(t, host)}
	}
	h.startDaemon()
	return h
}

func (h *sharedHosts) control() string { return filepath.Join(h.dir, "..", "control") }

// freeAddr returns an address on a host at which nobody listens.
func freeAddr(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// list returns the list of the hosts for clients.
func (h *sharedHosts) list(transport string) string {
	return h.addrs[0][transport] + "," + h.addrs[1][transport]
}

func (h *sharedHosts) startDaemon() {
	h.t.Helper()
	at := h.addrs[h.serve]
	h.proc = startServe(h.t, append([]string{"--listen", at["rdma"], "--tcp", at["tcp"]}, h.args...)...)
	go func() { _, _ = io.Copy(io.Discard, h.proc.log) }()
}

// moveDaemon moves the daemon to the other host, after SIGKILL or as an administrator does.
func (h *sharedHosts) moveDaemon(kill bool) {
	h.t.Helper()
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	require.NoError(h.t, h.proc.cmd.Process.Signal(signal))
	_ = h.proc.cmd.Wait() // an error after SIGKILL
	h.serve = 1 - h.serve
	h.startDaemon()
}

// dialHosts returns a client of the hosts, with two connections.
func (h *sharedHosts) dialHosts(transport string) *nfsrdma.Client {
	h.t.Helper()
	c, err := nfsrdma.Dial(h.t.Context(), h.list(transport), nfsrdma.ClientConfig{
		TCP: transport == "tcp", Connections: 2, Export: "/x", Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { assert.NoError(h.t, c.Close()) })
	return c
}

// A rewriter writes a file again and again, and reads it back.
type rewriter struct {
	file   *nfsclient.File
	rounds atomic.Int64
	over   atomic.Bool
	ended  chan struct{}
}

func startRewriter(t *testing.T, fs *nfsclient.FS, name string) *rewriter {
	t.Helper()
	f, err := fs.Create(t.Context(), name, 0o644)
	require.NoError(t, err)
	w := &rewriter{file: f, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for !w.over.Load() && w.rewrite(t, name) {
			w.rounds.Add(1)
		}
	}()
	return w
}

// rewrite writes new content, some of it with COMMIT, and compares what it reads.
func (w *rewriter) rewrite(t *testing.T, name string) bool {
	content := bytes.Repeat(fmt.Appendf(nil, "%s %08d\n", name, w.rounds.Load()), 20_000)
	n, err := w.file.WriteAt(t.Context(), content, 0)
	if !assert.NoError(t, err) || !assert.Equal(t, len(content), n) || !assert.NoError(t, w.file.Sync(t.Context())) {
		return false
	}
	got := make([]byte, len(content))
	n, err = w.file.ReadAt(t.Context(), got, 0)
	return assert.NoError(t, err) && assert.Equal(t, len(content), n) && assert.True(t, bytes.Equal(content, got), "%s differs", name)
}

// awaitRounds returns after two more rounds, of which one began after the call.
func (w *rewriter) awaitRounds(t *testing.T) {
	t.Helper()
	from := w.rounds.Load()
	require.Eventually(t, func() bool { return w.rounds.Load() >= from+2 }, time.Minute, time.Millisecond)
}

// TestChangeOfHosts moves the daemon between two hosts of one file system, while clients
// over RDMA and TCP that know both hosts write, read and hold a lock. Their handles and
// files are valid on both, no call fails, and the lock is held on the host that serves.
func TestChangeOfHosts(t *testing.T) {
	h := startSharedHosts(t)
	var rewriters []*rewriter
	var clients []*nfsrdma.Client
	var lockClients []*nlmclient.Client
	for _, transport := range []string{"rdma", "tcp"} {
		c := h.dialHosts(transport)
		fs, err := c.Mount(t.Context(), "/x")
		require.NoError(t, err)
		clients = append(clients, c)
		rewriters = append(rewriters, startRewriter(t, fs, "of "+transport))
		lockClients = append(lockClients, lockFile(t, c, rewriters[len(rewriters)-1].file))
	}
	for n := range hostChanges {
		h.moveDaemon(n%2 == 0)
		for i, w := range rewriters {
			w.awaitRounds(t)
			transport := []string{"rdma", "tcp"}[i]
			assert.Equal(t, h.addrs[h.serve][transport], clients[i].Server())
			if n%8 == 3 {
				awaitHostLock(t, filepath.Join(h.dir, "of "+transport))
			}
		}
	}
	for _, w := range rewriters {
		w.over.Store(true)
		<-w.ended
	}
	for _, transport := range []string{"rdma", "tcp"} {
		content, err := os.ReadFile(filepath.Join(h.dir, "of "+transport))
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
		assert.Len(t, lines, 20_000)
		assert.Len(t, slices.Compact(lines), 1, "all of one round")
	}
	status, _, stderr := runCommand(t, "clients", "--end-grace", "--control", h.control())
	require.Zero(t, status, stderr) // until then, the locks could not be released
	for i, c := range clients {
		lockClients[i].Close()
		require.NoError(t, c.Close())
	}
	require.NoError(t, h.proc.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, cli.ExitOK, h.proc.waitExit().ExitStatus())
}

// lockFile locks a file until the client that it returns is closed, and reports a lost lock.
func lockFile(t *testing.T, c *nfsrdma.Client, f *nfsclient.File) *nlmclient.Client {
	t.Helper()
	line := c.Lines()[0]
	l, err := nlmclient.New(t.Context(), nlmclient.Config{
		Server: nlmclient.Server{NFS: line, Conn: func() any { return line.Conn() }, Hosts: []string{"localhost"}},
		Name:   "client", NoCallback: true, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	l.OnLost(func([]byte, nlmclient.Owner) { t.Error("the lock was lost") })
	require.NoError(t, l.Lock(t.Context(), &nlmclient.Request{
		Handle: f.Handle(), Owner: nlmclient.Owner{ID: 1}, PID: 1, Cred: nfsclient.ProcessCred(),
		Range: locks.Range{Start: 0, End: 1 << 20}, Exclusive: true,
	}))
	return l
}

// awaitHostLock waits until the daemon of this host holds a lock on a file for its client. It
// fails if the client cannot reclaim the lock: the grace period is longer than the wait.
func awaitHostLock(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.Eventually(t, func() bool {
		l := unix.Flock_t{Type: unix.F_WRLCK}
		return assert.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)) && l.Type == unix.F_WRLCK
	}, time.Minute, 10*time.Millisecond)
}
