package billy

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// specialMaker returns what makes a special file, or the error of its type.
func (f *FS) specialMaker(t vfs.Type, d vfs.Dev, mode uint32) (func(path string) error, error) {
	switch t {
	case vfs.TypeFIFO, vfs.TypeSock, vfs.TypeChr, vfs.TypeBlk:
	default:
		return nil, vfs.ErrBadType
	}
	if f.special == nil {
		return unsupported, nil
	}
	return func(path string) error {
		switch t {
		case vfs.TypeFIFO:
			return f.special.Mkfifo(path, mode)
		case vfs.TypeSock:
			return f.special.Socket(path)
		case vfs.TypeChr:
			return f.special.Mknod(path, syscall.S_IFCHR|mode, d.Major, d.Minor)
		}
		return f.special.Mknod(path, syscall.S_IFBLK|mode, d.Major, d.Minor)
	}, nil
}
