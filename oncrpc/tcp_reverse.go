package oncrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A tcpReverse makes calls to the client of a server's connection (Caller). The
// calls leave between the replies. The goroutine with the turn to read hands
// over their replies.
//
//	Call ──▶ reply queue ──▶ client ──▶ turn to read ──▶ Call
type tcpReverse struct {
	conn *tcpConn

	mu      sync.Mutex
	closed  error                      // no more calls: why
	xid     uint32                     // of the last call
	waiting map[uint32]*tcpReverseCall // by XID; nil before the first call
	places  chan struct{}              // an element for each call under way
	unsent  chan struct{}              // an element for each call that is not written yet, also if it was given up
}

// A tcpReverseCall is a call that waits for its reply.
type tcpReverseCall struct {
	maxReply int          // bytes of the longest reply
	reply    chan outcome // room for one
}

// ErrReverseLong reports a call to a client that is too long, or may have too
// long a reply: both are short messages, as over RDMA.
var ErrReverseLong = errors.New("oncrpc: reverse call or its reply longer than 4 KiB")

var _ Caller = (*tcpReverse)(nil)

func newReverse(c *tcpConn) *tcpReverse { return &tcpReverse{conn: c} }

// Call makes a call to the client (Caller). Beyond maxReverse calls under way
// it waits. A call fails with ErrClosed when the client has ended its side of
// the connection or the server drains it, because there can be no reply then.
func (v *tcpReverse) Call(ctx context.Context, x *Exchange) error {
	places, err := v.open()
	if err != nil {
		return err
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.conn.ctx.Done():
		return v.over()
	}
	select {
	case v.unsent <- struct{}{}: // tcpConn.done takes it
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.conn.ctx.Done():
		return v.over()
	}
	if ctx.Err() != nil {
		<-v.unsent
		return context.Cause(ctx)
	}
	rc, xid, err := v.begin(x)
	if err != nil {
		<-v.unsent
		return err
	}
	select {
	case o := <-rc.reply:
		return o.deliverTo(x, xid)
	case <-ctx.Done():
		v.forget(rc, xid)
		return context.Cause(ctx)
	case <-v.conn.ctx.Done():
		v.forget(rc, xid)
		return v.over()
	}
}

// open returns the places for calls, or why there are none.
func (v *tcpReverse) open() (chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed != nil {
		return nil, v.closed
	}
	if v.waiting == nil {
		v.waiting = make(map[uint32]*tcpReverseCall)
		v.places, v.unsent = make(chan struct{}, maxReverse), make(chan struct{}, maxReverse)
		v.xid = rand.Uint32() // a client may remember calls of an earlier process
	}
	return v.places, nil
}

// over returns the error of calls on a connection that was cut.
func (v *tcpReverse) over() error {
	return fmt.Errorf("%w: %w", ErrClosed, context.Cause(v.conn.ctx))
}

// begin encodes a call and has it written.
func (v *tcpReverse) begin(x *Exchange) (rc *tcpReverseCall, xid uint32, err error) {
	room, _ := x.ReplyRoom()
	rc = &tcpReverseCall{maxReply: room + x.MaxResults + len(x.Sink) + xdr.Pad(len(x.Sink)), reply: make(chan outcome, 1)}
	c := v.conn
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed != nil {
		return nil, 0, v.closed
	}
	for v.xid++; v.waiting[v.xid] != nil; v.xid++ {
	}
	cl := c.newCall()
	b, item, tail, err := x.AppendMessage(cl.reply.Head, v.xid, "")
	x.Sent() // the few others that it may overtake do not leave a window
	if item != nil {
		b = xdr.AppendFixed(b, item)
	}
	cl.reply.Head = append(b, tail...)
	if err != nil {
		cl.free()
		return nil, 0, err
	}
	if max(len(cl.reply.Head), rc.maxReply) > smallRecord {
		cl.free()
		return nil, 0, ErrReverseLong
	}
	cl.reverse = v
	v.waiting[v.xid] = rc
	c.all.Add(1) // close comes before the wait for all
	c.server.tasks.Go((*tcpReverseSend)(cl))
	return rc, v.xid, nil
}

// A tcpReverseSend is a reverse call to be written. The caller does not write
// it, because a client that takes nothing would hold up the caller beyond the
// end of its context.
type tcpReverseSend tcpCall

// Run writes the call (workpool.Task).
func (s *tcpReverseSend) Run() { s.conn.out.put((*tcpCall)(s), false) }

// forget gives a call up. Its reply is dropped.
func (v *tcpReverse) forget(rc *tcpReverseCall, xid uint32) {
	v.mu.Lock()
	waits := v.waiting[xid] == rc
	delete(v.waiting, xid)
	v.mu.Unlock()
	if waits {
		return
	}
	if o := <-rc.reply; o.record != nil { // already taken by the reader
		o.record.Release()
	}
}

// take takes ownership of a record that is no call, and gives it to the call
// that it answers. A record that answers none is dropped.
func (v *tcpReverse) take(record *buf.Buf) {
	v.mu.Lock()
	xid := binary.BigEndian.Uint32(record.B)
	rc := v.waiting[xid]
	delete(v.waiting, xid)
	v.mu.Unlock()
	switch {
	case rc == nil:
		record.Release()
	case len(record.B) > rc.maxReply:
		n := len(record.B)
		record.Release()
		rc.reply <- outcome{err: fmt.Errorf("%w: a reply of %d bytes to a reverse call that allows %d", errRecordLong, n, rc.maxReply)}
	default:
		rc.reply <- outcome{record: record}
	}
}

// end fails every later call. It returns false if calls are under way, or not written
// yet.
func (v *tcpReverse) end(cause error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.waiting) > 0 || len(v.unsent) > 0 {
		return false
	}
	v.closed = fmt.Errorf("%w: %w", ErrClosed, cause)
	return true
}

// close fails all calls, and every later one.
func (v *tcpReverse) close(cause error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = fmt.Errorf("%w: %w", ErrClosed, cause)
	for _, rc := range v.waiting {
		rc.reply <- outcome{err: v.closed}
	}
	clear(v.waiting)
}

// isReply reports whether a message is an RPC reply. Clients send replies only
// to reverse calls.
func isReply(msg []byte) bool {
	return len(msg) >= 8 && binary.BigEndian.Uint32(msg[4:]) == rpcmsg.MsgReply
}
