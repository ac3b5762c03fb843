package mem

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Options configure a new FS. The zero value is valid.
type Options struct {
	// Size is how many bytes the FS may hold, of file data and metadata; 0
	// means 1 GiB.
	Size int64

	// Mode, UID and GID are the root directory's. A Mode of 0 means 0o1777:
	// everyone can make files and remove only their own.
	Mode, UID, GID uint32
}

// FS is a file system in memory.
type FS struct {
	boot     uint64 // distinguishes handles of this FS from others'
	verifier uint64
	size     int64

	mu     sync.RWMutex
	nodes  map[uint64]*node
	root   *node
	nextID uint64
	used   int64 // of size
	last   vfs.Time
}

var _ vfs.FS = (*FS)(nil)

// New makes an empty file system.
func New(o Options) *FS {
	f := &FS{boot: random(), verifier: random(), size: o.Size, nodes: make(map[uint64]*node)}
	if f.size == 0 {
		f.size = defaultSize
	}
	if o.Mode == 0 {
		o.Mode = 0o1777
	}
	f.root = f.newNode(vfs.TypeDir, &vfs.Cred{UID: o.UID, GID: o.GID}, o.Mode)
	f.root.attr.Nlink, f.root.parent = 2, f.root
	return f
}

// random returns a random number. crypto/rand does not fail.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// Root returns the handle of the root.
func (f *FS) Root() vfs.Handle { return f.handle(f.root) }

// WriteVerifier returns a number that differs for each FS.
func (f *FS) WriteVerifier() uint64 { return f.verifier }

// Close does nothing: the memory is freed with the last reference.
func (f *FS) Close() error { return nil }

// handleLen is the length of a handle in bytes: boot and the node's number.
const handleLen = 16

func (f *FS) handle(n *node) vfs.Handle {
	var b [handleLen]byte
	binary.BigEndian.PutUint64(b[:], f.boot)
	binary.BigEndian.PutUint64(b[8:], n.attr.FileID)
	h, _ := vfs.NewHandle(b[:])
	return h
}

// node finds the object of a handle. mu is held, as in all functions that
// follow.
func (f *FS) node(h vfs.Handle) (*node, error) {
	var room [vfs.MaxHandle]byte
	b := h.AppendTo(room[:0])
	if len(b) != handleLen {
		return nil, vfs.ErrBadHandle
	}
	n := f.nodes[binary.BigEndian.Uint64(b[8:])]
	if binary.BigEndian.Uint64(b) != f.boot || n == nil {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// dir is like node, but h must be a directory. The node is returned with
// ENOTDIR too.
func (f *FS) dir(h vfs.Handle) (*node, error) {
	n, err := f.node(h)
	if err == nil && n.attr.Type != vfs.TypeDir {
		err = syscall.ENOTDIR
	}
	return n, err
}

// file is like node, but h must be a regular file. RFC 1813, Section 3.3.6,
// requires NFS3ERR_INVAL for others.
func (f *FS) file(h vfs.Handle) (*node, error) {
	n, err := f.node(h)
	if err == nil && n.attr.Type != vfs.TypeReg {
		err = syscall.EINVAL
	}
	return n, err
}

// now returns the time, always later than the last one: clients detect changes
// by comparing times.
func (f *FS) now() vfs.Time {
	t := time.Now()
	now := vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
	if now.Sec < f.last.Sec || now.Sec == f.last.Sec && now.Nsec <= f.last.Nsec {
		now = f.last
		if now.Nsec++; now.Nsec == 1e9 {
			now = vfs.Time{Sec: now.Sec + 1}
		}
	}
	f.last = now
	return now
}

// charge counts n bytes against the size.
func (f *FS) charge(n int64) error {
	if n > f.size-f.used {
		return syscall.ENOSPC
	}
	f.used += n
	return nil
}
