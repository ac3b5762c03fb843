//go:build linux

package posix

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// The handle kinds, in a handle's first byte.
const (
	kindTable  = 2 // then a handletable.ID
	kindLink   = 4 // likewise, for a linkID
	kindKernel = 3 // then handle_type (1 byte) and the kernel's bytes
)

const (
	kernelHandleHead = 2
	kernelHandleMax  = vfs.MaxHandle - kernelHandleHead
)

// handles maps objects to handles and back.
type handles interface {
	// handleOf returns the handle of the object open as fd, with attributes st, that
	// was found as name in the directory with inode number dir.
	handleOf(fd int, st *unix.Statx_t, dir uint64, name []byte) (vfs.Handle, error)

	// handleOfDir is like handleOf, for a directory that is in the directory in under an
	// unknown name.
	handleOfDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error)

	// knownHandle returns the handle for an inode number and a birth time, if it is known
	// without a descriptor.
	knownHandle(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool)

	// persist stores a returned handle so that it survives the process.
	persist(h vfs.Handle) error

	// persistAll does the same for all returned handles. While it fails, new handles would not
	// survive the process.
	persistAll() error

	// isPersistent reports whether a handle already survives the process.
	isPersistent(h vfs.Handle) bool

	// handleOfLink is handleOf for an object with handle h that has just got another name.
	handleOfLink(h vfs.Handle, fd int, st *unix.Statx_t, at handletable.Place) (vfs.Handle, error)

	// noteCopyUp records that h's object, open as fd with attributes st, has another inode
	// number or birth time than before.
	noteCopyUp(h vfs.Handle, fd int, st *unix.Statx_t)

	// openHandle opens the object as an O_PATH descriptor.
	openHandle(h vfs.Handle) (int, error)

	// beginMove announces that the object open as fd, with attributes st, is about to get the
	// name to in place of from. endMove follows, with the same st, unless the object has both
	// names: it is no longer at not, which is from, or to if the rename failed. What beginMove
	// records survives the process.
	beginMove(fd int, st *unix.Statx_t, from, to handletable.Place) error
	endMove(fd int, st *unix.Statx_t, from, not handletable.Place)

	// removeName records that the object has lost a name; st are its attributes afterwards. It
	// returns the handle by which the object may be known.
	removeName(fd int, st *unix.Statx_t, not handletable.Place) (vfs.Handle, error)

	close() error
}

// kernelHandles are handles that the kernel encodes and opens.
type kernelHandles struct {
	mount int // a descriptor in the objects' mount
	known knownHandles
}

func (k *kernelHandles) handleOf(fd int, st *unix.Statx_t, _ uint64, _ []byte) (vfs.Handle, error) {
	h, ok := k.known.getHandle(st.Ino, st.Btime)
	if ok {
		return h, nil
	}
	h, err := k.encodeHandle(fd)
	if err == nil {
		k.known.putHandle(st.Ino, st.Btime, h)
	}
	return h, err
}

func (k *kernelHandles) knownHandle(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool) {
	return k.known.getHandle(ino, birth)
}

func (k *kernelHandles) encodeHandle(fd int) (vfs.Handle, error) {
	var kh kernelHandle
	if err := kh.encode(fd); err != nil {
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

func (k *kernelHandles) openHandle(h vfs.Handle) (int, error) {
	var mem [vfs.MaxHandle]byte
	b := h.AppendTo(mem[:0])
	switch {
	case len(b) > 0 && (b[0] == kindTable || b[0] == kindLink):
		return -1, unix.ESTALE // from a time when the daemon was not root
	case len(b) <= kernelHandleHead || b[0] != kindKernel:
		return -1, vfs.ErrBadHandle
	}
	kh := kernelHandle{typ: int32(b[1])}
	kh.n = uint32(copy(kh.b[:], b[kernelHandleHead:]))
	fd, err := kh.openAt(k.mount)
	if err == unix.EINVAL {
		err = vfs.ErrBadHandle
	}
	return fd, err
}

func (k *kernelHandles) handleOfDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error) {
	return k.handleOf(fd, st, in.ino, nil)
}

func (k *kernelHandles) handleOfLink(_ vfs.Handle, fd int, st *unix.Statx_t, _ handletable.Place) (vfs.Handle, error) {
	return k.handleOf(fd, st, 0, nil)
}

func (k *kernelHandles) persist(vfs.Handle) error                  { return nil }
func (k *kernelHandles) persistAll() error                         { return nil }
func (k *kernelHandles) isPersistent(vfs.Handle) bool              { return true }
func (k *kernelHandles) noteCopyUp(vfs.Handle, int, *unix.Statx_t) {}
func (k *kernelHandles) close() error                              { return nil }

func (k *kernelHandles) beginMove(int, *unix.Statx_t, handletable.Place, handletable.Place) error {
	return nil
}

func (k *kernelHandles) endMove(int, *unix.Statx_t, handletable.Place, handletable.Place) {}

func (k *kernelHandles) removeName(fd int, st *unix.Statx_t, _ handletable.Place) (vfs.Handle, error) {
	return k.handleOf(fd, st, 0, nil)
}
