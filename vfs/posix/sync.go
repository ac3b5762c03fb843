//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// hideTemporary converts errors from an operation that has already changed something. After a
// temporary error the client would repeat the change, and creating a directory a second time fails.
func hideTemporary(err error) error {
	if isTemporary(err) {
		return unix.EIO
	}
	return err
}

// isTemporary reports whether an error is temporary.
func isTemporary(err error) bool {
	switch err {
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETIMEDOUT:
		return true
	}
	return false
}

// syncObject puts an object's metadata on stable storage after a change. It syncs the
// object itself if the daemon can open the object, and otherwise the whole file
// system. A file system in memory has no stable storage. An object without a
// name needs no sync. A failure to open does not prove that the name is gone,
// because the object may only have moved.
func (f *FS) syncObject(o *object) error {
	if f.traits.volatile {
		return nil
	}
	if o.typ == vfs.TypeReg || o.typ == vfs.TypeDir {
		self := vfs.Cred{GID: f.gid}
		if fl, err := f.openAs(o, &self, accRead); err == nil {
			defer f.closeFile(o, fl)
			return hideTemporary(f.disk.SyncFile(&fl.File))
		}
	}
	if o.hasNoName() {
		return nil
	}
	return hideTemporary(f.disk.SyncAll())
}

// hasNoName reports whether o is known to have no name any more.
func (o *object) hasNoName() bool {
	var st unix.Statx_t
	return statFD(o.fd, &st) == nil && st.Nlink == 0
}
