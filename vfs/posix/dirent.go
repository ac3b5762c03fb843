//go:build linux

package posix

import (
	"bytes"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A dirBuf is a buffer for reading a directory.
type dirBuf struct {
	b    [dirBufLen]byte
	ents [plusGroup]vfs.Entry
}

var dirBufs = sync.Pool{New: func() any { return new(dirBuf) }}

// A dirent is a directory entry in the kernel's format, struct linux_dirent64.
type dirent struct {
	ino   uint64
	off   int64  // next entry's position
	nameZ []byte // with its NUL, and perhaps padding
}

const direntHead = 19

func (d *dirent) nameBytes() []byte {
	return d.nameZ[:bytes.IndexByte(d.nameZ, 0)]
}

// nextDirent parses b's first entry and returns the rest.
func nextDirent(b []byte) (d dirent, rest []byte) {
	n := binary.NativeEndian.Uint16(b[16:])
	return dirent{
		ino:   binary.NativeEndian.Uint64(b),
		off:   int64(binary.NativeEndian.Uint64(b[8:])),
		nameZ: b[direntHead:n],
	}, b[n:]
}

func getdents(fd int, b []byte) (int, error) {
	return retryEINTR(func() (int, error) { return unix.Getdents(fd, b) })
}
