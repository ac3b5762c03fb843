//go:build linux

package posix

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// TestVerdicts checks that the kernel's answers are dropped at once if mode or
// owner changes, for all callers, and after a while in any case.
func TestVerdicts(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", Options{shareYoung: true})
	require.NoError(t, os.WriteFile(s.path("f"), nil, 0o644))
	f, ctx := s.open(t), context.Background()
	lookup := func(uid uint32) error {
		c := vfs.Cred{UID: uid, GID: uid, Groups: []uint32{uid + 1}}
		_, _, _, err := f.Lookup(ctx, &c, f.Root(), "f")
		return err
	}
	callers := []uint32{2000, 3000, 4000}
	all := func(want error) {
		t.Helper()
		for range 2 {
			for _, uid := range callers {
				assert.Equal(t, want, lookup(uid))
			}
		}
	}
	all(nil)
	require.NoError(t, os.Chmod(s.dir, 0o700))
	all(unix.EACCES)
	require.NoError(t, os.Chmod(s.dir, 0o711))
	all(nil)
	require.NoError(t, os.Chmod(s.dir, 0o750))
	require.NoError(t, os.Chown(s.dir, 1, 4001))
	assert.Equal(t, unix.EACCES, lookup(2000))
	assert.NoError(t, lookup(4000), "by a supplementary group")

	// More callers than are cached, each with its own answer.
	require.NoError(t, os.Chmod(s.dir, 0o710))
	for range 2 {
		for uid := range uint32(3 * maxVerdicts) {
			want := error(unix.EACCES)
			if uid <= 1 { // root, and the owner
				want = nil
			}
			assert.Equal(t, want, lookup(uid), "uid %d", uid)
		}
	}
	o, err := f.getObject(f.Root())
	require.NoError(t, err)
	defer f.putObject(o)
	assert.Len(t, o.verdicts, maxVerdicts)
}

// TestVerdictHolds checks that the kernel is queried only if its last verdict is
// no longer valid.
func TestVerdictHolds(t *testing.T) {
	var st unix.Statx_t
	st.Mode = 0o40755
	o := &object{}
	w := credKey{uid: 5}
	o.addVerdict(&w, &st, *permsOf(&st), 1<<unix.R_OK, true)
	o.addVerdict(&w, &st, *permsOf(&st), 1<<unix.W_OK, false)
	v := o.verdictOf(&w)
	assert.True(t, v.isValid(&st))
	assert.EqualValues(t, 1<<unix.R_OK|1<<unix.W_OK, v.asked)
	assert.EqualValues(t, 1<<unix.R_OK, v.yes)
	assert.Nil(t, o.verdictOf(&credKey{uid: 5, groups: []uint32{5}}), "another group list of the same user")

	v.seen.at = time.Now().Add(-recheckTime)
	assert.False(t, v.isValid(&st), "a file system may have become read-only")
	o.addVerdict(&w, &st, *permsOf(&st), 1<<unix.X_OK, true)
	assert.EqualValues(t, 1<<unix.X_OK, v.asked, "the earlier verdict is too old")
	assert.True(t, v.isValid(&st))
}

// TestKnownHandles checks that a handle is remembered by attributes that
// distinguish the object from all others, and not at all without such
// attributes.
func TestKnownHandles(t *testing.T) { synctest.Test(t, testKnownHandles) }

func testKnownHandles(t *testing.T) {
	old := unix.StatxTimestamp{Sec: 1000, Nsec: 1}
	h, _ := vfs.NewHandle([]byte("handle"))
	held := false
	k := knownHandles{isOpen: func(vfs.Handle) bool { return held }}
	_, ok := k.getHandle(7, old)
	assert.False(t, ok)
	k.putHandle(7, old, h)
	got, ok := k.getHandle(7, old)
	assert.True(t, ok)
	assert.Equal(t, h, got)
	for _, other := range []unix.StatxTimestamp{{Sec: 1000, Nsec: 2}, {Sec: 1001, Nsec: 1}, {}} {
		_, ok = k.getHandle(7, other)
		assert.False(t, ok, "another birth time")
	}
	_, ok = k.getHandle(7+handleSlots, old)
	assert.False(t, ok)
	k.putHandle(7+handleSlots, old, h)
	_, ok = k.getHandle(7, old)
	assert.False(t, ok, "its slot was taken")

	now := time.Now()
	young := unix.StatxTimestamp{Sec: now.Unix(), Nsec: uint32(now.Nanosecond())}
	k.putHandle(8, young, h)
	_, ok = k.getHandle(8, young)
	assert.False(t, ok, "the next object with this inode number may be created in the same instant")
	held = true
	_, ok = k.getHandle(8, young)
	assert.False(t, ok, "another object may still be created in that instant")
	time.Sleep(birthAge)
	held = false
	_, ok = k.getHandle(8, young)
	assert.False(t, ok, "another object may have been created in that instant")
	held = true
	_, ok = k.getHandle(8, young)
	assert.True(t, ok, "the same object")
	held = false
	_, ok = k.getHandle(8, young)
	assert.True(t, ok, "later verdicts are newer")
	k.putHandle(9, unix.StatxTimestamp{}, h)
	_, ok = k.getHandle(9, unix.StatxTimestamp{})
	assert.False(t, ok, "a file system without birth times")
}

// TestKnownReplaced checks that a remembered handle opens neither a removed
// object, nor the object that now has its name.
func TestKnownReplaced(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", Options{shareYoung: true})
	f, c, ctx := s.open(t), user(), context.Background()
	seen := make(map[vfs.Handle]bool)
	for i := range 50 {
		require.NoError(t, os.WriteFile(s.path("f"), []byte(fmt.Sprint(i)), 0o666))
		h, a, _, err := f.Lookup(ctx, &c, f.Root(), "f")
		require.NoError(t, err)
		again, b, _, err := f.Lookup(ctx, &c, f.Root(), "f")
		require.NoError(t, err)
		assert.Equal(t, h, again)
		assert.Equal(t, a, b)
		assert.False(t, seen[h])
		seen[h] = true
		require.NoError(t, os.Remove(s.path("f")))
		_, _, _, err = f.Lookup(ctx, &c, f.Root(), "f")
		assert.Equal(t, unix.ENOENT, err)
	}
}
