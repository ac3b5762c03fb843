//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

// TestMountrdmaLocks has processes lock bytes of a file of knfsd: one on a mount by mountrdma, the other in
// the guest. mountrdma finds the lock manager by the guest's rpcbind.
func TestMountrdmaLocks(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	m := &fuseMount{t: t, point: reachableDir(t), said: new(sharedBuffer)}
	m.startProgram(exec.Command(shared.ethernet.inNamespace(t, programPath("mountrdma")), guestEthernet+":/export", m.point,
		"--foreground", "-o", "retry=0,mountport=20048"))
	assert.Empty(t, m.said.String())
	mustInGuest(t, "rm -f /export/locked")
	here, err := hostLocker(m.point)
	require.NoError(t, err)
	there, err := newGuestLocker(t, "/export")
	require.NoError(t, err)
	answers := lockAnswers{here: bufio.NewReader(here), there: bufio.NewReader(there)}
	answers.runSteps(t, []lockStep{
		{here, "open 1", "ok"},
		{there, "open 1", "ok"},
		{here, "posix 1 write 0 10", "ok"},
		{there, "posix 1 read 9 1", "EAGAIN"},
		{there, "posix 1 write 10 10", "ok"},
		{here, "posix 1 read 15 1", "EAGAIN"},
		{here, "posix-test 1 read 0 0", "write lock of 10 at 10"},
		{here, "posix 1 none 0 5", "ok"},
		{there, "posix 1 write 0 5", "ok"},
	})
	require.NoError(t, here.Wait())
	m.unmountFUSE()
}

// TestMountrdmaLockRestart kills nfsrdmad while a program on a mount by mountrdma has locks, and programs on this mount
// and on another one wait for one of them. mountrdma claims the locks again, so no other program gets one, and the
// waiting programs get theirs afterwards.
func TestMountrdmaLockRestart(t *testing.T) {
	buildOnce(t)
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--control", control, "--nfs4-lease", shortGrace.String())
	s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
	mounts := [2]*fuseMount{s.mountFUSE(t), s.mountFUSE(t)}
	answers := make(lockAnswers)
	has, near, far, here := answers.startLocker(t, mounts[0].point), answers.startLocker(t, mounts[0].point), answers.startLocker(t, mounts[1].point), answers.startLocker(t, d.dir)
	answers.runSteps(t, []lockStep{
		{has, "posix 1 write 0 10", "ok"},
		{has, "ofd 1 read 20 10", "ok"},
		{here, "posix 1 write 9 1", "EAGAIN"},
	})
	fmt.Fprintln(near, "posix-wait 1 write 5 1")
	asked := statusOf(t, control).callsOf("nlm4", "LOCK")
	fmt.Fprintln(far, "posix-wait 1 write 6 1")
	eventually(t, func() bool { return statusOf(t, control).callsOf("nlm4", "LOCK") > asked }, daemonLimit, pollEvery)
	d.proc.Kill()
	d.startProcess()
	for _, lock := range []struct{ where, found string }{{"0 10", "write lock of 10 at 0"}, {"20 10", "read lock of 10 at 20"}} {
		answers.awaitReclaim(t, here, lock.where, lock.found)
	}
	answers.runSteps(t, []lockStep{
		{has, "posix 1 none 0 5", "ok"}, // after grace
		{here, "posix 1 write 0 6", "EAGAIN"},
		{here, "posix 1 write 0 5", "ok"},
		{has, "posix 1 none 5 5", "ok"},
	})
	for _, waits := range []locking.Child{near, far} {
		assert.Equal(t, "ok", answers.nextAnswer(t, waits))
	}
	answers.runSteps(t, []lockStep{
		{here, "posix 1 write 5 1", "EAGAIN"},
		{here, "posix 1 write 6 1", "EAGAIN"},
		{here, "posix 1 write 7 3", "ok"},
		{here, "posix 1 write 20 1", "EAGAIN"},
	})
	for p := range answers {
		assert.NoError(t, p.Wait())
	}
	for _, m := range mounts {
		m.unmountFUSE()
		assert.NotContains(t, m.said.String(), "lock lost")
	}
}

// shortGrace is a grace period of nfsrdmad, the shortest.
const shortGrace = 10 * time.Second

// TestMountrdmaGranted has nfsrdmad call mountrdma when the lock is free for which a program waits, at the port that
// mountrdma has registered with rpcbind.
func TestMountrdmaGranted(t *testing.T) {
	runIsolated(t, portmapLimit, func(t *testing.T) {
		startRPCBind(t, "rpcbind", "/run")
		registered := func() string { return joinWords(onHost(t, "/", "rpcinfo -p 127.0.0.1")) }
		raw, control := filepath.Join(t.TempDir(), "granted.pcap"), filepath.Join(t.TempDir(), "control")
		capture := Record(t, raw, "tcp")
		d := startDaemon(t, "--no-root-squash", "--control", control)
		s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
		m, other := s.mountFUSE(t), s.mountFUSE(t)
		assert.Contains(t, registered(), "100021 4 tcp")
		answers := make(lockAnswers)
		waits, has := answers.startLocker(t, m.point), answers.startLocker(t, other.point)
		answers.runSteps(t, []lockStep{{has, "ofd 1 write 0 10", "ok"}})
		fmt.Fprintln(waits, "posix-wait 1 write 5 1")
		eventually(t, func() bool { return statusOf(t, control).callsOf("nlm4", "LOCK") >= 8 }, daemonLimit, pollEvery,
			"mountrdma asks less and less often")
		answers.runSteps(t, []lockStep{{has, "ofd 1 none 0 0", "ok"}})
		assert.Equal(t, "ok", answers.nextAnswer(t, waits))
		answers.runSteps(t, []lockStep{{has, "ofd 1 write 5 1", "EAGAIN"}})
		for p := range answers {
			assert.NoError(t, p.Wait())
		}
		other.unmountFUSE()
		assert.Contains(t, registered(), "100021 4 tcp", "that of the first mount")
		m.unmountFUSE()
		assert.NotContains(t, registered(), "100021")
		capture.End(t)
		n := countFramesByFilter(t, raw, nil, "rpc.msgtyp == 0 && nlm.procedure_v4 == 5", "rpc.msgtyp == 1 && nlm.procedure_v4 == 5 && nlm.stat == 0")
		assert.Positive(t, n[0], "GRANTED")
		assert.Positive(t, n[1], "that mountrdma takes")
		d.stopGracefully()
	})
}

// startLocker starts a process of this host that has the file of a directory open.
func (a lockAnswers) startLocker(t *testing.T, dir string) locking.Child {
	t.Helper()
	p, err := hostLocker(dir)
	require.NoError(t, err)
	return a.openLocker(t, p)
}

func (a lockAnswers) openLocker(t *testing.T, p locking.Child) locking.Child {
	t.Helper()
	a[p] = bufio.NewReader(p)
	a.runSteps(t, []lockStep{{p, "open 1", "ok"}})
	return p
}

// nextAnswer returns the answer to a command that had to wait.
func (a lockAnswers) nextAnswer(t *testing.T, p locking.Child) string {
	t.Helper()
	answer, err := a[p].ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(answer)
}

// awaitReclaim returns when a process of the server's host finds a lock of a client.
func (a lockAnswers) awaitReclaim(t *testing.T, here locking.Child, where, found string) {
	t.Helper()
	var answer string
	for end := time.Now().Add(grantedLimit); answer != found; time.Sleep(pollEvery) {
		require.True(t, time.Now().Before(end), "%q is found at %s, and no %s", answer, where, found)
		fmt.Fprintln(here, "posix-test 1 write "+where)
		answer = a.nextAnswer(t, here)
	}
}
