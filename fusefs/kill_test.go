package fusefs

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// silence makes the server answer nothing until the returned function is
// called. hangs has a value for each call that waits.
func (m *mounted) silence() (hangs chan uint32, speak func()) {
	hangs, over := make(chan uint32, 1000), make(chan struct{})
	m.setDown(true)
	m.setBefore(func(ctx context.Context, x *oncrpc.Exchange) error {
		hangs <- x.Proc
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return hangs, func() {
		m.setDown(false)
		m.setBefore(nil)
		close(over)
	}
}

// start runs a program that reads a file.
func start(t testing.TB, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat", path)
	require.NoError(t, cmd.Start())
	return cmd
}

// TestKill kills a program that waits for a dead server. It ends; a signal that
// it could catch does not make it fail.
func TestKill(t *testing.T) {
	s, m := newMount(t)
	put(t, s.file("a"), []byte("x"))
	put(t, s.file("b"), []byte("x"))
	hangs, speak := m.silence()
	cmd := start(t, m.file("a"))
	<-hangs
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	time.Sleep(3 * killPoll) // in which it would give up
	require.NoError(t, cmd.Process.Kill())
	err := cmd.Wait()
	status, ok := err.(*exec.ExitError)
	require.True(t, ok, "%v", err)
	assert.Equal(t, syscall.SIGKILL, status.Sys().(syscall.WaitStatus).Signal())

	other := start(t, m.file("b")) // who is not killed waits on
	<-hangs
	require.NoError(t, other.Process.Signal(syscall.SIGCHLD))
	speak()
	assert.NoError(t, other.Wait())
}

// TestKillUp does not give up the calls of a killed program while the server
// answers: it is only slow.
func TestKillUp(t *testing.T) {
	s, m := newMount(t)
	put(t, s.file("a"), []byte("x"))
	hangs, speak := m.silence()
	m.setDown(false)
	cmd := start(t, m.file("a"))
	<-hangs
	require.NoError(t, cmd.Process.Kill())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
		t.Error("gave up a call that the server is about to answer")
	case <-time.After(3 * killPoll):
	}
	speak()
	assert.Error(t, <-done)
}

// TestAbortDead takes the mount of a dead server away by force.
func TestAbortDead(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(nil)
	put(t, s.file("a"), []byte("x"))
	hangs, speak := m.silence()
	cmd := start(t, m.file("a"))
	<-hangs
	require.NoError(t, unix.Unmount(m.dir, unix.MNT_DETACH|unix.MNT_FORCE))
	assert.Error(t, cmd.Wait())
	m.Wait()
	speak()
}

// TestProcess reads what /proc says of this process.
func TestProcess(t *testing.T) {
	pid := uint32(os.Getpid())
	assert.False(t, killed(pid))
	assert.True(t, killed(1<<31-1))
	assert.False(t, killed(0))
	text := []byte("Name:\tx\nGroups:\t0 7 4000000000 \nSigPnd:\t0000000000000100\nShdPnd:\t0\n")
	assert.Equal(t, "0 7 4000000000", string(field(text, "Groups")))
	assert.Empty(t, field(text, "None"))
	groupsOf := func() []uint32 { return groups(pid, 7) }
	assert.NotContains(t, groupsOf(), uint32(7))
}
