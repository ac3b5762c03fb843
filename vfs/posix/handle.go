//go:build linux

package posix

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// The kinds of handles, their first octet.
const (
	kindKernel = 1 // then handle_type (4 octets), and the kernel's octets
	kindTable  = 2 // then a tableID
)

const (
	kernelHandleHead = 5
	kernelHandleMax  = vfs.MaxHandle - kernelHandleHead
)

// handles is a way to name objects by handles.
type handles interface {
	// of returns the handle of the object that fd has open, which st
	// describes, and which was found as name in the directory with the
	// inode number dir.
	of(fd int, st *unix.Statx_t, dir uint64, name []byte) (vfs.Handle, error)

	// ofDir is of for a directory in the directory in, by whatever name.
	ofDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error)

	// seen returns the handle of the object with an inode number and a time
	// of birth, where that takes no descriptor of it.
	seen(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool)

	// keep makes the handle given out of an inode outlive the process.
	keep(ino uint64) error

	// ready does that with all handles given out. As long as it fails, new ones
	// would not outlive the process.
	ready() error

	// kept tells whether the handle of an inode outlives the process as it is.
	kept(ino uint64) bool

	// open opens the object as a place.
	open(h vfs.Handle) (int, error)

	// moving tells that the object that fd has open, which st describes, is
	// about to get another name in place of an old one; moved, that it has
	// it, or that it kept the old one after all, as where moving fails. What
	// moving learns outlives the process.
	moving(fd int, st *unix.Statx_t, to place) error
	moved(fd int, st *unix.Statx_t, not place)

	// removed tells that a name of the object went, st being its
	// attributes since, and returns the handle that it may be known by.
	removed(fd int, st *unix.Statx_t, not place) (vfs.Handle, error)

	close() error
}

// kernelHandles are handles that the kernel makes and opens.
type kernelHandles struct {
	mount int // in the mount whose objects they are
	known knownHandles
}

func (k *kernelHandles) of(fd int, st *unix.Statx_t, _ uint64, _ []byte) (vfs.Handle, error) {
	h, ok := k.known.get(st.Ino, st.Btime)
	if ok {
		return h, nil
	}
	h, err := k.ask(fd)
	if err == nil {
		k.known.put(st.Ino, st.Btime, h)
	}
	return h, err
}

func (k *kernelHandles) seen(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool) {
	return k.known.get(ino, birth)
}

func (k *kernelHandles) ask(fd int) (vfs.Handle, error) {
	var kh kernelHandle
	if err := kh.of(fd); err != nil {
		return vfs.Handle{}, err
	}
	var b [vfs.MaxHandle]byte
	b[0] = kindKernel
	binary.BigEndian.PutUint32(b[1:], uint32(kh.typ))
	n := copy(b[kernelHandleHead:], kh.b[:kh.n])
	h, _ := vfs.NewHandle(b[:kernelHandleHead+n])
	return h, nil
}

func (k *kernelHandles) open(h vfs.Handle) (int, error) {
	var room [vfs.MaxHandle]byte
	b := h.AppendTo(room[:0])
	switch {
	case len(b) > 0 && b[0] == kindTable:
		return -1, unix.ESTALE // of a time when the daemon was not root
	case len(b) <= kernelHandleHead || b[0] != kindKernel:
		return -1, vfs.ErrBadHandle
	}
	kh := kernelHandle{typ: int32(binary.BigEndian.Uint32(b[1:]))}
	kh.n = uint32(copy(kh.b[:], b[kernelHandleHead:]))
	fd, err := kh.open(k.mount)
	if err == unix.EINVAL {
		err = vfs.ErrBadHandle
	}
	return fd, err
}

func (k *kernelHandles) ofDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error) {
	return k.of(fd, st, in.ino, nil)
}

func (k *kernelHandles) keep(uint64) error                      { return nil }
func (k *kernelHandles) ready() error                           { return nil }
func (k *kernelHandles) kept(uint64) bool                       { return true }
func (k *kernelHandles) moving(int, *unix.Statx_t, place) error { return nil }
func (k *kernelHandles) moved(int, *unix.Statx_t, place)        {}
func (k *kernelHandles) close() error                           { return nil }

func (k *kernelHandles) removed(fd int, st *unix.Statx_t, _ place) (vfs.Handle, error) {
	return k.of(fd, st, 0, nil)
}
