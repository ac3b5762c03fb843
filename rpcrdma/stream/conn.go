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

// A conn is a connection of a Listener: the server reads calls and
// writes replies. Data is stored only in the calls under way.
//
//	Service.Serve ──put──▶ unread ──Read──▶ ┌────────────┐
//	      ▲                                  │ the server │
//	      └──done── replyRecord ◀──Write──── └────────────┘
//
// Write never waits: a reply is stored in the call that it answers, and there
// are no more calls than the requester has credits.
type conn struct {
	peer  *oncrpc.Peer
	under rpcrdma.PeerConn
	log   func() *slog.Logger

	local, remote net.Addr

	mu      sync.Mutex
	moved   sync.Cond // a condition that Read waits for has changed
	unread  []*call
	pending map[uint32]*call // calls without a reply, by their XIDs
	in      replyRecord
	closed  bool  // by Close
	err     error // why the connection ended: io.EOF if the requester closed it

	readBy, writeBy deadline
}

var _ net.Conn = (*conn)(nil)

// network is the name of this transport in errors.
const network = "rdma"

func newConn(peer *oncrpc.Peer, under rpcrdma.PeerConn, log func() *slog.Logger) *conn {
	c := &conn{
		peer: peer, under: under, log: log, local: under.LocalAddr(), remote: under.RemoteAddr(),
		pending: make(map[uint32]*call),
	}
	c.moved.L = &c.mu
	return c
}

// put appends cl to the calls to be read. It returns false if the connection
// has ended, or if the requester waits for the reply to another call of the
// same XID.
func (c *conn) put(cl *call, req *oncrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.pending[cl.xid] != nil {
		return false
	}
	cl.record(req)
	c.pending[cl.xid] = cl
	c.unread = append(c.unread, cl)
	c.moved.Signal()
	return true
}

// Read reads bytes of the calls (net.Conn). The error is io.EOF if the
// requester has closed the connection.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.fault("read", net.ErrClosed)
		case c.readBy.passed:
			return 0, c.fault("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case len(c.unread) > 0:
			return c.read(p), nil
		case c.err == io.EOF:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.fault("read", c.err)
		}
		c.moved.Wait()
	}
}

// read copies the unread part of the first call's record.
func (c *conn) read(p []byte) int {
	cl := c.unread[0]
	n := cl.read(p)
	if cl.isRead() {
		c.unread = slices.Delete(c.unread, 0, 1)
		cl.tell()
	}
	if len(c.unread) > 0 {
		c.moved.Signal() // for another reader
	}
	return n
}

// Write takes bytes of the replies (net.Conn). It does not wait. Bytes that are
// no replies end the connection.
func (c *conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, c.fault("write", net.ErrClosed)
	case c.writeBy.passed:
		return 0, c.fault("write", os.ErrDeadlineExceeded)
	case c.err != nil:
		return 0, c.fault("write", rdma.ErrClosed)
	}
	if n, err = c.in.parse(c, p); err != nil {
		c.end(err)
		c.log().Warn("connection closed: the server behind has sent no reply", "peer", c.peer, "err", err)
		c.under.Drain()
		err = c.fault("write", err)
	}
	return n, err
}

// answered notes that the reply to cl is complete.
func (c *conn) answered(cl *call) {
	delete(c.pending, cl.xid)
	cl.replied = true
	cl.tell()
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
	c.readBy.set(c, time.Time{})
	c.writeBy.set(c, time.Time{})
	c.end(net.ErrClosed)
	c.under.Drain()
	return nil
}

// lost handles the end of the connection under the stream.
func (c *conn) lost(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(cause, context.Canceled) { // closed without a cause
		cause = io.EOF
	}
	c.end(cause)
}

// end completes all calls. Only the first cause is kept. The caller holds the
// lock.
func (c *conn) end(cause error) {
	if c.err != nil {
		return
	}
	c.err = cause
	for _, cl := range c.unread {
		if cl.replied { // and so not pending; no reader will take it any more
			cl.done <- true
		}
	}
	for _, cl := range c.pending {
		cl.done <- false
	}
	c.unread, c.pending, c.in = nil, nil, replyRecord{}
	c.moved.Broadcast()
}

// LocalAddr returns the provider's address of this end.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the provider's address of the requester.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// fault makes an error of the connection.
func (c *conn) fault(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
