//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// late is the error of an operation that has changed something already. Who is
// told to come again later would make the change twice, and a directory that is
// made twice is an error.
func late(err error) error {
	switch err {
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETIMEDOUT:
		return unix.EIO
	}
	return err
}

// sync puts an object's metadata on stable storage after a change: its own
// where it can be opened, otherwise all that the file system has. One in memory
// has no such storage.
func (f *FS) sync(o *object) error {
	if f.volatile {
		return nil
	}
	err := error(unix.EINVAL)
	if o.typ == vfs.TypeReg || o.typ == vfs.TypeDir {
		err = f.syncFile(o)
	}
	if err == unix.EACCES || err == unix.EPERM || err == unix.EINVAL {
		_, err = retry(func() (int, error) { return 0, unix.Syncfs(f.mount) })
	}
	if err != nil {
		f.lost(err)
	}
	return late(err)
}

// syncFile syncs what the daemon itself may open.
func (f *FS) syncFile(o *object) error {
	self := vfs.Cred{GID: f.gid}
	fl, err := f.open(o, &self, accRead)
	if err != nil {
		return err
	}
	defer f.closeFile(o, fl)
	return fsync(fl.fd)
}

func fsync(fd int) error {
	_, err := retry(func() (int, error) { return 0, unix.Fsync(fd) })
	return err
}

func fdatasync(fd int) error {
	_, err := retry(func() (int, error) { return 0, unix.Fdatasync(fd) })
	return err
}
