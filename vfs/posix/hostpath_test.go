//go:build linux

package posix

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestHostPath checks that an object's path follows renames and removals of its names by other
// processes, and that an open file without a name has the last one.
func TestHostPath(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		w := newTestFS(t, o)
		w.hostDir("d")
		w.hostFile("d/f")
		w.hostFile("d/g (deleted)")
		dir, err := filepath.EvalSymlinks(w.s.path("."))
		require.NoError(t, err)
		check := func(h vfs.Handle, want string, removed bool) {
			t.Helper()
			path, is, err := w.f.HostPath(h)
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(dir, want), path)
			assert.Equal(t, removed, is)
		}
		check(w.f.Root(), "", false)
		check(w.walk("d"), "d", false)
		check(w.walk("d", "g (deleted)"), "d/g (deleted)", false)
		f := w.walk("d", "f")
		opened, err := w.f.OpenFile(w.Context(), &w.c, f, vfs.OpenRead)
		require.NoError(t, err)
		defer opened.Close()
		check(f, "d/f", false)
		w.hostMove("d/f", "d/x")
		check(f, "d/x", false)
		w.hostOut("d")
		_, _, err = w.f.HostPath(f)
		assert.ErrorIs(t, err, unix.ESTALE)
		w.hostIn("e")
		check(f, "e/x", false)
		require.NoError(t, os.Remove(w.s.path("e", "x")))
		check(f, "e/x", true)

		w.hostFile("e/y")
		y := w.walk("e", "y")
		other, err := w.f.OpenFile(w.Context(), &w.c, y, vfs.OpenRead)
		require.NoError(t, err)
		defer other.Close()
		w.hostOut("e")
		require.NoError(t, os.Remove(w.s.path("..", "outside", "y")))
		_, _, err = w.f.HostPath(y)
		assert.ErrorIs(t, err, unix.ESTALE, "a file that was removed outside the export")
	})
}
