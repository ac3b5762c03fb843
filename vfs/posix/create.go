//go:build linux

package posix

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Create creates a file or accepts the existing object. With Unchecked it at most sets the size of
// an existing file; an object of another type is returned unchanged, as knfsd does. A directory is
// an error, because a client that creates a file may not expect one: Linux 6.1 sends such a request
// after a negative dentry, and would crash.
func (f *FS) Create(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	return f.makeNew(ctx, c, dir, f.fileMaker(c, name, how))
}

// fileMaker returns a regular file's maker.
func (f *FS) fileMaker(c *vfs.Cred, name string, how vfs.CreateHow) *maker {
	if how.Mode == vfs.Exclusive {
		return f.exclusiveMaker(c, name, how)
	}
	s := f.initialAttr(c, how.Attr, defaultFileMode)
	m := &maker{name: name, attr: s}
	m.call = func(d int) (int, error) { return f.createFile(d, m, nil) }
	if how.Mode == vfs.Unchecked {
		m.acceptExisting = func(o *object) error {
			switch {
			case o.typ == vfs.TypeDir:
				return unix.EISDIR
			case s.Size == nil || o.typ != vfs.TypeReg:
				return nil
			}
			return f.truncateLocked(o, c, *s.Size)
		}
	}
	return m
}

// giveToCaller creates a file with the requested size, with the given times if any. It fails if the
// name exists.
func (f *FS) createFile(dir int, m *maker, times *[2]unix.Timespec) (place int, err error) {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(dir, m.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, *m.attr.Mode)
	})
	if err != nil {
		return -1, err
	}
	defer func() {
		if err == nil && m.open != nil {
			*m.open = fd
			return
		}
		if err != nil {
			f.forgetMade(fd)
		}
		closeFD(fd)
	}()
	if m.attr.Size != nil {
		if err := f.truncateFD(fd, *m.attr.Size); err != nil {
			return -1, hideTemporary(err)
		}
	}
	if times != nil && setTimes(fd, times) != nil {
		_ = unix.Unlinkat(dir, m.name, 0)
		return -1, unix.EOPNOTSUPP
	}
	place, err = f.reopenFD(fd, unix.O_PATH)
	return place, hideTemporary(err)
}

// exclusiveMaker returns the maker for a file whose times hold the verifier until the client sets
// them (RFC 1813, Section 3.3.8). It uses only the seconds, as signed 32-bit numbers, which even
// old file systems keep. It fails with EOPNOTSUPP if this file system does not keep them.
func (f *FS) exclusiveMaker(c *vfs.Cred, name string, how vfs.CreateHow) *maker {
	s := f.initialAttr(c, how.Attr, defaultFileMode)
	atime, mtime := int64(int32(how.Verifier>>32)), int64(int32(how.Verifier))
	holds := func(st *unix.Statx_t) bool {
		return typeOf(st.Mode) == vfs.TypeReg && st.Size == 0 &&
			st.Atime.Sec == atime && st.Mtime.Sec == mtime
	}
	m := &maker{name: name, attr: s, keptData: holds}
	m.call = func(d int) (int, error) {
		return f.createFile(d, m, &[2]unix.Timespec{unix.NsecToTimespec(atime * 1e9), unix.NsecToTimespec(mtime * 1e9)})
	}
	m.acceptExisting = func(o *object) error {
		var st unix.Statx_t
		if statFD(o.fd, &st) != nil || !holds(&st) {
			return unix.EEXIST
		}
		return nil
	}
	return m
}

func (f *FS) Mkdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	s = f.initialAttr(c, s, defaultDirMode)
	return f.makeNew(ctx, c, dir, &maker{name: name, attr: s, call: func(d int) (int, error) {
		return madePath(d, name, unix.Mkdirat(d, name, *s.Mode))
	}})
}

// Symlink creates a symbolic link. The client cannot choose its mode.
func (f *FS) Symlink(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	s = f.initialAttr(c, s, 0)
	return f.makeNew(ctx, c, dir, &maker{name: name, attr: s, call: func(d int) (int, error) {
		if strings.IndexByte(target, 0) >= 0 {
			return -1, unix.EINVAL
		}
		return madePath(d, name, unix.Symlinkat(target, d, name))
	}})
}

// The kernel truncates device numbers to these lengths.
const (
	majorBits = 12
	minorBits = 20
)

// Mknod creates devices for root only, because the kernel checks.
func (f *FS) Mknod(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, dev vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	var kind uint32
	switch t {
	case vfs.TypeFIFO:
		kind = unix.S_IFIFO
	case vfs.TypeSock:
		kind = unix.S_IFSOCK
	case vfs.TypeChr:
		kind = unix.S_IFCHR
	case vfs.TypeBlk:
		kind = unix.S_IFBLK
	default:
		return vfs.Made{}, vfs.ErrBadType
	}
	number := 0
	if t == vfs.TypeChr || t == vfs.TypeBlk {
		if dev.Major>>majorBits != 0 || dev.Minor>>minorBits != 0 {
			return vfs.Made{}, unix.EINVAL
		}
		number = int(unix.Mkdev(dev.Major, dev.Minor))
	}
	s = f.initialAttr(c, s, defaultFileMode)
	return f.makeNew(ctx, c, dir, &maker{name: name, attr: s, call: func(d int) (int, error) {
		return madePath(d, name, unix.Mknodat(d, name, kind|*s.Mode, number))
	}})
}

// madePath opens the object that a call without a resulting descriptor has
// made.
func madePath(dir int, name string, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	fd, err := openPath(dir, name)
	return fd, hideTemporary(err)
}
