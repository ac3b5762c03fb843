package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// An ExtensionConn is the view of a connection between two ends of this project
// for the user of the extensions: Immediate Data, and atomic operations on
// words of the responder's memory. Its methods are safe for concurrent use.
//
// An ExtensionConn ends with its connection, and the next connection has
// another: an ExtensionHandler never receives events of another ExtensionConn.
// ExtensionConn.Call makes a call over this connection only. The program that
// serves a call finds the ExtensionConn of the call's connection in oncrpc.Peer
// (ExtensionConnOf).
//
// Immediate Data comes as question and answer. The responder asks; its
// unanswered questions are at most the lower of both ends' receives. The
// requester only answers. An end that violates this loses the connection. The
// receives that an end has posted for Immediate Data therefore always suffice,
// and those for calls and replies are not used.
//
//	responder ── question ──▶ requester        questions without an answer:
//	          ◀── answer ────                  0 to Extensions.Immediate
type ExtensionConn struct {
	cfg    *ExtensionConfig
	client *ClientConn // nil at a responder

	// Set before anything is received.
	conn     rdma.Conn
	block    cmpriv.Extension // the block of this end
	on       Extensions
	peer     cmpriv.Extension
	ours     bool // the peer is of this project
	counters counters

	mu      sync.Mutex
	open    int              // questions without an answer
	handler ExtensionHandler // nil: no Immediate Data
	started bool             // start has set handler
	over    bool
	cause   error
}

// An ExtensionHandler handles the events of an ExtensionConn. Its methods are
// called one at a time.
type ExtensionHandler interface {
	// Immediate takes Immediate Data. It runs on the goroutine that reads the
	// connection, so it must not wait for anything that the peer has yet to
	// send. The receive has already been posted again.
	Immediate(word [8]byte)

	// Closed is called once, when the connection has ended, with the cause: nil
	// or io.EOF after an orderly end. At a responder, the cause is
	// rdma.ErrClosed if the responder closed the connection, or ErrBound if it
	// did so for lack of room. All posted work has completed. Closed runs on
	// the goroutine that has read the connection, and must not wait for calls
	// of that connection.
	Closed(error)
}

// Errors of an ExtensionConn.
var (
	// errNotAgreed means that the operation is not on between these ends.
	errNotAgreed = errors.New("rpcrdma: the ends have not agreed on the operation")
	// ErrUnanswered means that the peer has no receive for another question.
	ErrUnanswered = errors.New("rpcrdma: too many questions are unanswered")
	// errUnasked means that an answer has no question.
	errUnasked = errors.New("rpcrdma: no question is unanswered")
)

func (l *ExtensionConn) responder() bool { return l.client == nil }

// start reads the offers of the new connection's peer, and attaches the
// handler. Nothing is received before the handler is set: a requester has
// posted no receives yet, and Receive of a responder waits.
func (l *ExtensionConn) start(conn rdma.Conn) {
	if l == nil {
		return
	}
	l.conn = conn
	if l.peer, l.ours = cmpriv.ParseExtension(conn.PrivateData()); l.ours {
		l.on = agree(l.block, l.peer, depth(conn, l.responder()))
		l.on.Delegation = l.on.Delegation && (l.responder() || l.counts())
	}
	var h ExtensionHandler
	if l.on.Immediate > 0 {
		h = l.cfg.Attach(l)
	}
	l.mu.Lock()
	l.handler, l.started = h, true
	over, cause := l.over, l.cause
	l.mu.Unlock()
	switch {
	case over:
		l.end(h, cause)
	case h != nil && !l.responder():
		_ = conn.PostRecv(l.cfg.ImmediateRecvs) // an error means that the connection ends
	}
}

// closed handles the end of the connection.
func (l *ExtensionConn) closed(cause error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	h, started := l.handler, l.started
	l.over, l.cause = true, cause
	l.mu.Unlock()
	if started { // otherwise start calls end
		l.end(h, cause)
	}
}

// end calls the handler's Closed, and then frees the counters, which the
// handler may use until Closed returns.
func (l *ExtensionConn) end(h ExtensionHandler, cause error) {
	if h != nil {
		h.Closed(cause)
	}
	l.giveBack()
}

// drop frees the counters of a connection that was not made.
func (l *ExtensionConn) drop() {
	if l != nil {
		l.giveBack()
	}
}

// Extensions returns the extensions that are on.
func (l *ExtensionConn) Extensions() Extensions { return l.on }

// Peer returns the peer's block.
func (l *ExtensionConn) Peer() cmpriv.Extension { return l.peer }

// RemoteAddr returns the peer's network address.
func (l *ExtensionConn) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// Handler returns the result of Attach, or nil if Attach was not called or has
// not returned.
func (l *ExtensionConn) Handler() ExtensionHandler {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handler
}

// Abort ends the connection at once with a cause, and does not wait.
func (l *ExtensionConn) Abort(cause error) { l.conn.Abort(cause) }

var _ oncrpc.Caller = (*ExtensionConn)(nil)

// Call makes a call over this connection, at a requester. The call is not
// repeated over another connection: if this one has ended, the error wraps
// rdma.ErrClosed.
func (l *ExtensionConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if l.responder() {
		return fmt.Errorf("%w: a call by a responder", errNotAgreed)
	}
	if line := l.client.line; line != nil { // a server that is silent meanwhile must lose the connection
		line.Begin(x)
		defer line.End()
	}
	return l.client.Call(ctx, x)
}

// ExtensionConnOf returns the ExtensionConn of the connection that a program's
// caller used, or nil if there is none.
func ExtensionConnOf(p *oncrpc.Peer) *ExtensionConn {
	b, ok := p.Reverse.(*ReverseClient)
	if !ok {
		return nil
	}
	return b.ExtensionConn()
}

// Atomic posts a FetchAdd or CompareSwap, with the operands a, on a word of the
// responder's memory; done gets the completion, with id. An error wraps
// rdma.ErrClosed, or means that the ends have not agreed on op; done is not
// called then.
//
// done is called exactly once, before ExtensionHandler.Closed. Completions come
// in the order of posting, and only after ExtensionHandler.Immediate was called
// for everything that arrived before the answer. Any goroutine may call done,
// and data that arrived after the answer may be delivered at the same time.
//
// An operation queues with the calls, behind everything posted before it, and
// the peer's NIC answers it. Atomic allocates nothing. If more operations are
// posted than the peer serves at a time (rdma.ReadDepth), later work requests
// wait.
func (l *ExtensionConn) Atomic(op rdma.Op, word rdma.Remote, a rdma.Atomic, done rdma.Completer, id uint64) error {
	if !l.on.Atomics || l.responder() || !op.Atomic() {
		return errNotAgreed
	}
	return l.post(rdma.WR{Op: op, Remote: word, Atomic: a, Done: done, ID: id})
}

// works holds work requests between two posts, because a slice passed through
// an interface would be allocated.
var works = sync.Pool{New: func() any { return new([1]rdma.WR) }}

// post posts one work request.
func (l *ExtensionConn) post(wr rdma.WR) error {
	w := works.Get().(*[1]rdma.WR)
	w[0] = wr
	err := l.conn.Post(w[:]...)
	w[0] = rdma.WR{}
	works.Put(w)
	return err
}
