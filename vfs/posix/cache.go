//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/filesync"
)

// A cache holds objects by handle, the most recently entered first. Objects and files in use are
// never closed. The others are closed when there are too many descriptors, or after some idle
// ticks. An object that was found in the meantime gets a second chance, as if it were entered anew.
// Pinned objects stay, but their files may be closed.
//
// A call finds its object, and gives it back, under the lock for readers: calls on many
// processors do not wait for each other.
type cache struct {
	max    int64          // descriptors
	idle   int64          // descriptors, without those that clients hold
	budget int64          // bounds these and all leases' descriptors together
	shares *shares        // clients' shares
	disk   *filesync.Disk // syncs dirty files when they are closed
	fds    atomic.Int64   // open descriptors, except for pinned objects
	tick   atomic.Uint32

	closers *semaphore.Weighted // permits to close dirty files, see closeIdle
	closing sync.WaitGroup      // their goroutines

	windows   windowRing
	leftovers atomic.Int32 // leftovers of directory listings
	opened    atomic.Int64 // descriptors that Files need
	locked    atomic.Int64 // fileLocks' own descriptors

	mu   sync.RWMutex
	objs map[vfs.Handle]*object
	ring object    // ring.next is the most recently entered
	pins object    // likewise, for pinned objects that may have files
	left []*object // dead objects, to close at the next tick
	seq  uint64    // the latest object's
}

func (c *cache) initCache(o *Options, d *filesync.Disk) {
	c.max, c.idle, c.disk, c.budget = int64(o.MaxFiles), int64(o.MaxFiles), d, maxHeldFDs()
	if o.unbounded {
		c.max, c.shares = c.budget, allShares()
	} else {
		c.shares = newShares(c.max)
	}
	c.windows.most = maxWindows
	c.closers = semaphore.NewWeighted(maxClosers)
	c.objs = make(map[vfs.Handle]*object)
	for _, ring := range []*object{&c.ring, &c.pins} {
		ring.prev, ring.next = ring, ring
	}
}

// getObject returns h's object with one more reference, or nil.
func (c *cache) getObject(h vfs.Handle) *object {
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

// getPinned is getObject for a pinned object, which may have left its ring.
func (c *cache) getPinned(h vfs.Handle) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objs[h]
	if o != nil {
		o.refs.Add(1)
		o.unlinkObject()
		c.linkObject(o)
	}
	return o
}

// inodeOf returns the inode number for h, if the cache has the object.
func (c *cache) inodeOf(h vfs.Handle) (ino uint64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	o := c.objs[h]
	if o == nil {
		return 0, false
	}
	return o.ino, true
}

// hasObject reports whether the cache has h's object.
func (c *cache) hasObject(h vfs.Handle) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objs[h] != nil
}

// addObject enters o with one reference. If the cache already has an object with the same handle,
// addObject closes o and returns the other.
func (c *cache) addObject(o *object) *object {
	c.fds.Add(1)
	c.mu.Lock()
	if old := c.objs[o.h]; old != nil {
		old.refs.Add(1)
		c.mu.Unlock()
		c.closeObject(o)
		return old
	}
	c.seq++
	o.refs.Store(1)
	o.seq = c.seq
	c.objs[o.h] = o
	c.linkObject(o)
	c.mu.Unlock()
	c.closeExcess(false)
	return o
}

// retainObject adds a reference to o, which has one.
func (c *cache) retainObject(o *object) { o.refs.Add(1) }

// releaseObject drops a reference to o.
func (c *cache) releaseObject(o *object) {
	c.mu.RLock()
	if now := c.tick.Load(); o.used.Load() != now {
		o.used.Store(now)
	}
	last := o.refs.Add(-1) == 0 && o.removedFromCache
	c.mu.RUnlock()
	if last {
		c.closeObject(o)
	}
}

// forgetObject drops h's object, which was removed from the file system, unless it is open: no
// later getObject returns it. It is closed as soon as it is unused.
func (c *cache) forgetObject(h vfs.Handle) {
	c.mu.Lock()
	o := c.objs[h]
	if o != nil && o.opens.Load() > 0 {
		o = nil
	}
	if o != nil {
		c.removeLocked(o)
		o.removedFromFS = true
	}
	last := o != nil && o.refs.Load() == 0
	c.mu.Unlock()
	if last {
		c.closeObject(o)
	}
}

// closeAll closes everything except objects still lent to readers, which the last
// release closes. Data is not synced, because the next start has another write
// verifier.
func (c *cache) closeAll() {
	c.mu.Lock()
	out := c.left
	c.left = nil
	for _, o := range c.objs {
		c.removeLocked(o)
		o.removedFromFS = true
		if o.refs.Load() == 0 {
			out = append(out, o)
		}
	}
	c.mu.Unlock()
	for _, o := range out {
		c.closeObject(o)
	}
}

// closeObject closes o, which has left the cache and is not in use.
func (c *cache) closeObject(o *object) {
	o.mu.Lock() // for the window ring, which may be about to take one
	c.unmapWindows(o)
	o.mu.Unlock()
	for _, fl := range o.files {
		if o.removedFromFS {
			c.disk.AbandonFile(&fl.File)
		}
		c.closeFile(fl)
	}
	o.watched.stopWatching()
	closeFD(o.fd)
	c.fds.Add(-1)
}

// closeFile closes a file that is not in use. A dirty file is synced first; if
// that fails, a new write verifier tells the clients.
func (c *cache) closeFile(fl *file) {
	c.disk.SyncForClose(&fl.File)
	if fl.rest != nil {
		c.leftovers.Add(-1)
	}
	closeFD(fl.FD)
	c.fds.Add(-1)
}

// isSettled reports whether closing fl would not wait for a disk.
func (c *cache) isSettled(fl *file) bool { return c.disk.IsSettled(&fl.File) }

func (c *cache) removeLocked(o *object) {
	delete(c.objs, o.h)
	o.unlinkObject()
	o.removedFromCache = true
}

func (c *cache) linkObject(o *object) {
	ring := &c.ring
	if o.pinned {
		ring = &c.pins
	}
	o.prev, o.next = ring, ring.next
	o.prev.next, o.next.prev = o, o
}

// unlinkObject removes o from its ring, if any.
func (o *object) unlinkObject() {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = o, o
}
