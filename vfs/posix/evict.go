//go:build linux

package posix

// idleTicks is how many ticks pass before an unused object or file is closed.
// It was then idle for more than idleTicks-1 ticks.
const idleTicks = 3

// limit returns how many descriptors may be open.
func (c *cache) limit() int64 { return max(min(c.max, c.budget-leased.Load()), minMaxFiles) }

// shrink closes objects and files while there are too many descriptors: the objects that
// were entered first, apart from those that were found since.
func (c *cache) shrink() {
	excess := c.fds.Load() - c.limit()
	if excess <= 0 {
		return
	}
	var out []*object
	var files []*file
	c.mu.Lock()
	chances := len(c.objs)
	for o := c.ring.prev; o != &c.ring && excess > 0; {
		prev := o.prev
		if chances > 0 && o.hot.Swap(false) {
			chances--
			o.unlink()
			c.link(o)
		} else if o.refs.Load() == 0 {
			c.removeLocked(o)
			out = append(out, o)
			excess -= int64(1 + len(o.files))
		}
		o = prev
	}
	for o := c.pins.prev; o != &c.pins && excess > 0; {
		prev := o.prev
		idle := c.strip(o, func(*file) bool { return true })
		files = append(files, idle...)
		excess -= int64(len(idle))
		o = prev
	}
	c.mu.Unlock()
	c.closeEach(out, files)
}

// strip takes the files that pick chooses from an object that stays open. A
// pinned object leaves its ring with its last file. c.mu is held.
func (c *cache) strip(o *object, pick func(*file) bool) []*file {
	if !o.mu.TryLock() { // the holder may be waiting for a disk
		return nil
	}
	defer o.mu.Unlock()
	files := o.take(pick)
	if o.pinned && o.refs.Load() == 1 && len(o.files) == 0 {
		o.unlink()
	}
	return files
}

// sweep runs at each tick. It closes idle objects and files, and the objects in
// c.left.
func (c *cache) sweep() {
	now := c.tick.Add(1)
	var files []*file
	idle := func(fl *file) bool { return now-fl.used >= idleTicks }
	c.mu.Lock()
	objs := c.left
	c.left = nil
	for o := c.ring.prev; o != &c.ring; {
		prev := o.prev
		if o.refs.Load() == 0 && now-o.used.Load() >= idleTicks {
			c.removeLocked(o)
			objs = append(objs, o)
		} else {
			files = append(files, c.strip(o, idle)...)
		}
		o = prev
	}
	for o := c.pins.prev; o != &c.pins; {
		prev := o.prev
		files = append(files, c.strip(o, idle)...)
		o = prev
	}
	c.mu.Unlock()
	c.closeEach(objs, files)
}

func (c *cache) closeEach(objs []*object, files []*file) {
	for _, o := range objs {
		c.close(o)
	}
	for _, fl := range files {
		c.closeFile(fl)
	}
}
