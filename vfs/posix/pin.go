//go:build linux

package posix

// pin keeps o, which is in use and not pinned, until unpin: it does not count
// against the cache's bound.
func (c *cache) pin(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.refs++
	c.repin(o, true)
	c.fds.Add(-1)
}

// unpin leaves what there is to close to the next tick: it may take a disk, and who
// gives a lease back has others to give back.
func (c *cache) unpin(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repin(o, false)
	c.fds.Add(1)
	o.refs--
	o.used = c.tick.Load()
	if o.dead && o.refs == 0 {
		c.left = append(c.left, o)
	}
}

// repin moves o to the ring of those that are pinned, or are not. c.mu is held.
func (c *cache) repin(o *object, pinned bool) {
	o.pinned = pinned
	if !o.dead {
		o.unlink()
		c.link(o)
	}
}
