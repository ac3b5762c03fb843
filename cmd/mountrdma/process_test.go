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

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
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
	os.Exit(m.Run())
}

// process returns mountrdma, or mount.nfsrdma, as a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = args
	// Otherwise the race detector would sleep for a second at the end.
	cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// finished runs a process to its end.
func finished(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := process(t, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); !ok {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// adopted returns the daemon of a process that has exited.
func adopted(t *testing.T) *os.Process {
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
			return p
		}
	}
	t.Fatal("there is no daemon")
	return nil
}

// ends waits for a daemon's end, and returns its exit status.
func ends(t *testing.T, p *os.Process) int {
	t.Helper()
	state, err := p.Wait()
	require.NoError(t, err)
	return state.ExitCode()
}

// later returns an address without a listener.
func later(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", loopback().String()+":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

const refusal = "TCP connect: connection refused: the host is up, but nothing listens on the port; start nfsrdmad there (or knfsd, with rdma for RDMA), or correct the port"

// TestDaemonFailure checks that the called process reports why the daemon
// cannot mount, and has the daemon's exit status.
func TestDaemonFailure(t *testing.T) {
	addr, dir := later(t), t.TempDir()
	gone := filepath.Join(dir, "gone")
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"mountrdma", addr + ":/x", dir, "-o", "retry=0"}, 1, "mountrdma: " + addr + ": " + refusal},
		{[]string{"mount.nfsrdma", addr + ":/x", dir, "-o", "retry=0"}, 32, "mount.nfsrdma: " + addr + ": " + refusal},
		{[]string{"/sbin/mount.nfsrdma", addr + ":/x", gone, "-o", "rw"}, 32, "mount.nfsrdma: mount point " + gone + " does not exist: make it (mkdir), or correct it"},
		{[]string{"mountrdma", addr + ":/x", dir, "-o", "retry=x"}, 2, "mountrdma: option retry=x: not a number between 0 and 525600"},
		{[]string{"mount.nfsrdma", addr + ":/x", dir, "-o", "retry=x"}, 1, "mount.nfsrdma: option retry=x: not a number between 0 and 525600"},
	} {
		status, stdout, stderr := finished(t, tt.args...)
		assert.Equal(t, tt.status, status, tt.args)
		assert.Empty(t, stdout)
		assert.Equal(t, tt.want+"\n", stderr)
	}
}

// TestPermanentFailure checks that a permanent error is not retried.
func TestPermanentFailure(t *testing.T) {
	r := newRig(t)
	write(t, nil, r.dir, "d", "f")
	dir := t.TempDir()
	for spec, want := range map[string]string{
		"/y":     "no export holds /y; correct the path: the server exports /x",
		"/x/no":  "the export /x has no directory /x/no; correct the path, or create the directory there",
		"/x/d/f": "the export /x has no directory /x/d/f; correct the path, or create the directory there",
	} {
		status, _, stderr := finished(t, "mountrdma", r.addr+":"+spec, dir)
		assert.Equal(t, 1, status)
		assert.Equal(t, "mountrdma: "+r.addr+": MOUNT: "+want+"\n", stderr)
	}
}

// TestFake checks that -f does everything except the mount.
func TestFake(t *testing.T) {
	r := newRig(t)
	write(t, nil, r.dir, "d", "f")
	for _, path := range []string{"/x", "/x/d"} {
		before := r.calls.Load()
		status, stdout, stderr := finished(t, "mount.nfsrdma", r.addr+":"+path, t.TempDir(), "-f")
		assert.Zero(t, status)
		assert.Empty(t, stdout+stderr)
		assert.Greater(t, r.calls.Load(), before)
	}
}

// TestPassing checks which errors are temporary.
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
		helloError(t.Context(), "h:1", rdma.ErrClosed),
		helloError(ctx, "h:1", errTimeout),
		mountError(t.Context(), "h:1", &nfsclient.SearchError{}),
		mountError(ctx, "h:1", errTimeout),
	} {
		assert.True(t, passing(err), err)
	}
	for _, err := range []error{
		dialError(t.Context(), "h:1", &net.DNSError{IsNotFound: true}),
		startupError(t.Context(), "h:1", mpa.ErrRTR),
		helloError(t.Context(), "h:1", oncrpc.ErrProgUnavail),
		&stepError{err: &nfsclient.MountError{Status: mount3.ErrAcces}},
	} {
		assert.False(t, passing(err), err)
	}
}

// TestForegroundRetry checks that a server that starts during the retries is
// mounted.
func TestForegroundRetry(t *testing.T) {
	guard(t)
	addr := later(t)
	cmd := process(t, "mount.nfsrdma", addr+":/x", t.TempDir(), "-f")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("mount.nfsrdma: %s: %s; trying again for 2m0s\n", addr, refusal), line)
	r := startRigAt(t, addr)
	require.NoError(t, cmd.Wait())
	assert.NotZero(t, r.calls.Load())
}

// TestBackgroundRetry checks that with bg the called process exits at once, and
// the daemon continues to try.
func TestBackgroundRetry(t *testing.T) {
	guard(t)
	addr := later(t)
	status, _, stderr := finished(t, "mount.nfsrdma", addr+":/x", t.TempDir(), "-f", "-o", "bg")
	assert.Zero(t, status)
	assert.Equal(t, fmt.Sprintf("mount.nfsrdma: %s: %s; trying again for 166h40m0s\n", addr, refusal), stderr)
	daemon := adopted(t)
	r := startRigAt(t, addr)
	assert.Zero(t, ends(t, daemon))
	assert.NotZero(t, r.calls.Load())
}

// TestBackgroundStopped checks that a signal ends a daemon that has not mounted
// yet.
func TestBackgroundStopped(t *testing.T) {
	status, _, _ := finished(t, "mount.nfsrdma", later(t)+":/x", t.TempDir(), "-o", "bg")
	assert.Zero(t, status)
	daemon := adopted(t)
	require.NoError(t, daemon.Signal(unix.SIGTERM))
	assert.Equal(t, exitHelperError, ends(t, daemon))
}

// TestForegroundStopped checks that a signal to the called process ends the
// daemon too.
func TestForegroundStopped(t *testing.T) {
	cmd := process(t, "mountrdma", later(t)+":/x", t.TempDir())
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
