//go:build linux

package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// part reads up to n entries with attributes from a cookie on.
func (r *benchmarkFS) part(t testing.TB, cookie uint64, n int) (names []string, last uint64, eof bool) {
	_, _, eof, err := r.f.ReadDir(r.ctx, &r.c, r.f.Root(), cookie, 0, true, func(e *vfs.Entry) bool {
		if len(names) == n {
			return false
		}
		if !isDots(string(e.Name)) {
			assert.True(t, e.HasHandle && e.Attr.OK, "%s", e.Name)
		}
		names, cookie = append(names, string(e.Name)), e.Cookie
		return true
	})
	require.NoError(t, err)
	return names, cookie, eof
}

// TestListingParts checks that parts of a listing show what a whole one does, whatever
// their sizes, that a part shows no entry that was removed before it, and that what is kept
// between parts is bounded and goes with the descriptor.
func TestListingParts(t *testing.T) {
	vfstest.NeedRoot(t)
	s := newExportedDir(t, "", Options{}) // on disk: older kernels' tmpfs moves entries when others go
	root := s.dir
	r := &benchmarkFS{f: s.open(t), c: user(), ctx: t.Context()}
	for i := range 1500 {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("entry-%04d", i)), nil, 0o666))
	}
	whole, _, eof := r.part(t, 0, 1<<20)
	require.True(t, eof)
	require.Len(t, whole, 1502)
	for _, n := range []int{1, 7, 40, 700} {
		var all []string
		var cookie uint64
		for eof := false; !eof; {
			var names []string
			names, cookie, eof = r.part(t, cookie, n)
			all = append(all, names...)
			if n < 40 && !eof {
				assert.EqualValues(t, 1, r.f.cache.leftovers.Load())
			}
		}
		assert.Equal(t, whole, all, "parts of %d", n)
	}

	first, cookie, _ := r.part(t, 0, 10)
	time.Sleep(20 * time.Millisecond) // more than a step of the kernel's clock
	for _, name := range whole[10:15] {
		require.NoError(t, os.Remove(filepath.Join(root, name)))
	}
	next, cookie, _ := r.part(t, cookie, 10)
	assert.Equal(t, whole[15:25], next, "after %v", first)
	back, _, _ := r.part(t, 0, 5)
	assert.Equal(t, whole[:5], back)
	after, _, _ := r.part(t, cookie, 3)
	assert.Equal(t, whole[25:28], after)

	_, _, eof = r.part(t, 0, 1<<20)
	require.True(t, eof)
	d, err := r.f.getDirectory(r.f.Root())
	require.NoError(t, err)
	for _, fl := range d.files {
		assert.Zero(t, len(fl.rest.b), "a new listing must see nothing older than itself")
	}
	r.f.putObject(d)

	r.f.cache.leftovers.Store(maxLeftovers)
	r.c.Groups = nil // another descriptor
	names, cookie, _ := r.part(t, 0, 10)
	more, _, _ := r.part(t, cookie, 10)
	assert.Equal(t, append(whole[:10:10], whole[15:25]...), append(names, more...), "without a place for the rest")
	assert.EqualValues(t, maxLeftovers, r.f.cache.leftovers.Load())
	r.f.cache.leftovers.Store(1)
	require.NoError(t, r.f.Close())
	assert.Zero(t, r.f.cache.leftovers.Load())
}

// TestListingLooksOnce checks that a request reads one entry more than fits, if the entries were
// seen before.
func TestListingLooksOnce(t *testing.T) {
	vfstest.NeedRoot(t)
	s := newExportedDir(t, "", Options{})
	r := &benchmarkFS{f: s.open(t), c: user(), ctx: t.Context()}
	for i := range 100 {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("entry-%04d", i)), nil, 0o666))
	}
	time.Sleep(birthAge + 50*time.Millisecond) // until they are not just born
	_, _, eof := r.part(t, 0, 1000)
	require.True(t, eof)
	r.f.SetExclusive(true) // the attributes that a part reads are kept
	defer r.f.SetExclusive(false)
	_, cookie, _ := r.part(t, 0, 20)
	attrs.forgetAll()
	names, _, _ := r.part(t, cookie, 25)
	looked := 0
	for i := range 100 {
		var st unix.Statx_t
		require.NoError(t, unix.Statx(unix.AT_FDCWD, filepath.Join(s.dir, fmt.Sprintf("entry-%04d", i)), 0, statMask, &st))
		if r.f.cachedStat(st.Ino, &st) {
			looked++
		}
	}
	assert.Len(t, names, 25)
	assert.LessOrEqual(t, looked, 26)
}
