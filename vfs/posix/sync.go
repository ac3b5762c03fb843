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
	if passing(err) {
		return unix.EIO
	}
	return err
}

// passing tells whether an error says that the same call may do later.
func passing(err error) bool {
	switch err {
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETIMEDOUT:
		return true
	}
	return false
}

// sync puts an object's metadata on stable storage after a change: its own
// where the daemon can open it, otherwise all that the file system has. One in
// memory has no such storage. What has lost its last name meanwhile needs none;
// that it cannot be opened does not tell so, for it may only have moved.
func (f *FS) sync(o *object) error {
	if f.volatile {
		return nil
	}
	if o.typ == vfs.TypeReg || o.typ == vfs.TypeDir {
		self := vfs.Cred{GID: f.gid}
		if fl, err := f.open(o, &self, accRead); err == nil {
			defer f.closeFile(o, fl)
			return late(f.disk.file(fl))
		}
	}
	if o.removed() {
		return nil
	}
	return late(f.disk.all())
}

// removed tells whether o is seen to have no name any more.
func (o *object) removed() bool {
	var st unix.Statx_t
	return statFD(o.fd, &st) == nil && st.Nlink == 0
}
