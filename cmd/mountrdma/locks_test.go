package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
)

// TestMountLocks checks that a mount's locks hold at the server, and that unmounting
// releases them.
func TestMountLocks(t *testing.T) {
	r, point := newMountTest(t)
	status, _, stderr := runProcess(t, "mountrdma", r.addr+":/x", point)
	require.Zero(t, status, stderr)
	assert.Empty(t, stderr)
	daemon := findDaemon(t)
	f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	calls := r.nlm.Log()
	require.Len(t, calls, 1)
	assert.Len(t, r.nlm.Held(string(calls[0].Lock.Handle)), 1)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, host, string(calls[0].Lock.Caller))
	require.NoError(t, f.Close())
	mustRun(t, "umount", point)
	assert.Empty(t, r.nlm.Held(string(calls[0].Lock.Handle)))
	assert.Zero(t, waitExit(t, daemon))
}

// TestMountKilled kills the process that serves a mount, and checks that the
// next mount at the same mount point releases the locks that the first has left.
func TestMountKilled(t *testing.T) {
	r, point := newMountTest(t)
	mount := func() *os.Process {
		status, _, stderr := runProcess(t, "mountrdma", r.addr+":/x", point)
		require.Zero(t, status, stderr)
		return findDaemon(t)
	}
	daemon := mount()
	f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 10}))
	handle := string(r.nlm.Log()[0].Lock.Handle)
	require.NoError(t, daemon.Kill())
	waitExit(t, daemon)
	f.Close()
	require.NoError(t, unix.Unmount(point, unix.MNT_DETACH))
	assert.Len(t, r.nlm.Held(handle), 1)
	daemon = mount()
	for r.nlm.Count(nlm4.ProcUnlock) == 0 {
		runtime.Gosched()
	}
	mustRun(t, "umount", point)
	assert.Empty(t, r.nlm.Held(handle))
	assert.Zero(t, waitExit(t, daemon))
}

// TestMountWithoutLocks checks the message that says where locks hold, if
// the server has no lock manager and nolock was not given.
func TestMountWithoutLocks(t *testing.T) {
	for _, tt := range []struct {
		options string
		want    string
	}{
		{"rw", `^mountrdma: locks hold on this host only: no lock manager found on 127.0.0.1 \(.*111.*\): start its lock manager and rpcbind, or mount with nolock\n$`},
		{"nolock", "^$"},
		{"local_lock=all", "^$"},
	} {
		t.Run(tt.options, func(t *testing.T) {
			r, point := newMountTest(t)
			r.hideNLM.Store(true)
			status, _, stderr := runProcess(t, "mountrdma", r.addr+":/x", point, "-o", tt.options)
			require.Zero(t, status, stderr)
			assert.Regexp(t, tt.want, stderr)
			daemon := findDaemon(t)
			f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
			assert.Empty(t, r.nlm.Log())
			require.NoError(t, f.Close())
			mustRun(t, "umount", point)
			assert.Zero(t, waitExit(t, daemon))
		})
	}
}
