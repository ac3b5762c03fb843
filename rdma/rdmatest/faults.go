package rdmatest

import (
	"errors"
	"time"
)

// CutAfter cuts the connection after this end has sent n more frames. Each work
// request and each response is a frame.
func (c *Conn) CutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutAfter = c.sentFrames + n
}

// Delay delays the arrival of each further frame from this end by d.
func (c *Conn) Delay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

// Pause stops this end from reading until resume is called. The peer's frames
// are then queued, and when too many are queued, the peer blocks too.
func (c *Conn) Pause() (resume func()) {
	paused := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = paused
	return func() { close(paused) }
}

// Recvs returns the number of posted receives.
func (c *Conn) Recvs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recvs
}

// Causes that close a connection, besides Close, Abort and faults. Both ends
// get the cause: the end that detected it, and the other in place of a
// Terminate.
var (
	// ErrNoRecv means that a Send arrived and no receive was posted.
	ErrNoRecv = errors.New("rdmatest: no receive posted")
	// ErrTooLong means that a Send was longer than the receiver's RecvSize.
	ErrTooLong = errors.New("rdmatest: message too long")
	// ErrAccess means that the STag is unknown, does not permit the access, or
	// does not cover the bytes.
	ErrAccess = errors.New("rdmatest: memory access violation")
	// ErrUnaligned means that an atomic operation's address is not an aligned
	// word.
	ErrUnaligned = errors.New("rdmatest: atomic operation on an unaligned address")
	// ErrCut means that the test cut the connection.
	ErrCut = errors.New("rdmatest: connection cut")
	// ErrRejected means that the listener's user rejected the connection.
	ErrRejected = errors.New("rdmatest: connection rejected")
)
