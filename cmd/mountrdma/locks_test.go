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

// TestMountLocks checks that a mount's locks hold at the server, and that the end
// of the mount leaves none.
func TestMountLocks(t *testing.T) {
	r, point := scene(t)
	status, _, stderr := finished(t, "mountrdma", r.addr+":/x", point)
	require.Zero(t, status, stderr)
	assert.Empty(t, stderr)
	daemon := adopted(t)
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
	must(t, "umount", point)
	assert.Empty(t, r.nlm.Held(string(calls[0].Lock.Handle)))
	assert.Zero(t, ends(t, daemon))
}

// TestMountKilled kills the process that serves a mount, and checks that the
// next mount at the same place unlocks what the first has left locked.
func TestMountKilled(t *testing.T) {
	r, point := scene(t)
	mount := func() *os.Process {
		status, _, stderr := finished(t, "mountrdma", r.addr+":/x", point)
		require.Zero(t, status, stderr)
		return adopted(t)
	}
	daemon := mount()
	f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 10}))
	handle := string(r.nlm.Log()[0].Lock.Handle)
	require.NoError(t, daemon.Kill())
	ends(t, daemon)
	f.Close()
	require.NoError(t, unix.Unmount(point, unix.MNT_DETACH))
	assert.Len(t, r.nlm.Held(handle), 1)
	daemon = mount()
	for r.nlm.Count(nlm4.ProcUnlock) == 0 {
		runtime.Gosched()
	}
	must(t, "umount", point)
	assert.Empty(t, r.nlm.Held(handle))
	assert.Zero(t, ends(t, daemon))
}

// TestMountWithoutLocks checks the line that tells the user where locks hold, if
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
			r, point := scene(t)
			r.nlmGone.Store(true)
			status, _, stderr := finished(t, "mountrdma", r.addr+":/x", point, "-o", tt.options)
			require.Zero(t, status, stderr)
			assert.Regexp(t, tt.want, stderr)
			daemon := adopted(t)
			f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
			assert.Empty(t, r.nlm.Log())
			require.NoError(t, f.Close())
			must(t, "umount", point)
			assert.Zero(t, ends(t, daemon))
		})
	}
}
