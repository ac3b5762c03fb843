//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// parentOf returns the directory above d; the root's parent is the root. It
// returns EACCES if the parent is not in the export.
func (f *FS) parentOf(c *vfs.Cred, d *object) (*object, error) {
	if d.h == f.root.h {
		return f.lookupSelf(c, d)
	}
	fd, err := f.openName(c, d, "..")
	if err == unix.ENOENT { // the kernel's error for a directory outside the mount
		err = unix.EACCES
	}
	if err != nil {
		return nil, err
	}
	return f.adoptInside(fd, d.ino, maxDepth)
}

// adoptInside creates an object from the O_PATH descriptor fd, a directory above the inode below,
// if its parents lead to the root.
func (f *FS) adoptInside(fd int, below uint64, depth int) (*object, error) {
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
	if depth == 0 || st.Ino == below || !f.isExported(&st) {
		return h, unix.EACCES
	}
	up, err := openPath(fd, "..")
	if err != nil {
		return h, err
	}
	above, err := f.adoptInside(up, st.Ino, depth-1)
	if err != nil {
		return h, err
	}
	defer f.putObject(above)
	return f.handles.handleOfDir(fd, &st, above)
}

// pinObject keeps o, which is in use and not pinned, until unpinObject. A pinned object does not
// count against the cache's bound.
func (c *cache) pinObject(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.refs.Add(1)
	c.moveToRing(o, true)
	c.fds.Add(-1)
}

// unpinObject undoes pinObject. It leaves any closing to the next tick, because closing may wait
// for a disk and the caller may have more leases to release.
func (c *cache) unpinObject(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveToRing(o, false)
	c.fds.Add(1)
	o.used.Store(c.tick.Load())
	if o.refs.Add(-1) == 0 && o.removedFromCache {
		c.left = append(c.left, o)
	}
}

// moveToRing moves o to the ring for pinned or unpinned objects. c.mu is held.
func (c *cache) moveToRing(o *object, pinned bool) {
	o.pinned = pinned
	if !o.removedFromCache {
		o.unlinkObject()
		c.linkObject(o)
	}
}
