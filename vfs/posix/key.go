//go:build linux

package posix

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends the device and inode numbers (vfs.Identifier): they are the
// same in two exports of one file system, even if the exports have different
// kinds of handles. A handle of the kernel's does not contain the inode number,
// but an object in use does.
//
// An inode number is reused after its object has gone. Then two objects have
// the same key, until the last handle of the old object is ESTALE.
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	ino, err := f.inode(h)
	if err != nil {
		return b, err
	}
	return f.appendKey(b, ino), nil
}

func (f *FS) appendKey(b []byte, ino uint64) []byte {
	r := &f.rootStat
	b = binary.BigEndian.AppendUint64(b, unix.Mkdev(r.Dev_major, r.Dev_minor))
	return binary.BigEndian.AppendUint64(b, ino)
}

// AppendKeyOf is AppendKey for a name (vfs.NameIdentifier). The daemon looks as
// itself, with one call of statx.
func (f *FS) AppendKeyOf(b []byte, dir vfs.Handle, name string) ([]byte, error) {
	if isDots(name) {
		return b, unix.EOPNOTSUPP
	}
	if err := checkName(name); err != nil {
		return b, err
	}
	d, err := f.directory(dir)
	if err != nil {
		return b, err
	}
	defer f.put(d)
	var st unix.Statx_t
	switch err := f.statName(d, name, &st); {
	case err != nil:
		return b, err
	case !f.exported(&st):
		return b, unix.EACCES
	}
	return f.appendKey(b, st.Ino), nil
}

// inode returns the inode number of the object of h.
func (f *FS) inode(h vfs.Handle) (uint64, error) {
	if ino, ok := f.cache.inode(h); ok {
		return ino, nil
	}
	o, err := f.object(h)
	if err != nil {
		return 0, err
	}
	defer f.put(o)
	return o.ino, nil
}
