//go:build linux

package posix

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// twoSeen returns two exclusive FS of one directory.
func twoSeen(t *testing.T, o Options) (s *exportedDir, f, g *FS) {
	vfstest.NeedRoot(t)
	o.Exclusive, o.StateDir = true, t.TempDir()
	s = newExportedDir(t, "/dev/shm", o)
	f = s.open(t)
	s.o.StateDir = t.TempDir()
	return s, f, s.open(t)
}

// TestSeenByMount checks that FS share no attributes if their mounts may show others: a
// mount may map the owners, or be a snapshot.
func TestSeenByMount(t *testing.T) {
	checkCleanup(t)
	s, f, g := twoSeen(t, Options{})
	require.NotEqual(t, f.rootStat.Mnt_id, g.rootStat.Mnt_id)
	m, err := f.Create(t.Context(), &vfs.Cred{}, f.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	h, _, _, err := g.Lookup(t.Context(), &vfs.Cred{}, g.Root(), "f")
	require.NoError(t, err)
	sees := func(f *FS, h vfs.Handle, want uint32) {
		t.Helper()
		a, err := f.GetAttr(t.Context(), &vfs.Cred{}, h)
		require.NoError(t, err)
		assert.Equal(t, want, a.UID)
	}
	sees(f, m.Handle, 0)
	require.NoError(t, os.Chown(s.path("f"), 7, 7)) // as if by the mount
	sees(f, m.Handle, 0)
	sees(g, h, 7)
}

// TestSeenRace checks that a name that another FS has given to another object, after this
// one has looked what its change concerns, leaves no attributes of that object.
func TestSeenRace(t *testing.T) {
	for what, change := range map[string]func(f *FS, c *vfs.Cred) error{
		"remove": func(f *FS, c *vfs.Cred) error {
			_, err := f.Remove(t.Context(), c, f.Root(), "a")
			return err
		},
		"rename over it": func(f *FS, c *vfs.Cred) error {
			_, _, err := f.Rename(t.Context(), c, f.Root(), "c", f.Root(), "a")
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			checkCleanup(t)
			s, f, g := twoSeen(t, Options{})
			c := vfs.Cred{}
			for _, name := range []string{"a", "b", "c"} {
				require.NoError(t, os.WriteFile(s.path(name), nil, 0o600))
			}
			require.NoError(t, os.Link(s.path("b"), s.path("b2")))
			h, _, _, err := f.Lookup(t.Context(), &c, f.Root(), "b")
			require.NoError(t, err)
			open := f.openNamed
			f.openNamed = func(dir int, name string) (int, error) {
				fd, err := open(dir, name)
				if name == "a" {
					_, _, rerr := g.Rename(t.Context(), &c, g.Root(), "b", g.Root(), "a")
					assert.NoError(t, rerr)
					_, gerr := f.GetAttr(t.Context(), &c, h)
					assert.NoError(t, gerr)
				}
				return fd, err
			}
			require.NoError(t, change(f, &c))
			a, err := f.GetAttr(t.Context(), &c, h)
			require.NoError(t, err)
			assert.EqualValues(t, 1, a.Nlink, "b2 alone is left")
		})
	}
}

// TestSeenAlone checks that a removal keeps the attributes of all but the removed object and its
// directory, although the directory is listed in the meantime.
func TestSeenAlone(t *testing.T) {
	checkCleanup(t)
	s, f, _ := twoSeen(t, Options{})
	c := vfs.Cred{}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(s.path(name), nil, 0o600))
	}
	h, _, _, err := f.Lookup(t.Context(), &c, f.Root(), "b")
	require.NoError(t, err)
	open := f.openNamed
	f.openNamed = func(dir int, name string) (int, error) {
		_, _, _, err := f.ReadDir(t.Context(), &c, f.Root(), 0, 0, false, func(*vfs.Entry) bool { return true })
		assert.NoError(t, err)
		return open(dir, name)
	}
	_, err = f.GetAttr(t.Context(), &c, h)
	require.NoError(t, err)
	_, err = f.Remove(t.Context(), &c, f.Root(), "a")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(s.path("b"), 0o640))
	a, err := f.GetAttr(t.Context(), &c, h)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, a.Mode, "kept")
}

// TestSeenUnfinished checks that attributes from before a new object was finished are not
// kept, also if that failed.
func TestSeenUnfinished(t *testing.T) {
	checkCleanup(t)
	_, f, _ := twoSeen(t, Options{})
	c, uid, mode := vfs.Cred{}, uint32(7), uint32(0o700)
	d, err := f.getDirectory(f.Root())
	require.NoError(t, err)
	defer f.putObject(d)
	m := &maker{name: "d", attr: vfs.SetAttr{
		Mode: &mode, UID: &uid, MtimeHow: vfs.SetToClient, Mtime: vfs.Time{Nsec: 2e9}, // no time
	}}
	m.call = func(dir int) (int, error) {
		fd, err := madePath(dir, "d", unix.Mkdirat(dir, "d", 0o700))
		var st unix.Statx_t
		assert.NoError(t, f.statName(d, "d", &st)) // by another call
		return fd, err
	}
	_, err = f.makeNew(t.Context(), &c, f.Root(), m)
	require.ErrorIs(t, err, unix.EINVAL)
	var st unix.Statx_t
	fd, err := openPath(f.mount, "d")
	require.NoError(t, err)
	defer closeFD(fd)
	require.NoError(t, statFD(fd, &st))
	var seen unix.Statx_t
	if f.cachedStat(st.Ino, &seen) {
		assert.EqualValues(t, 7, seen.Uid)
	}
}

// TestSeenHalfMade checks that nothing is kept of a new file that others may have seen before
// it had its size, if its making fails after that.
func TestSeenHalfMade(t *testing.T) {
	checkCleanup(t)
	_, f, _ := twoSeen(t, Options{})
	c, size := vfs.Cred{}, uint64(5)
	create := func(name string) error {
		_, err := f.Create(t.Context(), &c, f.Root(), name, vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{Size: &size}})
		return err
	}
	require.NoError(t, create("before")) // leaves the directory open
	since := attrs.currentTime()
	giveBack := noFDs(t, 1)
	err := create("f")
	giveBack()
	require.ErrorIs(t, err, unix.EIO)
	var st unix.Statx_t
	fd, err := openPath(f.mount, "f")
	require.NoError(t, err)
	defer closeFD(fd)
	require.NoError(t, statFD(fd, &st))
	assert.Equal(t, size, st.Size)
	assert.False(t, attrs.isUnchanged(f.idOf(st.Ino), since, 0), "others may know another size")
}

// TestSeenNames checks that a listing shows the objects that have the names when it looks at
// them, although it knows the numbers of those that had them.
func TestSeenNames(t *testing.T) {
	checkCleanup(t)
	s, f, g := twoSeen(t, Options{shareYoung: true})
	c := vfs.Cred{}
	const n = 3 * plusGroup
	for i := range n {
		require.NoError(t, os.WriteFile(s.path(fmt.Sprint(i)), nil, 0o600))
	}
	list := func(fn func(e *vfs.Entry)) {
		_, _, _, err := f.ReadDir(t.Context(), &c, f.Root(), 0, 0, true, func(e *vfs.Entry) bool { fn(e); return true })
		require.NoError(t, err)
	}
	var names []string
	list(func(e *vfs.Entry) {
		if name := string(e.Name); !isDots(name) {
			names = append(names, name)
		}
	})
	require.Len(t, names, n)
	last, other := names[n-1], names[n-2]
	swapped := false
	list(func(e *vfs.Entry) {
		if !swapped {
			swapped = true
			for _, r := range [][2]string{{last, "x"}, {other, last}} {
				_, _, err := g.Rename(t.Context(), &c, g.Root(), r[0], g.Root(), r[1])
				require.NoError(t, err)
			}
			for _, name := range []string{"x", last} {
				_, _, _, err := f.Lookup(t.Context(), &c, f.Root(), name)
				require.NoError(t, err)
			}
		}
		switch name := string(e.Name); name {
		case last:
			h, _, _, err := f.Lookup(t.Context(), &c, f.Root(), name)
			require.NoError(t, err)
			assert.Equal(t, h, e.Handle)
			assert.Equal(t, e.FileID, e.Attr.Attr.FileID)
		case other:
			assert.False(t, e.HasHandle, "the name is gone")
		}
	})
}

// TestSeenCovered checks that a listing does not show a directory that a mount covers,
// although its attributes are known, if the mount of the export could not be cloned.
func TestSeenCovered(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", Options{shareYoung: true, Exclusive: true})
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	f, c := s.openOnMount(t), vfs.Cred{}
	h, _, _, err := f.Lookup(t.Context(), &c, f.Root(), "d")
	require.NoError(t, err)
	mountTmpfs(t, s.path("d"), "")
	_, err = f.GetAttr(t.Context(), &c, h)
	require.NoError(t, err)
	_, _, _, err = f.ReadDir(t.Context(), &c, f.Root(), 0, 0, true, func(e *vfs.Entry) bool {
		if string(e.Name) == "d" {
			assert.False(t, e.HasHandle)
			assert.False(t, e.Attr.OK)
		}
		return true
	})
	require.NoError(t, err)
}
