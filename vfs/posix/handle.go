//go:build linux

package posix

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// The kinds of handles, in their first byte.
const (
	kindTable  = 2 // then a tableID
	kindKernel = 3 // then handle_type (1 byte) and the kernel's bytes
)

const (
	kernelHandleHead = 2
	kernelHandleMax  = vfs.MaxHandle - kernelHandleHead
)

// handles maps objects to handles and back.
type handles interface {
	// of returns the handle of the object open as fd, with attributes st, that
	// was found as name in the directory with inode number dir.
	of(fd int, st *unix.Statx_t, dir uint64, name []byte) (vfs.Handle, error)

	// ofDir is like of, for a directory that is in the directory in under an
	// unknown name.
	ofDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error)

	// seen returns the handle of the object with an inode number and a birth
	// time, if it is known without a descriptor.
	seen(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool)

	// keep makes the handle given out for an inode survive the process.
	keep(ino uint64) error

	// ready does the same for all handles given out. While it fails, new
	// handles would not survive the process.
	ready() error

	// kept reports whether the handle of an inode already survives the process.
	kept(ino uint64) bool

	// open opens the object as an O_PATH descriptor.
	open(h vfs.Handle) (int, error)

	// moving announces that the object open as fd, with attributes st, is about
	// to get the name to in place of an old one. moved follows, unless the
	// object has both names: it is no longer at not, which is the old name, or
	// the new name if the rename failed. The information given to moving
	// survives the process.
	moving(fd int, st *unix.Statx_t, to place) error
	moved(fd int, st *unix.Statx_t, not place)

	// removed reports that a name of the object has gone; st are its attributes
	// afterwards. It returns the handle by which the object may be known.
	removed(fd int, st *unix.Statx_t, not place) (vfs.Handle, error)

	close() error
}

// kernelHandles are handles that the kernel makes and opens.
type kernelHandles struct {
	mount int // a descriptor in the mount of the objects
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
	if kh.typ < 0 || kh.typ > math.MaxUint8 { // no file system has more types
		return vfs.Handle{}, unix.EOVERFLOW
	}
	b := [vfs.MaxHandle]byte{kindKernel, byte(kh.typ)}
	n := copy(b[kernelHandleHead:], kh.b[:kh.n])
	h, _ := vfs.NewHandle(b[:kernelHandleHead+n])
	return h, nil
}

func (k *kernelHandles) open(h vfs.Handle) (int, error) {
	var room [vfs.MaxHandle]byte
	b := h.AppendTo(room[:0])
	switch {
	case len(b) > 0 && b[0] == kindTable:
		return -1, unix.ESTALE // from a time when the daemon was not root
	case len(b) <= kernelHandleHead || b[0] != kindKernel:
		return -1, vfs.ErrBadHandle
	}
	kh := kernelHandle{typ: int32(b[1])}
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
