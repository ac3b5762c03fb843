package rdmatest

import (
	"errors"
	"time"
)

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

// Causes that end a connection, besides Close, Abort and faults. Both ends get
// the cause: the end that found it, and the other in place of a Terminate.
var (
	// ErrNoRecv means that a Send arrived and no receive was posted.
	ErrNoRecv = errors.New("rdmatest: no receive posted")
	// ErrTooLong means that a Send was longer than the receiver's RecvSize.
	ErrTooLong = errors.New("rdmatest: message too long")
	// ErrAccess means that the STag is unknown, lacks the right, or does not
	// cover the bytes.
	ErrAccess = errors.New("rdmatest: memory access violation")
	// ErrUnaligned means that the address of an atomic operation is not an
	// aligned word.
	ErrUnaligned = errors.New("rdmatest: atomic operation on an unaligned address")
	// ErrCut means that the test cut the connection.
	ErrCut = errors.New("rdmatest: connection cut")
	// ErrRejected means that the listener's user refused the connection.
	ErrRejected = errors.New("rdmatest: connection rejected")
)
