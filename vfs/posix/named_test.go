//go:build linux

package posix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestUnnamed checks that an object that loses its last name through this
// server is not kept open, and that an object with another name is, for each
// kind of handles, seen before or not.
func TestUnnamed(t *testing.T) {
	for kind, o := range benchKinds() {
		t.Run(kind, func(t *testing.T) {
			w := newTestFS(t, o)
			root, ctx := w.f.Root(), t.Context()
			m, err := w.f.Create(ctx, &w.c, root, "f", vfs.CreateHow{})
			require.NoError(t, err)
			_, _, _, err = w.f.Write(ctx, &w.c, m.Handle, []byte("x"), 0, vfs.Unstable)
			require.NoError(t, err)
			_, _, err = w.f.Link(ctx, &w.c, m.Handle, root, "g")
			require.NoError(t, err)
			require.True(t, w.f.cache.hasObject(m.Handle))

			_, err = w.f.Remove(ctx, &w.c, root, "f")
			require.NoError(t, err)
			assert.True(t, w.f.cache.hasObject(m.Handle), "it has another name")
			h, err := w.f.Create(ctx, &w.c, root, "h", vfs.CreateHow{})
			require.NoError(t, err)
			_, _, err = w.f.Rename(ctx, &w.c, root, "h", root, "g")
			require.NoError(t, err)
			assert.False(t, w.f.cache.hasObject(m.Handle), "another process removed its last name")
			_, err = w.f.Remove(ctx, &w.c, root, "g")
			require.NoError(t, err)
			assert.False(t, w.f.cache.hasObject(h.Handle))
		})
	}
}

// TestUnnamedCloses checks that no caller holds a directory's lock during a large file's last
// close, which takes until its storage is free.
func TestUnnamedCloses(t *testing.T) {
	for kind, o := range benchKinds() {
		t.Run(kind, func(t *testing.T) {
			w := newTestFS(t, o)
			root, ctx := w.f.Root(), t.Context()
			d, err := w.f.getObject(root)
			require.NoError(t, err)
			defer w.f.putObject(d)
			large := func(name string) (place int) {
				m, err := w.f.Create(ctx, &w.c, root, name, vfs.CreateHow{})
				require.NoError(t, err)
				fd, err := unix.Open(w.s.path(name), unix.O_WRONLY|unix.O_CLOEXEC, 0)
				require.NoError(t, err)
				require.NoError(t, unix.Fallocate(fd, 0, 0, slowBlocks*512))
				require.NoError(t, unix.Close(fd))
				open := w.f.cache.getObject(m.Handle)
				require.NotNil(t, open)
				w.f.cache.releaseObject(open)
				return open.fd
			}
			check := func(place int, v *namedObject) {
				t.Helper()
				assert.GreaterOrEqual(t, v.fd, 0, "with no descriptor, the call that removes it frees its storage")
				var st unix.Statx_t
				assert.NoError(t, statFD(place, &st), "closed under the lock")
				w.f.closeNamed(v)
				assert.ErrorIs(t, statFD(place, &st), unix.EBADF)
			}

			place, v := large("f"), noNamedObject
			_, err = w.f.unlinkIn(t.Context(), &w.c, d, "f", 0, &v)
			require.NoError(t, err)
			check(place, &v)

			w.hostFile("g")
			place, old, over := large("f"), noNamedObject, noNamedObject
			_, _, err = w.f.renameIn(t.Context(), &w.c, d, "g", d, "f", &old, &over)
			require.NoError(t, err)
			w.f.closeNamed(&old)
			check(place, &over)
		})
	}
}

// TestNamedUnreadable checks that a name that the file system cannot look up now is neither moved
// nor removed, because the handles would miss it.
func TestNamedUnreadable(t *testing.T) {
	for _, bad := range []error{unix.EIO, unix.ESTALE, unix.EUCLEAN, unix.ENOMEM} {
		w := newTestFS(t, tableKind())
		for _, name := range []string{"f", "g"} {
			w.hostFile(name)
		}
		h, other := w.walk("f"), w.walk("g")
		unreadable := ""
		w.f.openNamed = func(dir int, name string) (int, error) {
			if name == unreadable {
				return -1, bad
			}
			return openPath(dir, name)
		}
		for _, unreadable = range []string{"f", "g"} {
			assert.ErrorIs(t, w.rename("f", "g"), bad)
			_, err := w.f.Remove(t.Context(), &w.c, w.f.Root(), unreadable)
			assert.ErrorIs(t, err, bad)
		}
		unreadable = ""
		require.NoError(t, w.rename("f", "g"))
		w.reopen()
		assert.NoError(t, w.getattr(h))
		assert.ErrorIs(t, w.getattr(other), unix.ESTALE)
	}
}

// TestOtherLinks checks how many names an object has left, if the file system does not
// tell.
func TestOtherLinks(t *testing.T) {
	assert.EqualValues(t, 1, otherLinks(&unix.Statx_t{Mode: unix.S_IFREG, Nlink: 2}))
	assert.Zero(t, otherLinks(&unix.Statx_t{Mode: unix.S_IFREG, Nlink: 1}))
	assert.Zero(t, otherLinks(&unix.Statx_t{Mode: unix.S_IFREG}))
	assert.Zero(t, otherLinks(&unix.Statx_t{Mode: unix.S_IFDIR, Nlink: 2}))
}
