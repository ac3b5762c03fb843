//go:build linux

package posix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// twoFiles returns a testFS with two files that belong to its caller.
func twoFiles(t *testing.T) (w *testFS, src, dst vfs.Part) {
	w = newTestFS(t, tableKind())
	for _, name := range []string{"src", "dst"} {
		m, err := w.f.Create(t.Context(), &w.c, w.f.Root(), name, vfs.CreateHow{Mode: vfs.Guarded})
		require.NoError(t, err)
		_, _, _, err = w.f.Write(t.Context(), &w.c, m.Handle, []byte("0123456789"), 0, vfs.FileSync)
		require.NoError(t, err)
		src, dst = dst, vfs.Part{Handle: m.Handle}
	}
	return w, src, dst
}

// TestCopyRangeErrors checks errors by which the kernel rejects any copy, interrupted copies, and
// short copies. What is copied is as stable as what is written (R7862-15.2-14).
func TestCopyRangeErrors(t *testing.T) {
	w, src, dst := twoFiles(t)
	for err, want := range map[error]error{
		unix.EXDEV: unix.EOPNOTSUPP, unix.ENOSYS: unix.EOPNOTSUPP, unix.EINVAL: unix.EOPNOTSUPP, unix.EOPNOTSUPP: unix.EOPNOTSUPP,
		unix.ENOSPC: unix.ENOSPC, unix.EIO: unix.EIO,
	} {
		w.f.copyRange = func(int, *int64, int, *int64, int, int) (int, error) { return -1, err }
		n, got := w.f.CopyRange(t.Context(), &w.c, src, dst, 10)
		assert.Zero(t, n)
		assert.ErrorIs(t, got, want)
	}
	calls := 0
	w.f.copyRange = func(in int, inOff *int64, out int, outOff *int64, n, flags int) (int, error) {
		if calls++; calls == 1 {
			return -1, unix.EINTR
		}
		return unix.CopyFileRange(in, inOff, out, outOff, 3, flags)
	}
	src.Offset, dst.Offset = 7, 10
	n, err := w.f.CopyRange(t.Context(), &w.c, src, dst, 10)
	require.NoError(t, err)
	assert.EqualValues(t, 3, n)
	p := make([]byte, 20)
	got, _, _, err := w.f.Read(t.Context(), &w.c, dst.Handle, p, 0)
	require.NoError(t, err)
	assert.Equal(t, "0123456789789", string(p[:got]))
	o, err := w.f.getObject(dst.Handle)
	require.NoError(t, err)
	defer w.f.putObject(o)
	assert.False(t, w.f.disk.IsIdle(), "a COMMIT must sync the descriptor that has copied")
}

// TestCloneRange checks what is passed to the kernel, and that the clone is
// synced before CloneRange returns: R7862-15.13-8.
func TestCloneRange(t *testing.T) {
	w, src, dst := twoFiles(t)
	w.f.cloneAlign, w.f.traits.volatile = 4096, false
	var passed unix.FileCloneRange
	w.f.cloneRange = func(_ int, r *unix.FileCloneRange) error {
		passed = *r
		return nil
	}
	synced := 0
	w.f.disk.Fsync = func(int) error {
		synced++
		return nil
	}
	src.Offset, dst.Offset = 4096, 8192
	require.NoError(t, w.f.CloneRange(t.Context(), &w.c, src, dst, 10))
	assert.Positive(t, passed.Src_fd)
	passed.Src_fd = 0
	assert.Equal(t, unix.FileCloneRange{Src_offset: 4096, Src_length: 10, Dest_offset: 8192}, passed)
	assert.Equal(t, 1, synced)
	w.f.disk.Fsync = func(int) error { return unix.EIO }
	verifier := w.f.WriteVerifier()
	require.ErrorIs(t, w.f.CloneRange(t.Context(), &w.c, src, dst, 10), unix.EIO)
	assert.NotEqual(t, verifier, w.f.WriteVerifier())
	w.f.cloneAlign = 0
	require.ErrorIs(t, w.f.CloneRange(t.Context(), &w.c, src, dst, 10), unix.EOPNOTSUPP)
}

// TestAllocateFails checks that the file becomes longer only once all of the
// range has storage (R7862-3.1-1, R7862-15.1-3), and file systems without
// holes.
func TestAllocateFails(t *testing.T) {
	w, _, p := twoFiles(t)
	w.f.fallocate = func(fd int, mode uint32, off, n int64) error {
		assert.EqualValues(t, unix.FALLOC_FL_KEEP_SIZE, mode)
		return unix.ENOSPC
	}
	require.ErrorIs(t, w.f.Allocate(t.Context(), &w.c, p, 1<<20), unix.ENOSPC)
	a, err := w.f.GetAttr(t.Context(), &w.c, p.Handle)
	require.NoError(t, err)
	assert.EqualValues(t, 10, a.Size)
	w.f.fallocate = func(int, uint32, int64, int64) error { return unix.EOPNOTSUPP }
	require.ErrorIs(t, w.f.Allocate(t.Context(), &w.c, p, 5), unix.EOPNOTSUPP)
	require.ErrorIs(t, w.f.Deallocate(t.Context(), &w.c, p, 5), unix.EOPNOTSUPP)
}

// TestCopyRights checks that copies and changes of storage by the handle are the caller's:
// they take the set-user-ID bit away as writes do, and end with the right to read.
func TestCopyRights(t *testing.T) {
	w, src, dst := twoFiles(t)
	c := &vfs.Cred{UID: 1000, GID: 1000}
	mode := func(p vfs.Part, mode uint32) {
		t.Helper()
		_, err := w.f.SetAttr(t.Context(), &vfs.Cred{}, p.Handle, vfs.SetAttr{Mode: &mode}, nil)
		require.NoError(t, err, "the test needs root")
	}
	mode(src, 0o644)
	for name, change := range map[string]func() error{
		"copy":       func() error { _, err := w.f.CopyRange(t.Context(), c, src, dst, 4); return err },
		"allocate":   func() error { return w.f.Allocate(t.Context(), c, dst, 4) },
		"deallocate": func() error { return w.f.Deallocate(t.Context(), c, dst, 4) },
	} {
		mode(dst, 0o4777)
		require.NoError(t, change(), name)
		a, err := w.f.GetAttr(t.Context(), c, dst.Handle)
		require.NoError(t, err)
		assert.EqualValues(t, 0o777, a.Mode&0o7777, name)
	}
	mode(src, 0o600)
	_, err := w.f.CopyRange(t.Context(), c, src, dst, 4)
	assert.ErrorIs(t, err, unix.EACCES, "the descriptor is still open")
}
