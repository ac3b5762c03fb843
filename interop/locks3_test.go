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

// TestLocks3 has processes of the guest lock bytes of one file through mounts over NFSv3,
// over RDMA and TCP, without nolock. The answers are those of a local file system.
// RNLM-6.1.3-2, RNLM-LINUX-8.
func TestLocks3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	dir := mountTmpfs(t)
	reference, err := tryOnHost(dir, programPath("guestwork")+" locking "+dir+" "+dir)
	require.NoError(t, err, reference)
	s := newLocks3Server(t)
	s.mountGuest(t, "/mnt", "vers=3,rdma")
	s.mountGuest(t, "/mnt2", "vers=3,proto=tcp")
	assert.NotContains(t, mustInGuest(t, "grep ' /mnt' /proc/mounts"), "nolock")
	logTime(t, "by RDMA and TCP", func() { sameLines(t, reference, mustInGuest(t, "guestwork locking /mnt /mnt2")) })
	unmountInGuest(t, "/mnt")
	unmountInGuest(t, "/mnt2")
	assert.NotContains(t, s.said.String(), "no reply to")
}

// A locks3Server is nfsrdmad with a portmapper, on the guest's Ethernet.
type locks3Server struct {
	dir, state string
	said       *sharedBuffer
	proc       *Server
	start      func()
}

func newLocks3Server(t testing.TB, flags ...string) *locks3Server {
	s := &locks3Server{dir: Served(t), state: t.TempDir(), said: new(sharedBuffer)}
	nfsrdmad := shared.ethernet.inNamespace(t, programPath("nfsrdmad"))
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

func (s *locks3Server) mountGuest(t *testing.T, point, options string) {
	t.Helper()
	out, status := tryInGuest(t, fmt.Sprintf("mount -t nfs -o %s %s:/x %s", options, hostEthernet, point))
	require.Zero(t, status, "%s\nnfsrdmad says: %s", out, s.said)
}

// TestLockRestart3 kills nfsrdmad while a process of the guest has locks and another one waits for one: Linux
// is told of the restart, reclaims the locks, and goes on to wait. R8267-5.1-1.
func TestLockRestart3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	s := newLocks3Server(t, "--nfs4-lease", shortGrace.String())
	s.mountGuest(t, "/mnt", "vers=3,rdma")
	answers := make(lockAnswers)
	has, waits, here := answers.startInGuest(t, "/mnt"), answers.startInGuest(t, "/mnt"), answers.startLocker(t, s.dir)
	answers.runSteps(t, []lockStep{
		{has, "posix 1 write 0 10", "ok"},
		{has, "posix 1 write 20 10", "ok"},
		{here, "posix 1 write 9 1", "EAGAIN"},
	})
	fmt.Fprintln(waits, "posix-wait 1 write 5 1")
	s.proc.Kill()
	s.start()
	for _, lock := range []struct{ where, found string }{{"0 10", "write lock of 10 at 0"}, {"20 10", "write lock of 10 at 20"}} {
		answers.awaitReclaim(t, here, lock.where, lock.found)
	}
	answers.runSteps(t, []lockStep{
		{has, "posix 1 none 20 10", "ok"}, // after grace
		{has, "posix 1 none 0 10", "ok"},
	})
	assert.Equal(t, "ok", answers.nextAnswer(t, waits))
	answers.runSteps(t, []lockStep{{here, "posix 1 write 5 1", "EAGAIN"}, {here, "posix 1 write 0 5", "ok"}})
	for p := range answers {
		assert.NoError(t, p.Wait())
	}
	unmountInGuest(t, "/mnt")
}

// TestDeadlock3 has two processes of the guest wait for each other's locks over NFSv3:
// the second gets EDEADLK. RNLM-LOCK-5.
func TestDeadlock3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	control := filepath.Join(t.TempDir(), "control")
	s := newLocks3Server(t, "--control", control)
	s.mountGuest(t, "/mnt", "vers=3,rdma")
	s.mountGuest(t, "/mnt2", "vers=3,proto=tcp")
	answers := make(lockAnswers)
	first, second := answers.startInGuest(t, "/mnt"), answers.startInGuest(t, "/mnt2")
	answers.runSteps(t, []lockStep{
		{first, "posix 1 write 0 10", "ok"},
		{second, "posix 1 write 20 10", "ok"},
	})
	asked := statusOf(t, control).callsOf("nlm4", "LOCK")
	fmt.Fprintln(first, "posix-wait 1 write 20 10")
	eventually(t, func() bool { return statusOf(t, control).callsOf("nlm4", "LOCK") > asked }, daemonLimit, pollEvery)
	answers.runSteps(t, []lockStep{
		{second, "posix-wait 1 write 0 10", "EDEADLK"},
		{second, "posix 1 none 20 10", "ok"},
	})
	assert.Equal(t, "ok", answers.nextAnswer(t, first))
	for p := range answers {
		assert.NoError(t, p.Wait())
	}
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
}

// startInGuest is start for a process of the guest.
func (a lockAnswers) startInGuest(t *testing.T, dir string) locking.Child {
	t.Helper()
	p, err := newGuestLocker(t, dir)
	require.NoError(t, err)
	return a.openLocker(t, p)
}

// TestLocksWithHost3 has a process of the guest and one of the server's host lock bytes of one file: flock is a lock of all bytes,
// and the guest's process waits for the host's, and is told when the lock is free.
func TestLocksWithHost3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	s := newLocks3Server(t)
	s.mountGuest(t, "/mnt", "vers=3,rdma")
	logTime(t, "with the host", func() { compareLocks(t, s.dir, "/mnt", "flock", "many") }) // thousands of locks take minutes on a busy machine
	checkFlocks(t, s.dir, "/mnt")
	there, err := newGuestLocker(t, "/mnt")
	require.NoError(t, err)
	here, err := hostLocker(s.dir)
	require.NoError(t, err)
	answers := lockAnswers{there: bufio.NewReader(there), here: bufio.NewReader(here)}
	answers.runSteps(t, []lockStep{
		{there, "open 1", "ok"},
		{here, "open 1", "ok"},
		{here, "ofd 1 write 0 10", "ok"},
		{there, "posix 1 read 5 1", "EAGAIN"},
	})
	start := time.Now()
	fmt.Fprintln(there, "posix-wait 1 read 5 1")
	answers.runSteps(t, []lockStep{
		{here, "ofd 1 none 0 0", "ok"},
	})
	answer, err := answers[there].ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ok", strings.TrimSpace(answer))
	assert.Less(t, time.Since(start), grantedLimit, "Linux asks again after 30 s: it was not told")
	answers.runSteps(t, []lockStep{
		{here, "posix 1 write 5 1", "EAGAIN"},
		{there, "posix 1 none 0 0", "ok"},
		{here, "posix 1 write 5 1", "ok"},
	})
	for _, p := range []locking.Child{there, here} {
		assert.NoError(t, p.Wait())
	}
	unmountInGuest(t, "/mnt")
}

// grantedLimit is shorter than the time after which Linux asks for a lock again.
const grantedLimit = 25 * time.Second
