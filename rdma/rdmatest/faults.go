package rdmatest

import "time"

// CutAfter cuts the connection when n more frames have left this end. A work
// request is a frame, and a response another.
func (c *Conn) CutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutAfter = c.sent + n
}

// Delay makes each frame that leaves this end from now on arrive later by d.
func (c *Conn) Delay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

// Pause stops this end from reading until resume is called. The peer's frames
// then wait, and when too many wait, the peer waits too.
func (c *Conn) Pause() (resume func()) {
	paused := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = paused
	return func() { close(paused) }
}

// Recvs returns how many messages this end would take now.
func (c *Conn) Recvs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recvs
}
