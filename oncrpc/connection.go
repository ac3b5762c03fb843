package oncrpc

import "sync/atomic"

// A Connection identifies a Peer's connection, and reports whether it still exists. After
// End it holds none of the connection's resources, so that a replay.Cache can keep it
// longer than the connection itself. Its methods are safe for concurrent use.
type Connection struct{ lost atomic.Pointer[func() bool] }

// NewConnection returns a Connection that has not ended. lost reports whether the peer
// seems to have abandoned the connection before the local end has noticed; nil means that
// the transport cannot tell. lost must not block.
func NewConnection(lost func() bool) *Connection {
	if lost == nil {
		lost = func() bool { return false }
	}
	c := new(Connection)
	c.lost.Store(&lost)
	return c
}

// End records that the connection has ended, or that the peer sends no further calls
// on it.
func (c *Connection) End() { c.lost.Store(nil) }

// HasEnded reports whether End has been called.
func (c *Connection) HasEnded() bool { return c.lost.Load() == nil }

// IsLost reports whether the connection has ended, or whether the peer seems to have
// given it up. It may make system calls.
func (c *Connection) IsLost() bool {
	lost := c.lost.Load()
	return lost == nil || (*lost)()
}
