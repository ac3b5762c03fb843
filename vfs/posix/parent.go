//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// parent returns the directory above d; the root's parent is the root. It
// returns EACCES if the parent is not in the export.
func (f *FS) parent(c *vfs.Cred, d *object) (*object, error) {
	if d.h == f.root.h {
		return f.self(c, d)
	}
	fd, err := f.openName(c, d, "..")
	if err == unix.ENOENT { // the kernel's error for a directory outside the mount
		err = unix.EACCES
	}
	if err != nil {
		return nil, err
	}
	return f.inside(fd, d.ino, maxDepth)
}

// inside makes an object of the O_PATH descriptor fd, a directory above the
// inode below, if its chain of parents leads to the root.
func (f *FS) inside(fd int, below uint64, depth int) (*object, error) {
	h, err := f.insideHandle(fd, below, depth)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return f.adoptExported(h, fd)
}

func (f *FS) insideHandle(fd int, below uint64, depth int) (h vfs.Handle, err error) {
	var st unix.Statx_t
	if err := statFD(fd, &st); err != nil {
		return h, err
	}
	if f.isRoot(&st) {
		return f.root.h, nil
	}
	if depth == 0 || st.Ino == below || !f.exported(&st) {
		return h, unix.EACCES
	}
	up, err := openPath(fd, "..")
	if err != nil {
		return h, err
	}
	above, err := f.inside(up, st.Ino, depth-1)
	if err != nil {
		return h, err
	}
	defer f.put(above)
	return f.handles.ofDir(fd, &st, above)
}

// pin keeps o, which is in use and not pinned, until unpin. A pinned object
// does not count against the cache's bound.
func (c *cache) pin(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.refs.Add(1)
	c.repin(o, true)
	c.fds.Add(-1)
}

// unpin undoes pin. It leaves any closing to the next tick, because closing may
// wait for a disk and the caller may have more leases to give back.
func (c *cache) unpin(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repin(o, false)
	c.fds.Add(1)
	o.used.Store(c.tick.Load())
	if o.refs.Add(-1) == 0 && o.dead {
		c.left = append(c.left, o)
	}
}

// repin moves o to the ring of pinned or unpinned objects. c.mu is held.
func (c *cache) repin(o *object, pinned bool) {
	o.pinned = pinned
	if !o.dead {
		o.unlink()
		c.link(o)
	}
}
