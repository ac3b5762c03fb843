package stream

import (
	"net"
	"time"
)

// A deadline is the state for SetReadDeadline or SetWriteDeadline. The stream's
// lock guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
}

// SetDeadline sets both deadlines (net.Conn).
func (c *conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBy, &c.writeBy)
}

// SetReadDeadline makes Read fail from t on (net.Conn).
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBy)
}

// SetWriteDeadline makes Write fail from t on (net.Conn).
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.writeBy)
}

func (c *conn) setDeadlines(t time.Time, all ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, d := range all {
		d.setTime(c, t)
	}
	return nil
}

// setTime sets the deadline to t; the zero Time means none. The caller holds
// c's lock.
func (d *deadline) setTime(c *conn, t time.Time) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.passed = nil, false
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(left, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if d.timer == timer { // no other deadline has been set since
				d.passed = true
				c.changed.Broadcast()
			}
		})
		d.timer = timer
		return
	}
	d.passed = true
	c.changed.Broadcast()
}
