package stream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A conn is a Listener's connection: the server reads calls and writes replies.
// Data is stored only in the calls in flight.
//
//	Service.Serve ─putCall─▶ unread ──Read──▶ ┌────────────┐
//	      ▲                                  │ the server │
//	      └──done── replyParser ◀──Write──── └────────────┘
//
// Write never blocks: a reply is stored in the call that it answers, and there
// are no more calls than the requester has credits.
type conn struct {
	peer  *oncrpc.Peer
	below rpcrdma.PeerConn
	log   func() *slog.Logger

	local, remote net.Addr

	mu      sync.Mutex
	changed sync.Cond // a condition that Read waits for has changed
	unread  []*call
	pending map[uint32]*call // calls without a reply, by their XIDs
	replies replyParser
	closed  bool  // set by Close
	err     error // why the connection ended: io.EOF if the requester closed it

	readBy, writeBy deadline
}

var _ net.Conn = (*conn)(nil)

// network is this transport's name in errors.
const network = "rdma"

func newConn(peer *oncrpc.Peer, under rpcrdma.PeerConn, log func() *slog.Logger) *conn {
	c := &conn{
		peer: peer, below: under, log: log, local: under.LocalAddr(), remote: under.RemoteAddr(),
		pending: make(map[uint32]*call),
	}
	c.changed.L = &c.mu
	return c
}

// putCall appends cl to the calls to be read. It returns false if the
// connection has ended, or if the requester waits for the reply to another call
// with the same XID.
func (c *conn) putCall(cl *call, req *oncrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.pending[cl.xid] != nil {
		return false
	}
	cl.buildRecord(req)
	c.pending[cl.xid] = cl
	c.unread = append(c.unread, cl)
	c.changed.Signal()
	return true
}

// Read reads call bytes (net.Conn). The error is io.EOF if the requester has
// closed the connection.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case c.readBy.passed:
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case len(c.unread) > 0:
			return c.readFirst(p), nil
		case c.err == io.EOF:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.opError("read", c.err)
		}
		c.changed.Wait()
	}
}

// readFirst copies the unread part of the first call's record to p.
func (c *conn) readFirst(p []byte) int {
	cl := c.unread[0]
	n := cl.readRecord(p)
	if cl.isRead() {
		c.unread = slices.Delete(c.unread, 0, 1)
		cl.completeIfDone()
	}
	if len(c.unread) > 0 {
		c.changed.Signal() // for another reader
	}
	return n
}

// Write accepts reply bytes (net.Conn). It does not block. Bytes that do not
// form replies terminate the connection.
func (c *conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, c.opError("write", net.ErrClosed)
	case c.writeBy.passed:
		return 0, c.opError("write", os.ErrDeadlineExceeded)
	case c.err != nil:
		return 0, c.opError("write", rdma.ErrClosed)
	}
	if n, err = c.replies.parseBytes(c, p); err != nil {
		c.endCalls(err)
		c.log().Warn("connection closed: the TCP server has sent a message that is not a reply", "peer", c.peer, "err", err)
		c.below.Drain()
		err = c.opError("write", err)
	}
	return n, err
}

// completeReply records that the reply to cl is complete.
func (c *conn) completeReply(cl *call) {
	delete(c.pending, cl.xid)
	cl.replied = true
	cl.completeIfDone()
}

// Close closes the connection (net.Conn): written replies are sent, and
// unanswered calls stay unanswered.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.readBy.setTime(c, time.Time{})
	c.writeBy.setTime(c, time.Time{})
	c.endCalls(net.ErrClosed)
	c.below.Drain()
	return nil
}

// handleLost handles the end of the RDMA connection.
func (c *conn) handleLost(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(cause, context.Canceled) { // closed without a cause
		cause = io.EOF
	}
	c.endCalls(cause)
}

// endCalls completes all calls. Only the first cause is kept. The caller holds the lock.
func (c *conn) endCalls(cause error) {
	if c.err != nil {
		return
	}
	c.err = cause
	for _, cl := range c.unread {
		if cl.replied { // and so not pending; no reader will consume it
			cl.done <- true
		}
	}
	for _, cl := range c.pending {
		cl.done <- false
	}
	c.unread, c.pending, c.replies = nil, nil, replyParser{}
	c.changed.Broadcast()
}

// LocalAddr returns the provider's local address.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the provider's address for the requester.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// opError returns a net.OpError for the connection.
func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
