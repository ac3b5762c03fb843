//go:build linux

package posix

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestKeyAcrossExports checks that an object has the same key in all exports of
// its file system: of the same directory, of one below, with another kind of
// handles, and through a bind mount.
func TestKeyAcrossExports(t *testing.T) {
	checkCleanup(t)
	s := newExportedDir(t, "", tableKind())
	below := &testFS{T: t, s: &exportedDir{dir: s.path("d"), o: tableKind()}, c: user()}
	above := &testFS{T: t, s: s, c: user()}
	above.hostDir("d")
	above.hostFile("d/f")
	above.hostFile("d/g")
	require.NoError(t, os.Link(s.path("d", "f"), s.path("linked")))
	key := func(w *testFS, h vfs.Handle) string {
		t.Helper()
		b, err := w.f.AppendKey(nil, h)
		require.NoError(t, err)
		return string(b)
	}
	above.f, below.f = s.open(t), below.s.open(t)
	worlds := map[string]*testFS{"above": above}
	for kind, o := range kinds {
		if o.TableHandles || os.Geteuid() == 0 {
			w := &testFS{T: t, s: &exportedDir{dir: s.dir, o: o}, c: user()}
			w.f = w.s.open(t)
			worlds[kind] = w
		}
	}
	want := key(below, below.walk("f"))
	assert.NotEqual(t, want, key(below, below.walk("g")))
	for kind, w := range worlds {
		assert.Equal(t, want, key(w, w.walk("d", "f")), kind)
		assert.Equal(t, want, key(w, w.walk("linked")), kind)
		assert.Equal(t, key(below, below.f.Root()), key(w, w.walk("d")), kind)
	}
	require.NoError(t, os.Rename(s.path("d", "f"), s.path("d", "f2")))
	for kind, w := range worlds {
		assert.Equal(t, want, key(w, w.walk("d", "f2")), kind)
	}
}

// TestKeyCost checks that the key of an object in use costs neither a system
// call nor memory.
func TestKeyCost(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostFile("f")
	h := w.walk("f")
	mem := make([]byte, 0, 16)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := w.f.AppendKey(mem, h); err != nil {
			t.Error(err)
		}
	}))
}

// TestRootID checks that a directory has one lasting ID, that another directory
// has another, and that there is none on a file system that changes its numbers
// at each mount.
func TestRootID(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("d")
	w.f.traits.local, w.f.traits.volatile = true, false
	d, err := Open(w.s.path("d"), Options{})
	require.NoError(t, err)
	d.traits.local, d.traits.volatile = true, false
	id := d.RootID()
	require.NotNil(t, id)
	assert.NotEqual(t, w.f.RootID(), id)
	d.rootStat.Btime = unix.StatxTimestamp{} // as of a file system without birth times
	assert.NotEqual(t, id, d.RootID())
	d.traits.volatile = true
	assert.Nil(t, d.RootID())
	require.NoError(t, d.Close())

	w.hostMove("d", "e")
	e, err := Open(w.s.path("e"), Options{TableHandles: true})
	require.NoError(t, err)
	e.traits.local, e.traits.volatile = true, false
	assert.Equal(t, id, e.RootID(), "by any path and handles")
	require.NoError(t, e.Close())
	require.NoError(t, os.RemoveAll(w.s.path("e")))
	time.Sleep(20 * time.Millisecond) // two ticks of the kernel's clock
	w.hostDir("e")
	e, err = Open(w.s.path("e"), Options{})
	require.NoError(t, err)
	e.traits.local, e.traits.volatile = true, false
	assert.NotEqual(t, id, e.RootID(), "another, perhaps with the same number")
	require.NoError(t, e.Close())

	m, err := Open("/dev/shm", Options{})
	require.NoError(t, err)
	assert.Nil(t, m.RootID())
	require.NoError(t, m.Close())
}
