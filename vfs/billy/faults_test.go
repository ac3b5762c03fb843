package billy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestErrors checks that a billy file system's errors become a host's errnos if
// possible.
func TestErrors(t *testing.T) {
	odd := errors.New("odd")
	for _, tt := range []struct{ err, want error }{
		{nil, nil},
		{os.ErrNotExist, syscall.ENOENT},
		{fmt.Errorf("opening: %w", os.ErrExist), syscall.EEXIST},
		{&os.PathError{Err: os.ErrPermission}, syscall.EACCES},
		{&os.PathError{Err: syscall.ENOSPC}, syscall.ENOSPC},
		{&os.LinkError{Err: syscall.EXDEV}, syscall.EXDEV},
		{os.ErrInvalid, syscall.EINVAL},
		{gobilly.ErrReadOnly, syscall.EROFS},
		{gobilly.ErrNotSupported, syscall.EOPNOTSUPP},
		{gobilly.ErrCrossedBoundary, syscall.EACCES},
		{odd, odd},
	} {
		assert.Equal(t, tt.want, new(FS).errnoOf(tt.err))
	}
}

// A faultyFS returns the set errors.
type faultyFS struct {
	gobilly.Filesystem
	openErr, writeErr, syncErr, closeErr error
	half                                 bool // reads and writes transfer only half
	syncs                                int
}

func (f *faultyFS) Open(name string) (gobilly.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

func (f *faultyFS) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	if f.openErr != nil {
		return nil, f.openErr
	}
	file, err := f.Filesystem.OpenFile(name, flag, perm)
	return &faultyFile{file, f}, err
}

type faultyFile struct {
	gobilly.File
	fs *faultyFS
}

func (f *faultyFile) cut(p []byte) []byte {
	if f.fs.half {
		return p[:(len(p)+1)/2]
	}
	return p
}

func (f *faultyFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(f.cut(p))
	return n, errors.Join(err, f.fs.writeErr)
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) { return f.File.ReadAt(f.cut(p), off) }

func (f *faultyFile) Sync() error {
	f.fs.syncs++
	return f.fs.syncErr
}

func (f *faultyFile) Close() error { return errors.Join(f.File.Close(), f.fs.closeErr) }

func TestFaults(t *testing.T) {
	fs := &faultyFS{Filesystem: newHost(t)}
	u := newUser(t, fs, Options{})
	f := u.create(u.Root(), "f")
	write := func(how vfs.Stable) (int, vfs.Stable, error) {
		n, done, w, err := u.Write(t.Context(), &u.c, f, []byte("data"), 0, how)
		assert.True(t, w.After.OK)
		return n, done, err
	}
	n, done, err := write(vfs.Unstable)
	require.NoError(t, err)
	assert.Equal(t, 4, n)
	assert.Equal(t, vfs.Unstable, done)
	_, done, err = write(vfs.DataSync)
	require.NoError(t, err)
	assert.Equal(t, vfs.FileSync, done)

	fs.half = true
	n, _, err = write(vfs.Unstable)
	require.NoError(t, err)
	assert.Equal(t, 4, n, "in pieces")
	data, err := u.read(f)
	require.NoError(t, err)
	assert.Equal(t, "data", data, "in pieces")

	fs.writeErr = syscall.ENOSPC
	n, _, err = write(vfs.Unstable)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 2, n, "the bytes written before the failure")
	fs.writeErr = nil
	fs.closeErr = syscall.EDQUOT
	n, _, err = write(vfs.Unstable)
	assert.ErrorIs(t, err, syscall.EDQUOT)
	assert.Zero(t, n, "the outcome is unknown")
	fs.closeErr = nil

	verifier := u.WriteVerifier()
	fs.syncErr = syscall.EIO
	_, _, err = write(vfs.FileSync)
	assert.ErrorIs(t, err, syscall.EIO)
	assert.NotEqual(t, verifier, u.WriteVerifier(), "clients write their data again")
	verifier = u.WriteVerifier()
	_, err = u.Commit(t.Context(), &u.c, f, 0, 0)
	assert.ErrorIs(t, err, syscall.EIO)
	assert.NotEqual(t, verifier, u.WriteVerifier())

	fs.openErr = os.ErrPermission
	_, err = u.read(f)
	assert.ErrorIs(t, err, syscall.EACCES)
	_, _, err = write(vfs.Unstable)
	assert.ErrorIs(t, err, syscall.EACCES)
}

// TestEnds checks that a file truncated during a read ends there.
func TestEnds(t *testing.T) {
	host := newHost(t)
	require.NoError(t, os.WriteFile(host.at("f"), []byte("data"), 0o600))
	u := newUser(t, host, Options{})
	p := make([]byte, 8)
	n, end, err := u.readAt("f", p, 0)
	require.NoError(t, err)
	assert.Equal(t, 4, n)
	assert.True(t, end)
	_, _, err = u.readAt("f", p, -1)
	assert.NotErrorIs(t, err, io.EOF)
	assert.Error(t, err)
}

// A readOnlyFS declares itself read-only.
type readOnlyFS struct{ hostFS }

func (readOnlyFS) Capabilities() gobilly.Capability {
	return gobilly.ReadCapability | gobilly.SeekCapability
}

func TestReadOnly(t *testing.T) {
	host := newHost(t)
	require.NoError(t, os.WriteFile(host.at("f"), []byte("data"), 0o755))
	require.NoError(t, os.Mkdir(host.at("d"), 0o755))
	u := newUser(t, readOnlyFS{host}, Options{})
	ctx, c := t.Context(), &u.c
	f, err := u.lookup(u.Root(), "f")
	require.NoError(t, err)
	errs := map[string]error{}
	_, errs["create"] = u.Create(ctx, c, u.Root(), "g", vfs.CreateHow{})
	_, errs["mkdir"] = u.Mkdir(ctx, c, u.Root(), "g", vfs.SetAttr{})
	_, errs["symlink"] = u.Symlink(ctx, c, u.Root(), "g", "t", vfs.SetAttr{})
	_, errs["mknod"] = u.Mknod(ctx, c, u.Root(), "g", vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{})
	_, _, errs["link"] = u.Link(ctx, c, f, u.Root(), "g")
	_, errs["remove"] = u.Remove(ctx, c, u.Root(), "f")
	_, errs["rmdir"] = u.Rmdir(ctx, c, u.Root(), "d")
	_, _, errs["rename"] = u.Rename(ctx, c, u.Root(), "f", u.Root(), "g")
	_, errs["setattr"] = u.SetAttr(ctx, c, f, vfs.SetAttr{MtimeHow: vfs.SetToServer}, nil)
	_, _, _, errs["write"] = u.Write(ctx, c, f, []byte("x"), 0, vfs.Unstable)
	for op, err := range errs {
		assert.ErrorIs(t, err, syscall.EROFS, op)
	}
	got, _, err := u.Access(ctx, c, f, 0x3f)
	require.NoError(t, err)
	assert.Equal(t, vfs.AccessRead|vfs.AccessExecute, got)
	got, _, err = u.Access(ctx, c, u.Root(), 0x3f)
	require.NoError(t, err)
	assert.Equal(t, vfs.AccessRead|vfs.AccessLookup, got)
	s, _, err := u.StatFS(ctx, c, f)
	require.NoError(t, err)
	assert.Zero(t, s.AvailBytes)
}

// TestMaxFileSize checks the bound on a file's size.
func TestMaxFileSize(t *testing.T) {
	u := newUser(t, newHost(t), Options{MaxFileSize: 100})
	f := u.create(u.Root(), "f")
	size := uint64(101)
	_, err := u.SetAttr(t.Context(), &u.c, f, vfs.SetAttr{Size: &size}, nil)
	assert.ErrorIs(t, err, syscall.EFBIG)
	_, _, _, err = u.Write(t.Context(), &u.c, f, []byte("xy"), 99, vfs.Unstable)
	assert.ErrorIs(t, err, syscall.EFBIG)
	_, _, _, err = u.Write(t.Context(), &u.c, f, []byte("x"), 99, vfs.Unstable)
	assert.NoError(t, err)
}
