//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Copier = (*FS)(nil)

// CopyRange copies by copy_file_range(2), once (vfs.Copier).
func (f *FS) CopyRange(_ context.Context, c *vfs.Cred, from, to vfs.Part, n uint64) (copied uint64, err error) {
	switch {
	case from.Offset >= f.maxSize || n == 0:
		return 0, nil
	case to.Offset >= f.maxSize || n > f.maxSize-to.Offset:
		return 0, unix.EFBIG
	}
	n = min(n, f.maxSize-from.Offset)
	src, dst, err := f.useBoth(c, &from, &to)
	if err != nil {
		return 0, err
	}
	defer f.endPart(&src)
	defer f.endPart(&dst)
	err = f.changePart(&dst, func(*unix.Statx_t) (bool, error) {
		in, out := int64(from.Offset), int64(to.Offset)
		got, err := retryEINTR(func() (int, error) { return f.copyRange(src.fl.FD, &in, dst.fl.FD, &out, int(n), 0) })
		f.noteRead(src.o)
		if copied = uint64(max(got, 0)); copied > 0 {
			f.disk.MarkDirty(&dst.fl.File)
		}
		return copied > 0, copyError(err)
	})
	return copied, err
}

// copyError converts the errors with which the kernel rejects any copy between two files. If there
// is another cause, a write will fail with it too.
func copyError(err error) error {
	switch err {
	case unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EPERM:
		return unix.EOPNOTSUPP
	}
	return err
}

// useBoth is usePart for a source and a target. The caller has the right to read
// the source. endPart must follow for both.
func (f *FS) useBoth(c *vfs.Cred, from, to *vfs.Part) (src, dst partUse, err error) {
	if src, err = f.usePart(c, from, accRead); err != nil {
		return src, dst, err
	}
	var st unix.Statx_t
	if err = src.statAndCheck(f, &st); err == nil {
		dst, err = f.usePart(c, to, accWrite)
	}
	if err != nil {
		f.endPart(&src)
	}
	return src, dst, err
}

// CloneRange clones by FICLONERANGE (vfs.Copier). The error is EAGAIN while data of the target is
// lent.
func (f *FS) CloneRange(_ context.Context, c *vfs.Cred, from, to vfs.Part, n uint64) error {
	switch {
	case f.cloneAlign == 0:
		return unix.EOPNOTSUPP
	case n == 0 || from.Offset >= f.maxSize || n > f.maxSize-from.Offset:
		return unix.EINVAL
	case to.Offset >= f.maxSize || n > f.maxSize-to.Offset:
		return unix.EFBIG
	}
	src, dst, err := f.useBoth(c, &from, &to)
	if err != nil {
		return err
	}
	defer f.endPart(&src)
	defer f.endPart(&dst)
	target := f.idOf(dst.o.ino)
	if !lending.beginClone(target) {
		return unix.EAGAIN
	}
	defer lending.endClone(target)
	return f.changeStably(&dst, func(*unix.Statx_t) error {
		r := unix.FileCloneRange{Src_fd: int64(src.fl.FD), Src_offset: from.Offset, Src_length: n, Dest_offset: to.Offset}
		_, err := retryEINTR(func() (int, error) { return 0, f.cloneRange(dst.fl.FD, &r) })
		return err
	})
}

// CloneAlign returns the file system's block size, if files can share blocks (vfs.Copier).
func (f *FS) CloneAlign() uint32 { return f.cloneAlign }

// canClone reports whether files in a directory can share blocks: whether the
// kernel clones a file without data there.
func canClone(dir int) bool {
	var fds [2]int
	for i := range fds {
		fd, err := retryEINTR(func() (int, error) {
			return unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		})
		if err != nil {
			return false
		}
		defer closeFD(fd)
		fds[i] = fd
	}
	return unix.IoctlFileClone(fds[0], fds[1]) == nil
}
