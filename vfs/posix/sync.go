//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// late converts the error of an operation that has already changed something.
// After a temporary error the client would repeat the change, and making a
// directory a second time fails.
func late(err error) error {
	if passing(err) {
		return unix.EIO
	}
	return err
}

// passing reports whether an error is temporary.
func passing(err error) bool {
	switch err {
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETIMEDOUT:
		return true
	}
	return false
}

// sync puts an object's metadata on stable storage after a change. It syncs the
// object itself if the daemon can open the object, and otherwise the whole file
// system. A file system in memory has no stable storage. An object without a
// name needs no sync. A failure to open does not prove that the name is gone,
// because the object may only have moved.
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

// removed reports whether o is known to have no name any more.
func (o *object) removed() bool {
	var st unix.Statx_t
	return statFD(o.fd, &st) == nil && st.Nlink == 0
}
