package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// mainEnv makes the test binary run as mountrdma.
const mainEnv = "MOUNTRDMA_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
	}
	// Adopt daemons, so that tests can wait for them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(nstest.Main(m.Run))
}

// newProcess returns a command that runs mountrdma or mount.nfsrdma in its own process.
func newProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = args
	// Otherwise the race detector would sleep for a second at exit.
	cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// runProcess runs a process until it exits.
func runProcess(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := newProcess(t, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); !ok {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// findDaemon returns the daemon that an exited process has left. The daemon is killed at the end of
// the test, even if the test fails, so that no other test adopts it.
func findDaemon(t *testing.T) *os.Process {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, list := range lists {
		pids, _ := os.ReadFile(list) // threads come and go
		for _, word := range strings.Fields(string(pids)) {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			p, err := os.FindProcess(pid)
			require.NoError(t, err)
			t.Cleanup(func() {
				_ = p.Kill()
				_, _ = p.Wait()
			})
			return p
		}
	}
	t.Fatal("there is no daemon")
	return nil
}

// waitExit waits until a daemon has exited, and returns its exit status.
func waitExit(t *testing.T, p *os.Process) int {
	t.Helper()
	state, err := p.Wait()
	require.NoError(t, err)
	return state.ExitCode()
}

// closedAddr returns an address on which no process listens.
func closedAddr(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", randomLoopback().String()+":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

const refusedText = "TCP connect: connection refused: the host is up, but nothing listens on the port; start nfsrdmad there (or knfsd, with rdma for RDMA), or correct the port"

// TestDaemonFailure checks that the called process reports why the daemon
// cannot mount, and has the daemon's exit status.
func TestDaemonFailure(t *testing.T) {
	addr, dir := closedAddr(t), t.TempDir()
	gone := filepath.Join(dir, "gone")
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"mountrdma", addr + ":/x", dir, "-o", "retry=0"}, 1, "mountrdma: " + addr + ": " + refusedText},
		{[]string{"mount.nfsrdma", addr + ":/x", dir, "-o", "retry=0"}, 32, "mount.nfsrdma: " + addr + ": " + refusedText},
		{[]string{"/sbin/mount.nfsrdma", addr + ":/x", gone, "-o", "rw"}, 32, "mount.nfsrdma: mount point " + gone + " does not exist: create it (mkdir), or correct the path"},
		{[]string{"mountrdma", addr + ":/x", dir, "-o", "retry=x"}, 2, "mountrdma: option retry=x: not a number between 0 and 525600"},
		{[]string{"mount.nfsrdma", addr + ":/x", dir, "-o", "retry=x"}, 1, "mount.nfsrdma: option retry=x: not a number between 0 and 525600"},
	} {
		status, stdout, stderr := runProcess(t, tt.args...)
		assert.Equal(t, tt.status, status, tt.args)
		assert.Empty(t, stdout)
		assert.Equal(t, tt.want+"\n", stderr)
	}
}

// TestPermanentFailure checks that a permanent error is not retried.
func TestPermanentFailure(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, nil, r.dir, "d", "f")
	dir := t.TempDir()
	for spec, want := range map[string]string{
		"/y":     "no export holds /y; correct the path: the server exports /x",
		"/x/no":  "the export /x has no directory /x/no; correct the path, or create the directory there",
		"/x/d/f": "the export /x has no directory /x/d/f; correct the path, or create the directory there",
	} {
		status, _, stderr := runProcess(t, "mountrdma", r.addr+":"+spec, dir)
		assert.Equal(t, 1, status)
		assert.Equal(t, "mountrdma: "+r.addr+": MOUNT: "+want+"\n", stderr)
	}
}

// TestFake checks that -f does everything except the mount.
func TestFake(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, nil, r.dir, "d", "f")
	for _, path := range []string{"/x", "/x/d"} {
		before := r.calls.Load()
		status, stdout, stderr := runProcess(t, "mount.nfsrdma", r.addr+":"+path, t.TempDir(), "-f")
		assert.Zero(t, status)
		assert.Empty(t, stdout+stderr)
		assert.Greater(t, r.calls.Load(), before)
	}
}

// TestPassing checks which errors are transient.
func TestPassing(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errTimeout)
	defer cancel()
	for _, err := range []error{
		dialError(t.Context(), "h:1", unix.ECONNREFUSED),
		dialError(t.Context(), "h:1", unix.EHOSTUNREACH),
		dialError(t.Context(), "h:1", &net.DNSError{IsTimeout: true}),
		dialError(ctx, "h:1", context.DeadlineExceeded),
		startupError(t.Context(), "h:1", &iwarp.RejectedError{}),
		startupError(t.Context(), "h:1", io.EOF),
		firstCallError(t.Context(), "h:1", rdma.ErrClosed),
		firstCallError(ctx, "h:1", errTimeout),
		mountError(t.Context(), "h:1", &nfsclient.SearchError{}),
		mountError(ctx, "h:1", errTimeout),
	} {
		assert.True(t, isTransient(err), err)
	}
	for _, err := range []error{
		dialError(t.Context(), "h:1", &net.DNSError{IsNotFound: true}),
		startupError(t.Context(), "h:1", mpa.ErrRTR),
		firstCallError(t.Context(), "h:1", oncrpc.ErrProgUnavail),
		&stepError{err: &nfsclient.MountError{Status: mount3.ErrAcces}},
	} {
		assert.False(t, isTransient(err), err)
	}
}

// TestForegroundRetry checks that a server that starts during the retries is
// mounted.
func TestForegroundRetry(t *testing.T) {
	checkLeaks(t)
	addr := closedAddr(t)
	cmd := newProcess(t, "mount.nfsrdma", addr+":/x", t.TempDir(), "-f")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("mount.nfsrdma: %s: %s; retrying for 2m0s\n", addr, refusedText), line)
	r := startTestServerAt(t, addr)
	require.NoError(t, cmd.Wait())
	assert.NotZero(t, r.calls.Load())
}

// TestBackgroundRetry checks that with bg the called process exits at once, and
// the daemon continues to retry.
func TestBackgroundRetry(t *testing.T) {
	checkLeaks(t)
	addr := closedAddr(t)
	status, _, stderr := runProcess(t, "mount.nfsrdma", addr+":/x", t.TempDir(), "-f", "-o", "bg")
	assert.Zero(t, status)
	assert.Equal(t, fmt.Sprintf("mount.nfsrdma: %s: %s; retrying for 166h40m0s\n", addr, refusedText), stderr)
	daemon := findDaemon(t)
	r := startTestServerAt(t, addr)
	assert.Zero(t, waitExit(t, daemon))
	assert.NotZero(t, r.calls.Load())
}

// TestBackgroundStopped checks that a signal ends a daemon that has not mounted
// yet.
func TestBackgroundStopped(t *testing.T) {
	status, _, _ := runProcess(t, "mount.nfsrdma", closedAddr(t)+":/x", t.TempDir(), "-o", "bg")
	assert.Zero(t, status)
	daemon := findDaemon(t)
	require.NoError(t, daemon.Signal(unix.SIGTERM))
	assert.Equal(t, exitHelperError, waitExit(t, daemon))
}

// TestForegroundStopped checks that a signal to the called process ends the
// daemon too.
func TestForegroundStopped(t *testing.T) {
	cmd := newProcess(t, "mountrdma", closedAddr(t)+":/x", t.TempDir())
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stderr)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "mountrdma: terminated signal received\n", line)
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
}
