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
	// Size is the maximum size of file data and metadata, in bytes; 0 means 1 GiB.
	Size int64

	// Mode, UID and GID are the root directory's. A Mode of 0 means 0o1777:
	// everyone can make files and remove only their own.
	Mode, UID, GID uint32
}

// FS is a file system in memory.
type FS struct {
	boot     uint64 // distinguishes this FS's handles from others'
	verifier uint64
	size     int64

	mu     sync.RWMutex
	nodes  map[uint64]*node
	root   *node
	nextID uint64
	used   int64 // bytes used of size
	last   vfs.Time
}

var _ vfs.FS = (*FS)(nil)

// New creates an empty file system.
func New(o Options) *FS {
	f := &FS{boot: randomUint64(), verifier: randomUint64(), size: o.Size, nodes: make(map[uint64]*node)}
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

// randomUint64 returns a random number. crypto/rand does not fail.
func randomUint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// Root returns the root's handle.
func (f *FS) Root() vfs.Handle { return f.handleOf(f.root) }

// WriteVerifier returns a number that differs for each FS.
func (f *FS) WriteVerifier() uint64 { return f.verifier }

// Close does nothing: the memory is freed with the last reference.
func (f *FS) Close() error { return nil }

// handleLen is a handle's length in bytes: boot and the node's number.
const handleLen = 16

func (f *FS) handleOf(n *node) vfs.Handle {
	var b [handleLen]byte
	binary.BigEndian.PutUint64(b[:], f.boot)
	binary.BigEndian.PutUint64(b[8:], n.attr.FileID)
	h, _ := vfs.NewHandle(b[:])
	return h
}

// nodeOf finds a handle's object. mu is held, as in all functions that follow.
func (f *FS) nodeOf(h vfs.Handle) (*node, error) {
	var mem [vfs.MaxHandle]byte
	b := h.AppendTo(mem[:0])
	if len(b) != handleLen {
		return nil, vfs.ErrBadHandle
	}
	n := f.nodes[binary.BigEndian.Uint64(b[8:])]
	if binary.BigEndian.Uint64(b) != f.boot || n == nil {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// dirOf is like nodeOf, but h must be a directory. The node is returned with ENOTDIR too.
func (f *FS) dirOf(h vfs.Handle) (*node, error) {
	n, err := f.nodeOf(h)
	if err == nil && n.attr.Type != vfs.TypeDir {
		err = syscall.ENOTDIR
	}
	return n, err
}

// fileOf is like nodeOf, but h must be a regular file. RFC 1813, Section 3.3.6, requires
// NFS3ERR_INVAL for others.
func (f *FS) fileOf(h vfs.Handle) (*node, error) {
	n, err := f.nodeOf(h)
	if err == nil && n.attr.Type != vfs.TypeReg {
		err = syscall.EINVAL
	}
	return n, err
}

// nextTime returns the time, always later than the last one: clients detect changes
// by comparing times.
func (f *FS) nextTime() vfs.Time {
	t := time.Now()
	now := vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
	if !f.last.Before(now) {
		now = f.last
		if now.Nsec++; now.Nsec == 1e9 {
			now = vfs.Time{Sec: now.Sec + 1}
		}
	}
	f.last = now
	return now
}

// chargeBytes counts n bytes against the size.
func (f *FS) chargeBytes(n int64) error {
	if n > f.size-f.used {
		return syscall.ENOSPC
	}
	f.used += n
	return nil
}
