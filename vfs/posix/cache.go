//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A cache holds objects by handle, the most recently used first. Objects and
// files in use are never closed; others are when there are too many
// descriptors, or nobody has come for some ticks. Objects that are pinned stay,
// but for their files.
type cache struct {
	max    int64        // descriptors
	budget int64        // of them and those of all leases together
	disk   *disk        // for what is dirty when it is closed
	fds    atomic.Int64 // descriptors now, without those of pinned objects
	tick   atomic.Uint32

	windows atomic.Int64 // now

	mu   sync.Mutex
	objs map[vfs.Handle]*object
	ring object    // its next is the most recently used
	pins object    // likewise, of pinned objects those that may have files
	left []*object // dead, to be closed at the next tick
	seq  uint64    // of the latest object
}

func (c *cache) init(max int, d *disk) {
	c.max, c.disk = int64(max), d
	c.budget = maxFiles() - maxFiles()/4
	c.objs = make(map[vfs.Handle]*object)
	for _, ring := range []*object{&c.ring, &c.pins} {
		ring.prev, ring.next = ring, ring
	}
}

// get returns the object with one more reference, or nil.
func (c *cache) get(h vfs.Handle) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objs[h]
	if o != nil {
		o.refs++
		o.unlink()
		c.link(o)
	}
	return o
}

// inode returns the inode number of the object with that handle, if it is there.
func (c *cache) inode(h vfs.Handle) (ino uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objs[h]
	if o == nil {
		return 0, false
	}
	return o.ino, true
}

// holds tells whether the object of h is there.
func (c *cache) holds(h vfs.Handle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objs[h] != nil
}

// put enters o, with one reference, unless its handle is there: then o is
// closed and the one that is there returned.
func (c *cache) put(o *object) *object {
	c.fds.Add(1)
	c.mu.Lock()
	if old := c.objs[o.h]; old != nil {
		old.refs++
		c.mu.Unlock()
		c.close(o)
		return old
	}
	c.seq++
	o.refs, o.seq = 1, c.seq
	c.objs[o.h] = o
	c.link(o)
	c.mu.Unlock()
	c.shrink()
	return o
}

// release gives a reference back.
func (c *cache) release(o *object) {
	c.mu.Lock()
	o.refs--
	o.used = c.tick.Load()
	last := o.dead && o.refs == 0
	c.mu.Unlock()
	if last {
		c.close(o)
	}
}

// forget closes the object as soon as nobody uses it, and lets nobody else
// have it: it has gone from the file system.
func (c *cache) forget(h vfs.Handle) {
	c.mu.Lock()
	o := c.objs[h]
	if o != nil {
		c.removeLocked(o)
		o.gone = true
	}
	last := o != nil && o.refs == 0
	c.mu.Unlock()
	if last {
		c.close(o)
	}
}

// clear closes everything but what is still lent to readers, whose last
// closes it. Nobody waits for the data: the next start has another write
// verifier.
func (c *cache) clear() {
	c.mu.Lock()
	out := c.left
	c.left = nil
	for _, o := range c.objs {
		c.removeLocked(o)
		o.gone = true
		if o.refs == 0 {
			out = append(out, o)
		}
	}
	c.mu.Unlock()
	for _, o := range out {
		c.close(o)
	}
}

// close closes o, which has left the cache and is not in use.
func (c *cache) close(o *object) {
	c.unmap(o)
	for _, fl := range o.files {
		if o.gone {
			fl.dirty.Store(false)
		}
		c.closeFile(fl)
	}
	closeFD(o.fd)
	c.fds.Add(-1)
}

// closeFile closes a file that is not in use. Nobody would hear of an error
// in writing what it leaves in the page cache, so that is waited for: a new
// verifier tells of it.
func (c *cache) closeFile(fl *file) {
	if fl.dirty.Load() {
		_ = c.disk.file(fl)
	}
	closeFD(fl.fd)
	c.fds.Add(-1)
}

func (c *cache) removeLocked(o *object) {
	delete(c.objs, o.h)
	o.unlink()
	o.dead = true
}

func (c *cache) link(o *object) {
	ring := &c.ring
	if o.pinned {
		ring = &c.pins
	}
	o.prev, o.next = ring, ring.next
	o.prev.next, o.next.prev = o, o
}

// unlink takes o out of its ring, if it is in one.
func (o *object) unlink() {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = o, o
}
