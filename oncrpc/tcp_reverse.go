package oncrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A tcpReverse makes calls to the client over a server's connection (Caller). The calls
// are sent between the replies. The goroutine with the turn to read delivers their
// replies.
//
//	Call ──▶ reply queue ──▶ client ──▶ turn to read ──▶ Call
type tcpReverse struct {
	conn *tcpConn

	mu        sync.Mutex
	closedErr error                      // why no more calls are accepted
	lastXID   uint32                     // of the last call
	waiting   map[uint32]*tcpReverseCall // by XID; nil before the first call
	slots     chan struct{}              // an element for each call in flight
	unsent    chan struct{}              // an element for each call that is not written yet, even if it was abandoned
}

// A tcpReverseCall is a call that waits for its reply.
type tcpReverseCall struct {
	maxReply int          // bytes of the longest reply
	reply    chan outcome // capacity 1
}

// ErrReverseLong reports a reverse call that is too long, or whose reply may be: both
// must be short messages, as over RDMA.
var ErrReverseLong = errors.New("oncrpc: reverse call or its reply longer than 4 KiB")

var _ Caller = (*tcpReverse)(nil)

func newReverse(c *tcpConn) *tcpReverse { return &tcpReverse{conn: c} }

// Call makes a call to the client (Caller). With maxReverse calls in flight it waits. A
// call fails with ErrClosed when the client has closed its side or the server drains the
// connection, because then no reply can arrive.
func (v *tcpReverse) Call(ctx context.Context, x *Exchange) error {
	places, err := v.callSlots()
	if err != nil {
		return err
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.conn.ctx.Done():
		return v.connError()
	}
	select {
	case v.unsent <- struct{}{}: // tcpConn.finishCall removes it
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.conn.ctx.Done():
		return v.connError()
	}
	if ctx.Err() != nil {
		<-v.unsent
		return context.Cause(ctx)
	}
	rc, xid, err := v.startCall(x)
	if err != nil {
		<-v.unsent
		return err
	}
	select {
	case o := <-rc.reply:
		return o.deliverTo(x, xid)
	case <-ctx.Done():
		v.abandonCall(rc, xid)
		return context.Cause(ctx)
	case <-v.conn.ctx.Done():
		v.abandonCall(rc, xid)
		return v.connError()
	}
}

// callSlots returns the slots for calls, or an error if the connection is closed.
func (v *tcpReverse) callSlots() (chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closedErr != nil {
		return nil, v.closedErr
	}
	if v.waiting == nil {
		v.waiting = make(map[uint32]*tcpReverseCall)
		v.slots, v.unsent = make(chan struct{}, maxReverse), make(chan struct{}, maxReverse)
		v.lastXID = rand.Uint32() // a client may remember calls from an earlier process
	}
	return v.slots, nil
}

// connError returns the error for calls on an aborted connection.
func (v *tcpReverse) connError() error {
	return fmt.Errorf("%w: %w", ErrClosed, context.Cause(v.conn.ctx))
}

// startCall encodes a call and queues it.
func (v *tcpReverse) startCall(x *Exchange) (rc *tcpReverseCall, xid uint32, err error) {
	overhead, _ := x.ReplyOverhead()
	rc = &tcpReverseCall{maxReply: overhead + x.MaxResults + len(x.Sink) + xdr.Pad(len(x.Sink)), reply: make(chan outcome, 1)}
	c := v.conn
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closedErr != nil {
		return nil, 0, v.closedErr
	}
	for v.lastXID++; v.waiting[v.lastXID] != nil; v.lastXID++ {
	}
	cl := c.newCall()
	b, item, tail, err := x.AppendMessage(cl.reply.Head, v.lastXID, "")
	x.Sent() // it overtakes too few others to leave a sequence window
	if item != nil {
		b = xdr.AppendFixed(b, item)
	}
	cl.reply.Head = append(b, tail...)
	if err != nil {
		cl.recycle()
		return nil, 0, err
	}
	if max(len(cl.reply.Head), rc.maxReply) > smallRecord {
		cl.recycle()
		return nil, 0, ErrReverseLong
	}
	cl.reverse = v
	v.waiting[v.lastXID] = rc
	c.activeCalls.Add(1) // failCalls precedes the wait for activeCalls
	c.server.tasks.Go((*tcpReverseSend)(cl))
	return rc, v.lastXID, nil
}

// A tcpReverseSend is a reverse call to be written. The caller does not write it, because
// a client that reads nothing would block the caller beyond the end of its context.
type tcpReverseSend tcpCall

// Run writes the call (workpool.Task).
func (s *tcpReverseSend) Run() { s.conn.out.put((*tcpCall)(s), false) }

// abandonCall gives a call up. Its reply is discarded.
func (v *tcpReverse) abandonCall(rc *tcpReverseCall, xid uint32) {
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

// deliverReply takes ownership of a reply record, and passes it to its call. A record
// without a call is discarded.
func (v *tcpReverse) deliverReply(record *buf.Buf) {
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

// closeIfIdle makes every later call fail. It returns false if calls are in flight, or
// not written yet.
func (v *tcpReverse) closeIfIdle(cause error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.waiting) > 0 || len(v.unsent) > 0 {
		return false
	}
	v.closedErr = fmt.Errorf("%w: %w", ErrClosed, cause)
	return true
}

// failCalls makes all calls fail, and every later one.
func (v *tcpReverse) failCalls(cause error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closedErr = fmt.Errorf("%w: %w", ErrClosed, cause)
	for _, rc := range v.waiting {
		rc.reply <- outcome{err: v.closedErr}
	}
	clear(v.waiting)
}

// isReply reports whether a message is an RPC reply. Clients send replies only
// to reverse calls.
func isReply(msg []byte) bool {
	return len(msg) >= 8 && binary.BigEndian.Uint32(msg[4:]) == rpcmsg.MsgReply
}
