//go:build linux

package posix

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// TestSwappedLinks checks that a local process that constantly exchanges a
// directory with a symbolic link to the outside leads no operation there.
func TestSwappedLinks(t *testing.T) {
	vfstest.NeedRoot(t)
	eachKind(t, func(t *testing.T, o Options) {
		checkCleanup(t)
		s := newExportedDir(t, "", o)
		w := &testFS{t, s, s.openOnMount(t), user()} // in a copy of the mount the outside does not exist
		outside := w.s.path("..", "outside")
		require.NoError(t, os.Chmod(w.s.path(".."), 0o755)) // modes must not be the reason
		require.NoError(t, os.Mkdir(outside, 0o777))
		require.NoError(t, os.Chmod(outside, 0o777))
		require.NoError(t, os.WriteFile(outside+"/secret", []byte("secret"), 0o666))
		var secret unix.Stat_t
		require.NoError(t, unix.Stat(outside+"/secret", &secret))
		w.hostDir("x")
		require.NoError(t, os.Chmod(w.s.path("x"), 0o777))
		require.NoError(t, os.Symlink("../outside", w.s.path("l")))

		stop := make(chan struct{})
		var swaps sync.WaitGroup
		swaps.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				assert.NoError(t, unix.Renameat2(unix.AT_FDCWD, w.s.path("x"), unix.AT_FDCWD, w.s.path("l"), unix.RENAME_EXCHANGE))
			}
		})
		entered := 0
		for i := 0; entered < 20 && i < 10_000; i++ {
			if w.enter(fmt.Sprint("f", i), secret.Ino) {
				entered++
			}
		}
		close(stop)
		swaps.Wait()
		t.Logf("the directory was there %d times", entered)
		left, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Len(t, left, 1, "something was made outside")
		data, err := os.ReadFile(outside + "/secret")
		require.NoError(t, err)
		assert.Equal(t, "secret", string(data))
	})
}

// enter does with x whatever a client can, and checks that it never reaches the
// file with the inode number secret. It reports whether x was a directory.
func (w *testFS) enter(name string, secret uint64) bool {
	ctx, f, c := w.Context(), w.f, &w.c
	h, a, _, err := f.Lookup(ctx, c, f.Root(), "x")
	if err != nil {
		return false // the table is out of date
	}
	if _, s, _, err := f.Lookup(ctx, c, h, "secret"); err == nil {
		assert.Fail(w, "found an object outside the export", "%+v", s)
	}
	_, _, _, _ = f.Lookup(ctx, c, h, "..")
	_, _ = f.Create(ctx, c, h, name, vfs.CreateHow{})
	_, _, _ = f.Rename(ctx, c, h, name, f.Root(), name)
	_, _, _ = f.Rename(ctx, c, f.Root(), name, h, name+"'")
	_, _ = f.Remove(ctx, c, h, "secret")
	_, _, _, _ = f.Write(ctx, c, h, []byte("x"), 0, vfs.Unstable)
	size := uint64(0)
	_, _ = f.SetAttr(ctx, c, h, vfs.SetAttr{Size: &size}, nil)
	_, _, _, _ = f.ReadDir(ctx, c, h, 0, 0, true, func(e *vfs.Entry) bool {
		assert.NotEqual(w, secret, e.FileID)
		return true
	})
	return a.OK && a.Type == vfs.TypeDir
}
