//go:build linux

package posix

import "slices"

// idleTicks is the number of ticks before an unused object or file is closed. It was then idle for
// more than idleTicks-1 ticks.
const idleTicks = 3

// maxDescriptors returns how many descriptors may be open.
func (c *cache) maxDescriptors() int64 {
	return max(min(c.max, c.idle+c.opened.Load()+c.locked.Load(), c.budget-leasedFDs.Load()), minMaxFiles)
}

// closeExcess closes objects and files while there are too many descriptors: the objects that were
// entered first, apart from those that were found since. Only a call that writes closes dirty
// files, because that waits for a disk. Objects that may not be closed go to the front, and after
// some of them closeExcess leaves the others to the next call.
func (c *cache) closeExcess(writes bool) {
	excess := c.fds.Load() - c.maxDescriptors()
	if excess <= 0 {
		return
	}
	may := func(fl *file) bool { return writes || c.isSettled(fl) }
	var out []*object
	var files []*file
	c.mu.Lock()
	chances, passes := len(c.objs), min(maxPassed, len(c.objs))
	for o := c.ring.prev; o != &c.ring && excess > 0 && passes > 0; {
		prev := o.prev
		hot := chances > 0 && o.hot.Swap(false)
		switch {
		case hot:
			chances--
		case o.refs.Load() == 0 && allFiles(o.files, may):
			c.removeLocked(o)
			out = append(out, o)
			excess -= int64(1 + len(o.files))
		default:
			passes--
		}
		if !o.removedFromCache {
			o.unlinkObject()
			c.linkObject(o)
		}
		o = prev
	}
	for o := c.pins.prev; o != &c.pins && excess > 0; {
		prev := o.prev
		idle := c.takeFiles(o, may)
		files = append(files, idle...)
		excess -= int64(len(idle))
		o = prev
	}
	c.mu.Unlock()
	c.closeEach(out, files)
}

func allFiles(files []*file, is func(*file) bool) bool {
	return !slices.ContainsFunc(files, func(fl *file) bool { return !is(fl) })
}

// takeFiles removes the files that pick chooses from an object that stays open. A pinned object
// leaves its ring with its last file. c.mu is held.
func (c *cache) takeFiles(o *object, pick func(*file) bool) []*file {
	if !o.mu.TryLock() { // the holder may be waiting for a disk
		return nil
	}
	defer o.mu.Unlock()
	files := o.takeFiles(pick)
	if o.pinned && o.refs.Load() == 1 && len(o.files) == 0 {
		o.unlinkObject()
	}
	return files
}

// closeIdle runs at each tick. It closes idle objects and files, and the objects in
// c.left. It waits for no disk: dirty files are synced and closed in goroutines, and
// those for which there is no other goroutine stay until a later tick.
func (c *cache) closeIdle() {
	now := c.tick.Add(1)
	var objs []*object
	var files []*file
	idle := func(fl *file) bool { return now-fl.used >= idleTicks }
	strip := func(o *object) {
		dirty := false
		files = append(files, c.takeFiles(o, func(fl *file) bool {
			settled := idle(fl) && c.isSettled(fl)
			dirty = dirty || idle(fl) && !settled
			return settled
		})...)
		if dirty && c.closers.TryAcquire(1) {
			c.closeEachAsync(nil, c.takeFiles(o, idle))
		}
	}
	c.mu.Lock()
	waiting := c.left
	c.left = nil
	for _, o := range waiting {
		if allFiles(o.files, c.isSettled) {
			objs = append(objs, o)
		} else if !c.closeAsync(o) {
			c.left = append(c.left, o)
		}
	}
	for o := c.ring.prev; o != &c.ring; {
		prev := o.prev
		switch {
		case o.refs.Load() > 0 || now-o.used.Load() < idleTicks:
			strip(o)
		case allFiles(o.files, c.isSettled):
			c.removeLocked(o)
			objs = append(objs, o)
		case c.closeAsync(o):
			c.removeLocked(o)
		}
		o = prev
	}
	for o := c.pins.prev; o != &c.pins; {
		prev := o.prev
		strip(o)
		o = prev
	}
	c.mu.Unlock()
	c.closeEach(objs, files)
}

// closeAsync closes an object in a goroutine, unless there are too many.
func (c *cache) closeAsync(o *object) bool {
	if !c.closers.TryAcquire(1) {
		return false
	}
	c.closeEachAsync([]*object{o}, nil)
	return true
}

// closeEachAsync closes objects and files in a goroutine. The caller has acquired it from
// closers.
func (c *cache) closeEachAsync(objs []*object, files []*file) {
	c.closing.Go(func() {
		defer c.closers.Release(1)
		c.closeEach(objs, files)
	})
}

func (c *cache) closeEach(objs []*object, files []*file) {
	for _, o := range objs {
		c.closeObject(o)
	}
	for _, fl := range files {
		c.closeFile(fl)
	}
}
