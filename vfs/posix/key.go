//go:build linux

package posix

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends the device and inode numbers (vfs.Identifier): they are the same in two exports
// of one file system, even if the exports have different kinds of handles. A kernel handle does not
// contain the inode number, but an object in use does.
//
// A name that may part from the object's other names has no key: only the handle says what it leads
// to.
//
// An inode number is reused after its object has gone. Then two objects have the same key, until
// the old object's last handle is ESTALE.
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	if _, ok := linkOf(h); ok {
		return b, unix.EOPNOTSUPP
	}
	ino, err := f.inodeOfHandle(h)
	if err != nil {
		return b, err
	}
	return f.appendKey(b, ino), nil
}

var _ vfs.AliasIdentifier = (*FS)(nil)

// AppendAliasKey implements vfs.AliasIdentifier. After a copy-up, or when the object
// has one name left, the next lookup of that name finds a handle with a key.
func (f *FS) AppendAliasKey(b []byte, h vfs.Handle) ([]byte, error) {
	o, err := f.getObject(h)
	if err != nil {
		return b, err
	}
	defer f.putObject(o)
	var st unix.Statx_t
	if err := f.statObject(o, &st); err != nil {
		return b, err
	}
	return f.appendKey(b, st.Ino), nil
}

func (f *FS) appendKey(b []byte, ino uint64) []byte {
	r := &f.rootStat
	return AppendInodeKey(b, unix.Mkdev(r.Dev_major, r.Dev_minor), ino)
}

// AppendInodeKey appends the key of the object with a device (st_dev) and an inode number.
func AppendInodeKey(b []byte, dev, ino uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, dev), ino)
}

// AppendKeyOf is AppendKey for a name (vfs.NameIdentifier). The daemon looks it up as itself, with
// one statx call.
func (f *FS) AppendKeyOf(b []byte, dir vfs.Handle, name string) ([]byte, error) {
	if isDots(name) {
		return b, unix.EOPNOTSUPP
	}
	if err := checkName(name); err != nil {
		return b, err
	}
	d, err := f.getDirectory(dir)
	if err != nil {
		return b, err
	}
	defer f.putObject(d)
	var st unix.Statx_t
	switch err := f.statName(d, name, &st); {
	case err != nil:
		return b, err
	case !f.isExported(&st):
		return b, unix.EACCES
	case f.canPartNames(&st):
		return b, unix.EOPNOTSUPP
	}
	return f.appendKey(b, st.Ino), nil
}

// inodeOfHandle returns the inode number of h's object.
func (f *FS) inodeOfHandle(h vfs.Handle) (uint64, error) {
	if ino, ok := f.cache.inodeOf(h); ok {
		return ino, nil
	}
	o, err := f.getObject(h)
	if err != nil {
		return 0, err
	}
	defer f.putObject(o)
	return o.ino, nil
}
