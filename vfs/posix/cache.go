//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A cache holds objects by handle, the most recently entered first. Objects and
// files in use are never closed. The others are closed when there are too many
// descriptors, or after some idle ticks. An object that was found meanwhile gets a second
// chance, as if it were entered anew. Pinned objects stay, but their files
// may be closed.
//
// A call finds its object, and gives it back, under the lock for readers: calls on many
// processors do not wait for each other.
type cache struct {
	max    int64        // descriptors
	budget int64        // bounds these and the descriptors of all leases together
	disk   *disk        // syncs dirty files when they are closed
	fds    atomic.Int64 // open descriptors, without those of pinned objects
	tick   atomic.Uint32

	windows   atomic.Int64 // open mappings
	leftovers atomic.Int32 // of listings
	opened    atomic.Int64 // descriptors that Files need
	locked    atomic.Int64 // descriptors of fileLocks

	mu   sync.RWMutex
	objs map[vfs.Handle]*object
	ring object    // ring.next is the most recently entered
	pins object    // likewise, of pinned objects that may have files
	left []*object // dead objects, to close at the next tick
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

// get returns the object of h with one more reference, or nil.
func (c *cache) get(h vfs.Handle) *object {
	c.mu.RLock()
	o := c.objs[h]
	pinned := o != nil && o.pinned
	if o != nil && !pinned {
		o.refs.Add(1)
		if !o.hot.Load() {
			o.hot.Store(true)
		}
	}
	c.mu.RUnlock()
	if pinned {
		return c.getPinned(h)
	}
	return o
}

// getPinned is get for a pinned object, which may have left its ring.
func (c *cache) getPinned(h vfs.Handle) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objs[h]
	if o != nil {
		o.refs.Add(1)
		o.unlink()
		c.link(o)
	}
	return o
}

// inode returns the inode number of the object with handle h, if the cache has
// it.
func (c *cache) inode(h vfs.Handle) (ino uint64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	o := c.objs[h]
	if o == nil {
		return 0, false
	}
	return o.ino, true
}

// holds reports whether the cache has the object of h.
func (c *cache) holds(h vfs.Handle) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objs[h] != nil
}

// put enters o with one reference. If the cache already has an object with the
// same handle, put closes o and returns the other.
func (c *cache) put(o *object) *object {
	c.fds.Add(1)
	c.mu.Lock()
	if old := c.objs[o.h]; old != nil {
		old.refs.Add(1)
		c.mu.Unlock()
		c.close(o)
		return old
	}
	c.seq++
	o.refs.Store(1)
	o.seq = c.seq
	c.objs[o.h] = o
	c.link(o)
	c.mu.Unlock()
	c.shrink()
	return o
}

// retain adds a reference to o, which has one.
func (c *cache) retain(o *object) { o.refs.Add(1) }

// release drops a reference to o.
func (c *cache) release(o *object) {
	c.mu.RLock()
	if now := c.tick.Load(); o.used.Load() != now {
		o.used.Store(now)
	}
	last := o.refs.Add(-1) == 0 && o.dead
	c.mu.RUnlock()
	if last {
		c.close(o)
	}
}

// forget drops the object of h, which has gone from the file system, unless it
// is open: no later get returns the object. It is closed as soon as it is
// unused.
func (c *cache) forget(h vfs.Handle) {
	c.mu.Lock()
	o := c.objs[h]
	if o != nil && o.opens.Load() > 0 {
		o = nil
	}
	if o != nil {
		c.removeLocked(o)
		o.gone = true
	}
	last := o != nil && o.refs.Load() == 0
	c.mu.Unlock()
	if last {
		c.close(o)
	}
}

// clear closes everything except objects still lent to readers, which the last
// release closes. Data is not synced, because the next start has another write
// verifier.
func (c *cache) clear() {
	c.mu.Lock()
	out := c.left
	c.left = nil
	for _, o := range c.objs {
		c.removeLocked(o)
		o.gone = true
		if o.refs.Load() == 0 {
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
			c.disk.abandon(fl)
		}
		c.closeFile(fl)
	}
	o.watched.end()
	closeFD(o.fd)
	c.fds.Add(-1)
}

// closeFile closes a file that is not in use. A dirty file is synced first; if
// that fails, a new write verifier tells the clients.
func (c *cache) closeFile(fl *file) {
	c.disk.closing(fl)
	if fl.rest != nil {
		c.leftovers.Add(-1)
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

// unlink takes o out of its ring, if any.
func (o *object) unlink() {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = o, o
}
