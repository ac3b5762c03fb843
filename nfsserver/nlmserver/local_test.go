package nlmserver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// newLocalServer starts a server for a host directory, and returns the name of the file "f" there.
func newLocalServer(t *testing.T, settings ...configChange) (g *testServer, file string) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	fs, err := posix.Open(dir, posix.Options{StateDir: t.TempDir(), TableHandles: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fs.Close()) })
	g = newTestServer(t, append(settings, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) {
		c.Exports[0].FS, c.Exports[0].Clients = fs, exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})
	})...)
	return g, filepath.Join(dir, "f")
}

// TestLocal: RNLM-6.3.2-1, RNLM-LINUX-7, RNLM-LINUX-8: clients and host processes exclude each
// other, and a client that waits for such a process gets the lock when the process has unlocked
// it.
func TestLocal(t *testing.T) {
	g, file := newLocalServer(t)
	a := g.newClient("192.0.2.1", "a")
	a.cred.UID = 0
	h := g.hostAt("192.0.2.1")
	fd, err := unix.Open(file, unix.O_RDWR, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	local := func(kind int16, start, length int64) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: start, Len: length})
	}
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
	assert.ErrorIs(t, local(unix.F_RDLCK, 9, 1), unix.EAGAIN)
	require.NoError(t, local(unix.F_WRLCK, 20, 5))
	status, holder := a.testLock(false, 0, 0)
	assert.Equal(t, nlm4.Denied, status)
	assert.Equal(t, nlm4.Holder{Exclusive: true, Owner: []byte("host"), Offset: 20, Length: 5}, holder)
	assert.Equal(t, nlm4.Denied, a.tryLock(false, 24, 1))
	require.Equal(t, nlm4.Blocked, a.waitLock(true, 24, 1))
	require.NoError(t, local(unix.F_UNLCK, 20, 5))
	var granted []nlm4.TestArgs
	require.Eventually(t, func() bool { granted = append(granted, h.takeGranted()...); return len(granted) > 0 }, 20*time.Second, time.Millisecond)
	assert.EqualValues(t, 24, granted[0].Lock.Offset)
	assert.ErrorIs(t, local(unix.F_WRLCK, 24, 1), unix.EAGAIN)
	require.Equal(t, nlm4.Granted, a.unlockRange(0, 0))
	assert.NoError(t, local(unix.F_WRLCK, 0, 0))
	a.sendNotify("a", 3)
	g.state.WaitForHostLocks()
}

// TestWantedLock checks that a client that is silent for a day keeps its locks, even if another
// client requests them and a host process waits for them: NLM has no leases.
func TestWantedLock(t *testing.T) {
	var now time.Duration
	g, file := newLocalServer(t, func(c *nfs4state.Config, _ *Config, _ *exportset.Config) {
		c.Now = func() time.Duration { return now }
		c.LockWaited = func(any, string) (waited, known bool) { return true, true }
	})
	a := g.newClient("192.0.2.1", "a")
	a.cred.UID = 0
	b := g.newClient("192.0.2.2", "b")
	b.cred.UID = 0
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
	now += 24 * time.Hour
	g.state.Sweep()
	assert.Equal(t, nlm4.Denied, b.tryLock(false, 9, 1))
	g.state.Sweep()
	fd, err := unix.Open(file, unix.O_RDWR, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	assert.ErrorIs(t, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Len: 10}), unix.EAGAIN)
	require.Equal(t, nlm4.Granted, a.unlockRange(0, 0))
	assert.NoError(t, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Len: 10}))
}
