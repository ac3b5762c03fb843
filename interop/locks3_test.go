//go:build interop

package interop

import (
	"bufio"
	"fmt"
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

func locks3(t *testing.T) *locks3Server {
	s := &locks3Server{dir: served(t), state: t.TempDir(), said: new(buffer)}
	nfsrdmad := shared.ethernet.inside(t, program("nfsrdmad"))
	s.start = func() {
		var err error
		s.proc, err = StartServer(s.said, nfsrdmad, "--no-root-squash", "--portmap", ":111", "--control", "", "--listen", ":20049", "--tcp", ":2049", "--state", s.state, s.dir+"=/x")
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

// TestLocksWithHost3 has a process of the guest and one of the server's host lock bytes of one file: flock is a lock of all bytes,
// and the guest's process waits for the host's, and is told when the lock is free.
func TestLocksWithHost3(t *testing.T) {
	guest(t)
	onEthernet(t)
	s := locks3(t)
	s.mount(t, "/mnt", "vers=3,rdma")
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
