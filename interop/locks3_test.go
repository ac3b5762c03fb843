//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

// TestLocks3 has processes of the guest lock bytes of one file through mounts by version 3, over RDMA and
// TCP, without nolock. The answers are those of a local file system. RNLM-6.1.3-2, RNLM-LINUX-8.
func TestLocks3(t *testing.T) {
	guest(t)
	onEthernet(t)
	dir := tmpfs(t)
	reference, err := tryOnHost(dir, program("guestwork")+" locking "+dir+" "+dir)
	require.NoError(t, err, reference)
	s := locks3(t)
	s.mount(t, "/mnt", "vers=3,rdma")
	s.mount(t, "/mnt2", "vers=3,proto=tcp")
	assert.NotContains(t, must(t, "grep ' /mnt' /proc/mounts"), "nolock")
	timed(t, "by RDMA and TCP", func() { sameLines(t, reference, must(t, "guestwork locking /mnt /mnt2")) })
	umount(t, "/mnt")
	umount(t, "/mnt2")
	assert.NotContains(t, s.said.String(), "does not answer")
}

// A locks3Server is nfsrdmad with a portmapper, on the guest's Ethernet.
type locks3Server struct {
	dir, state string
	said       *buffer
	proc       *Server
	start      func()
}

func locks3(t testing.TB, flags ...string) *locks3Server {
	s := &locks3Server{dir: Served(t), state: t.TempDir(), said: new(buffer)}
	nfsrdmad := shared.ethernet.inside(t, program("nfsrdmad"))
	s.start = func() {
		var err error
		args := []string{"--no-root-squash", "--portmap", ":111", "--control", "", "--listen", ":20049", "--tcp", ":2049", "--state", s.state}
		s.proc, err = StartServer(s.said, nfsrdmad, append(append(args, flags...), s.dir+"=/x")...)
		require.NoError(t, err, "nfsrdmad says: %s", s.said)
	}
	s.start()
	t.Cleanup(func() { s.proc.Kill() })
	return s
}

func (s *locks3Server) mount(t *testing.T, point, options string) {
	t.Helper()
	out, status := try(t, fmt.Sprintf("mount -t nfs -o %s %s:/x %s", options, hostEthernet, point))
	require.Zero(t, status, "%s\nnfsrdmad says: %s", out, s.said)
}

// TestLockRestart3 kills nfsrdmad while a process of the guest has locks and another one waits for one: Linux
// is told of the restart, reclaims the locks, and goes on to wait. R8267-5.1-1.
func TestLockRestart3(t *testing.T) {
	guest(t)
	onEthernet(t)
	s := locks3(t, "--nfs4-lease", shortGrace.String())
	s.mount(t, "/mnt", "vers=3,rdma")
	answers := make(lockAnswers)
	has, waits, here := answers.startInGuest(t, "/mnt"), answers.startInGuest(t, "/mnt"), answers.start(t, s.dir)
	answers.steps(t, []lockStep{
		{has, "posix 1 write 0 10", "ok"},
		{has, "posix 1 write 20 10", "ok"},
		{here, "posix 1 write 9 1", "EAGAIN"},
	})
	fmt.Fprintln(waits, "posix-wait 1 write 5 1")
	s.proc.Kill()
	s.start()
	for _, lock := range []struct{ where, found string }{{"0 10", "write lock of 10 at 0"}, {"20 10", "write lock of 10 at 20"}} {
		answers.reclaimed(t, here, lock.where, lock.found)
	}
	answers.steps(t, []lockStep{
		{has, "posix 1 none 20 10", "ok"}, // after grace
		{has, "posix 1 none 0 10", "ok"},
	})
	assert.Equal(t, "ok", answers.next(t, waits))
	answers.steps(t, []lockStep{{here, "posix 1 write 5 1", "EAGAIN"}, {here, "posix 1 write 0 5", "ok"}})
	for p := range answers {
		assert.NoError(t, p.Wait())
	}
	umount(t, "/mnt")
}

// TestDeadlock3 has two processes of the guest wait for each other's locks by version 3: the second gets EDEADLK. RNLM-LOCK-5.
func TestDeadlock3(t *testing.T) {
	guest(t)
	onEthernet(t)
	control := filepath.Join(t.TempDir(), "control")
	s := locks3(t, "--control", control)
	s.mount(t, "/mnt", "vers=3,rdma")
	s.mount(t, "/mnt2", "vers=3,proto=tcp")
	answers := make(lockAnswers)
	first, second := answers.startInGuest(t, "/mnt"), answers.startInGuest(t, "/mnt2")
	answers.steps(t, []lockStep{
		{first, "posix 1 write 0 10", "ok"},
		{second, "posix 1 write 20 10", "ok"},
	})
	asked := statusOf(t, control).callsOf("nlm4", "LOCK")
	fmt.Fprintln(first, "posix-wait 1 write 20 10")
	require.Eventually(t, func() bool { return statusOf(t, control).callsOf("nlm4", "LOCK") > asked }, daemonLimit, pollEvery)
	answers.steps(t, []lockStep{
		{second, "posix-wait 1 write 0 10", "EDEADLK"},
		{second, "posix 1 none 20 10", "ok"},
	})
	assert.Equal(t, "ok", answers.next(t, first))
	for p := range answers {
		assert.NoError(t, p.Wait())
	}
	umount(t, "/mnt2")
	umount(t, "/mnt")
}

// startInGuest is start for a process of the guest.
func (a lockAnswers) startInGuest(t *testing.T, dir string) locking.Child {
	t.Helper()
	p, err := newGuestLocker(t, dir)
	require.NoError(t, err)
	return a.opened(t, p)
}

// TestLocksWithHost3 has a process of the guest and one of the server's host lock bytes of one file: flock is a lock of all bytes,
// and the guest's process waits for the host's, and is told when the lock is free.
func TestLocksWithHost3(t *testing.T) {
	guest(t)
	onEthernet(t)
	s := locks3(t)
	s.mount(t, "/mnt", "vers=3,rdma")
	timed(t, "with the host", func() { contend(t, s.dir, "/mnt", "flock", "many") }) // thousands of locks take minutes on a busy machine
	flocks(t, s.dir, "/mnt")
	there, err := newGuestLocker(t, "/mnt")
	require.NoError(t, err)
	here, err := hostLocker(s.dir)
	require.NoError(t, err)
	answers := lockAnswers{there: bufio.NewReader(there), here: bufio.NewReader(here)}
	answers.steps(t, []lockStep{
		{there, "open 1", "ok"},
		{here, "open 1", "ok"},
		{here, "ofd 1 write 0 10", "ok"},
		{there, "posix 1 read 5 1", "EAGAIN"},
	})
	start := time.Now()
	fmt.Fprintln(there, "posix-wait 1 read 5 1")
	answers.steps(t, []lockStep{
		{here, "ofd 1 none 0 0", "ok"},
	})
	answer, err := answers[there].ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ok", strings.TrimSpace(answer))
	assert.Less(t, time.Since(start), grantedLimit, "Linux asks again after 30 s: it was not told")
	answers.steps(t, []lockStep{
		{here, "posix 1 write 5 1", "EAGAIN"},
		{there, "posix 1 none 0 0", "ok"},
		{here, "posix 1 write 5 1", "ok"},
	})
	for _, p := range []locking.Child{there, here} {
		assert.NoError(t, p.Wait())
	}
	umount(t, "/mnt")
}

// grantedLimit is shorter than the time after which Linux asks for a lock again.
const grantedLimit = 25 * time.Second
