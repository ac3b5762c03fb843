//go:build linux

package posix

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestSeenByPromise checks that attributes are kept only where that was promised.
func TestSeenByPromise(t *testing.T) {
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", Options{})
	f, c := s.open(t), user()
	m, err := f.Create(t.Context(), &c, f.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	sees := func(want uint32, why string) {
		a, err := f.GetAttr(t.Context(), &c, m.Handle)
		require.NoError(t, err)
		assert.Equal(t, want, a.Mode, why)
	}
	chmod := func(mode os.FileMode) { require.NoError(t, os.Chmod(s.path("f"), mode)) }
	sees(0o600, "")
	chmod(0o640)
	sees(0o640, "no promise")
	f.SetExclusive(true)
	sees(0o640, "")
	chmod(0o644)
	sees(0o640, "nothing is kept")
	f.SetExclusive(false)
	sees(0o644, "the promise is over")
	f.SetExclusive(true)
	f.SetExclusive(true)
	sees(0o644, "changes before the promise")
	f.SetExclusive(false)
	assert.Zero(t, attrs.users.Load())
}

// TestSeenOrder checks when attributes that were read during changes are kept.
func TestSeenOrder(t *testing.T) {
	a := attrCache{maxAge: time.Hour}
	a.addUser()
	of := func(ino uint64) (st *unix.Statx_t, id inode) {
		st = &unix.Statx_t{Ino: ino, Nlink: 1, Mode: unix.S_IFREG, Size: a.currentTime()}
		return st, inodeOf(st)
	}
	st, id := of(5)
	var got unix.Statx_t
	knows := func() bool { return a.getAttr(id, &got) }
	a.putAttr(st, a.currentTime())
	assert.True(t, knows())
	assert.Equal(t, *st, got)
	looked := a.currentTime()
	require.True(t, a.beginChange(id))
	assert.False(t, knows(), "during a change")
	a.putAttr(st, a.currentTime())
	assert.False(t, knows(), "read during a change, perhaps before it")
	a.endChange(id, true)
	assert.False(t, knows())
	a.putAttr(st, looked)
	assert.False(t, knows(), "read before a change")
	a.beginChange(id)
	a.putAttrAfter(st, a.currentTime())
	assert.False(t, knows())
	a.endChange(id, true)
	assert.True(t, knows(), "read after a change, at its end")
	a.beginChange(id)
	a.putAttrAfter(st, a.currentTime())
	a.noteChanged(id)
	a.endChange(id, true)
	assert.False(t, knows(), "another change meanwhile")
	a.beginChange(id)
	a.beginChange(id)
	a.putAttrAfter(st, a.currentTime())
	a.endChange(id, true)
	a.endChange(id, true)
	assert.False(t, knows(), "another change until later")
	a.putAttr(st, a.currentTime())
	other, otherID := of(5 + attrPages*attrSlots)
	a.putAttr(other, a.currentTime())
	assert.False(t, knows(), "two objects in a slot")
	assert.True(t, a.getAttr(otherID, &got))
	a.putAttr(st, a.currentTime())
	a.addUser()
	assert.False(t, knows(), "from before a user")
	gone, _ := of(5)
	gone.Nlink = 0
	a.putAttr(gone, a.currentTime())
	assert.False(t, knows(), "without a name")
	a.beginChange(id)
	a.putAttrAfter(gone, a.currentTime())
	a.endChange(id, true)
	assert.False(t, knows(), "without a name, after a change")
	a.putAttr(st, a.currentTime())
	a.maxAge = -1
	assert.False(t, knows(), "old")
	a.users.Store(0)
	assert.False(t, a.beginChange(id))
	a.endChange(id, false)
}

// TestSeenConcurrently appends to files, and reads their attributes concurrently: after an append
// was seen, the file must never be shorter.
func TestSeenConcurrently(t *testing.T) {
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", Options{StateDir: t.TempDir(), Exclusive: true, shareYoung: true})
	f, c := s.open(t), user()
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprint(i)
		m, err := f.Create(t.Context(), &c, f.Root(), name, vfs.CreateHow{})
		require.NoError(t, err)
		var mu sync.Mutex
		written := uint64(0)
		wg.Go(func() {
			for n := uint64(0); n < 300; n++ {
				_, _, _, err := f.Write(t.Context(), &c, m.Handle, []byte{1}, n, vfs.Unstable)
				assert.NoError(t, err)
				mu.Lock()
				written = n + 1
				mu.Unlock()
			}
		})
		for range 2 {
			wg.Go(func() {
				for least := uint64(0); least < 300; {
					mu.Lock()
					least = written
					mu.Unlock()
					a, err := f.GetAttr(t.Context(), &c, m.Handle)
					assert.NoError(t, err)
					_, b, _, err := f.Lookup(t.Context(), &c, f.Root(), name)
					assert.NoError(t, err)
					if !assert.GreaterOrEqual(t, a.Size, least) || !assert.GreaterOrEqual(t, b.Attr.Size, a.Size) {
						return
					}
				}
			})
		}
	}
	wg.Wait()
}
