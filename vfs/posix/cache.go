//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A cache holds objects by handle, the most recently used first. Objects and
// files in use are never closed; others are when there are too many
// descriptors, or nobody has come for some ticks.
type cache struct {
	max  int64        // descriptors
	fail func(error)  // told of data lost in closing
	fds  atomic.Int64 // descriptors now
	tick atomic.Uint32

	windows atomic.Int64 // now

	mu   sync.Mutex
	objs map[vfs.Handle]*object
	ring object // its next is the most recently used
	seq  uint64 // of the latest object
}

// idleTicks is how many ticks pass before what is unused is closed, so that
// it was idle for more than one less.
const idleTicks = 3

func (c *cache) init(max int, fail func(error)) {
	c.max, c.fail = int64(max), fail
	c.objs = make(map[vfs.Handle]*object)
	c.ring.prev, c.ring.next = &c.ring, &c.ring
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

// shrink closes what was not used for the longest time while there are too
// many descriptors.
func (c *cache) shrink() {
	excess := c.fds.Load() - c.max
	if excess <= 0 {
		return
	}
	var out []*object
	c.mu.Lock()
	for o := c.ring.prev; o != &c.ring && excess > 0; {
		prev := o.prev
		if o.refs == 0 {
			c.removeLocked(o)
			out = append(out, o)
			excess -= int64(1 + len(o.files))
		}
		o = prev
	}
	c.mu.Unlock()
	for _, o := range out {
		c.close(o)
	}
}

// sweep is a tick: it closes what has been idle.
func (c *cache) sweep() {
	now := c.tick.Add(1)
	var objs []*object
	var files []*file
	idle := func(fl *file) bool { return now-fl.used >= idleTicks }
	c.mu.Lock()
	for o := c.ring.prev; o != &c.ring; {
		prev := o.prev
		if o.refs == 0 && now-o.used >= idleTicks {
			c.removeLocked(o)
			objs = append(objs, o)
		} else if o.mu.TryLock() { // who holds it may wait for a disk
			files = append(files, o.take(idle)...)
			o.mu.Unlock()
		}
		o = prev
	}
	c.mu.Unlock()
	for _, o := range objs {
		c.close(o)
	}
	for _, fl := range files {
		c.closeFile(fl)
	}
}

// clear closes everything but what is still lent to readers, whose last
// closes it. Nobody waits for the data: the next start has another write
// verifier.
func (c *cache) clear() {
	var out []*object
	c.mu.Lock()
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
// in writing what it leaves in the page cache, so that is waited for.
func (c *cache) closeFile(fl *file) {
	if fl.dirty.Load() {
		if err := fsync(fl.fd); err != nil {
			c.fail(err)
		}
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
	o.prev, o.next = &c.ring, c.ring.next
	o.prev.next, o.next.prev = o, o
}

func (o *object) unlink() {
	o.prev.next, o.next.prev = o.next, o.prev
}
