package billy

import (
	"errors"
	"os"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// errnoTable maps errors in packages os and go-billy to the host's errno.
var errnoTable = []struct {
	err   error
	errno syscall.Errno
}{
	{os.ErrNotExist, syscall.ENOENT},
	{os.ErrExist, syscall.EEXIST},
	{os.ErrPermission, syscall.EACCES},
	{os.ErrInvalid, syscall.EINVAL},
	{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
	{gobilly.ErrReadOnly, syscall.EROFS},
	{gobilly.ErrNotSupported, syscall.EOPNOTSUPP},
	{gobilly.ErrCrossedBoundary, syscall.EACCES},
	{errors.ErrUnsupported, syscall.EOPNOTSUPP},
}

// errnoOf returns the errno for a billy file system's error. An error without an errno is converted
// by Options.Errors.
func (f *FS) errnoOf(err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	for _, w := range errnoTable {
		if errors.Is(err, w.err) {
			return w.errno
		}
	}
	if f.o.Errors != nil {
		return f.o.Errors(err)
	}
	return err
}

// SysInfo returns the data from a host os.FileInfo, whose Sys is a *syscall.Stat_t.
func SysInfo(fi os.FileInfo) (Info, bool) {
	s, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Info{}, false
	}
	rdev := uint64(s.Rdev)
	return Info{
		FileID: s.Ino, Nlink: uint32(s.Nlink), UID: s.Uid, GID: s.Gid,
		Rdev: vfs.Dev{Major: unix.Major(rdev), Minor: unix.Minor(rdev)}, Used: uint64(s.Blocks) * 512,
		Times: true, Atime: statTime(s.Atim), Ctime: statTime(s.Ctim),
	}, true
}

func statTime(t syscall.Timespec) vfs.Time {
	sec, nsec := t.Unix()
	return vfs.Time{Sec: sec, Nsec: uint32(nsec)}
}
