package billy

import (
	"os"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/helper/chroot"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A brokenSyncFS has files that hide their Sync.
type brokenSyncFS struct{ gobilly.Filesystem }

type fakeBareFile struct{ file gobilly.File }

func (f fakeBareFile) Name() string                              { return f.file.Name() }
func (f fakeBareFile) Read(p []byte) (int, error)                { return f.file.Read(p) }
func (f fakeBareFile) ReadAt(p []byte, off int64) (int, error)   { return f.file.ReadAt(p, off) }
func (f fakeBareFile) Write(p []byte) (int, error)               { return f.file.Write(p) }
func (f fakeBareFile) Seek(off int64, whence int) (int64, error) { return f.file.Seek(off, whence) }
func (f fakeBareFile) Truncate(size int64) error                 { return f.file.Truncate(size) }
func (f fakeBareFile) Close() error                              { return f.file.Close() }
func (fakeBareFile) Lock() error                                 { return nil }
func (fakeBareFile) Unlock() error                               { return nil }

func (n brokenSyncFS) Open(name string) (gobilly.File, error) {
	return n.OpenFile(name, os.O_RDONLY, 0)
}

func (n brokenSyncFS) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	file, err := n.Filesystem.OpenFile(name, flag, perm)
	return fakeBareFile{file}, err
}

// brokenRootFS has a root that cannot be opened.
type brokenRootFS struct{ gobilly.Filesystem }

func (n brokenRootFS) Open(name string) (gobilly.File, error) {
	if name == "" {
		return nil, os.ErrNotExist
	}
	return n.Filesystem.Open(name)
}

// TestWithoutSync checks that a file system whose files cannot be synced is rejected, unless its
// owner says that it needs no sync.
func TestWithoutSync(t *testing.T) {
	host := newHost(t)
	for name, fs := range map[string]gobilly.Filesystem{"files": brokenSyncFS{host}, "root": brokenRootFS{host}} {
		_, err := New(fs, Options{})
		assert.ErrorContains(t, err, "osfs.WithBoundOS", name)
		assert.ErrorContains(t, err, "Options.Volatile", name)
	}
	_, err := New(readOnlyFS{host}, Options{})
	assert.NoError(t, err, "no writer")

	u := newUser(t, brokenSyncFS{host}, Options{Volatile: true})
	f := u.create(u.Root(), "f")
	_, done, _, err := u.Write(t.Context(), &u.c, f, []byte("data"), 0, vfs.Unstable)
	require.NoError(t, err)
	assert.Equal(t, vfs.FileSync, done)
	_, err = u.Commit(t.Context(), &u.c, f, 0, 0)
	assert.NoError(t, err)

	u.o.Volatile = false // unlike when New checked the root
	for _, how := range []vfs.Stable{vfs.Unstable, vfs.FileSync} {
		n, _, _, err := u.Write(t.Context(), &u.c, f, []byte("data"), 0, how)
		assert.Error(t, err)
		assert.Zero(t, n)
	}
	_, err = u.Commit(t.Context(), &u.c, f, 0, 0)
	assert.Error(t, err)
}

// TestWrappedSync checks that files are synced through a wrapper that hides
// Sync, like go-billy's own around the files of osfs.
func TestWrappedSync(t *testing.T) {
	host := newHost(t)
	fs := &faultyFS{Filesystem: host}
	u := newUser(t, chroot.New(chroot.New(fs, "."), "."), Options{})
	f := u.create(u.Root(), "f")
	write := func(how vfs.Stable) (int, vfs.Stable, error) {
		n, done, _, err := u.Write(t.Context(), &u.c, f, []byte("data"), 0, how)
		return n, done, err
	}
	_, done, err := write(vfs.Unstable)
	require.NoError(t, err)
	assert.Equal(t, vfs.Unstable, done, "COMMIT must follow")
	assert.Zero(t, fs.syncs)
	_, err = u.Commit(t.Context(), &u.c, f, 0, 0)
	require.NoError(t, err)
	assert.Equal(t, 1, fs.syncs)
	_, done, err = write(vfs.DataSync)
	require.NoError(t, err)
	assert.Equal(t, vfs.FileSync, done)
	assert.Equal(t, 2, fs.syncs)

	verifier := u.WriteVerifier()
	fs.syncErr = syscall.EIO
	n, _, err := write(vfs.FileSync)
	assert.ErrorIs(t, err, syscall.EIO)
	assert.Zero(t, n, "written bytes would be reported as stable")
	assert.NotEqual(t, verifier, u.WriteVerifier())

	fs.syncErr, fs.writeErr = nil, syscall.ENOSPC
	fs.half, fs.syncs = true, 0
	n, done, err = write(vfs.FileSync)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 2, n)
	assert.Equal(t, vfs.FileSync, done, "the bytes written before the failure")
	assert.Equal(t, 1, fs.syncs)
}
