package billy

import (
	"encoding/binary"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends a number of the FS's own and the inode number
// (vfs.Identifier). Without inode numbers, an object that has not been used for
// long comes back as another: then only the root has a key. Two FS of the same
// billy file system have nothing in common.
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	n := f.table.get(h)
	if n == nil {
		o, err := f.revive(h)
		if err != nil {
			return b, err
		}
		n = o.n
	}
	if n.fileID == 0 && n != f.table.root {
		return b, syscall.EOPNOTSUPP
	}
	b = binary.BigEndian.AppendUint64(b, f.instance)
	return binary.BigEndian.AppendUint64(b, n.fileID), nil
}
