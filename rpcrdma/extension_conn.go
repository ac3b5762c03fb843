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

// An ExtensionConn gives access to the extensions on a connection between two
// ends of this project: Immediate Data, and atomic operations on words in the
// responder's memory. Its methods are safe for concurrent use.
//
// An ExtensionConn ends with its connection, and the next connection has
// another: an ExtensionHandler never receives events from another
// ExtensionConn. ExtensionConn.Call sends a call only over this connection. The
// program that serves a call finds the ExtensionConn for the call's connection
// in oncrpc.Peer (ExtensionConnOf).
//
// Immediate Data is exchanged as questions and answers. The responder sends
// questions; the number of unanswered ones is at most the lower of both ends'
// receives. The requester only answers. If an end violates this, the connection
// is aborted. The receives that an end has posted for Immediate Data therefore
// always suffice, and those for calls and replies are not used.
//
//	responder ── question ──▶ requester        unanswered questions:
//	          ◀── answer ────                  0 to Extensions.Immediate
type ExtensionConn struct {
	cfg    *ExtensionConfig
	client *ClientConn // nil at a responder

	// Set before anything is received.
	conn       rdma.Conn
	block      cmpriv.Extension // this end's block
	agreed     Extensions
	peer       cmpriv.Extension
	peerIsOurs bool // the peer belongs to this project
	counters   counters

	mu            sync.Mutex
	openQuestions int              // number of unanswered questions
	handler       ExtensionHandler // nil: no Immediate Data
	started       bool             // startExtensions has set handler
	ended         bool
	cause         error
}

// An ExtensionHandler handles an ExtensionConn's events. Its methods are called
// one at a time.
type ExtensionHandler interface {
	// Immediate receives Immediate Data. It runs on the goroutine that reads
	// the connection, so it must not wait for anything that the peer has yet to
	// send. The receive has already been posted again.
	Immediate(word [8]byte)

	// Closed is called once, when the connection has ended, with the cause: nil
	// or io.EOF after an orderly close. At a responder, the cause is
	// rdma.ErrClosed if the responder closed the connection, or ErrBound if it
	// did so to enforce a limit. All posted work has completed. Closed runs on
	// the goroutine that has read the connection, and must not wait for that
	// connection's calls.
	Closed(error)
}

// ExtensionConn errors.
var (
	// errNotAgreed means that the operation is not enabled between these ends.
	errNotAgreed = errors.New("rpcrdma: the ends have not agreed on the operation")
	// ErrUnanswered means that the peer has no receive for another question.
	ErrUnanswered = errors.New("rpcrdma: too many questions are unanswered")
	// errUnasked means that there is no question to answer.
	errUnasked = errors.New("rpcrdma: no question is unanswered")
)

func (l *ExtensionConn) isResponder() bool { return l.client == nil }

// startExtensions parses the offers from the new connection's peer, and
// attaches the handler. Nothing is received before the handler is set: a
// requester has posted no receives yet, and a responder's Receive waits.
func (l *ExtensionConn) startExtensions(conn rdma.Conn) {
	if l == nil {
		return
	}
	l.conn = conn
	if l.peer, l.peerIsOurs = cmpriv.ParseExtension(conn.PrivateData()); l.peerIsOurs {
		l.agreed = agreedExtensions(l.block, l.peer, atomicDepth(conn, l.isResponder()))
		l.agreed.Delegation = l.agreed.Delegation && (l.isResponder() || l.hasPlausibleCounters())
	}
	var h ExtensionHandler
	if l.agreed.Immediate > 0 {
		h = l.cfg.Attach(l)
	}
	l.mu.Lock()
	l.handler, l.started = h, true
	over, cause := l.ended, l.cause
	l.mu.Unlock()
	switch {
	case over:
		l.callClosed(h, cause)
	case h != nil && !l.isResponder():
		_ = conn.PostRecv(l.cfg.ImmediateRecvs) // an error means that the connection ends
	}
}

// handleClosed handles the connection's end.
func (l *ExtensionConn) handleClosed(cause error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	h, started := l.handler, l.started
	l.ended, l.cause = true, cause
	l.mu.Unlock()
	if started { // otherwise startExtensions calls callClosed
		l.callClosed(h, cause)
	}
}

// callClosed calls the handler's Closed, and then frees the counters, which the
// handler may use until Closed returns.
func (l *ExtensionConn) callClosed(h ExtensionHandler, cause error) {
	if h != nil {
		h.Closed(cause)
	}
	l.freeCounters()
}

// freeUnused frees the counters for a connection that was not established.
func (l *ExtensionConn) freeUnused() {
	if l != nil {
		l.freeCounters()
	}
}

// Extensions returns the enabled extensions.
func (l *ExtensionConn) Extensions() Extensions { return l.agreed }

// Peer returns the peer's block.
func (l *ExtensionConn) Peer() cmpriv.Extension { return l.peer }

// RemoteAddr returns the peer's network address.
func (l *ExtensionConn) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// Handler returns Attach's result, or nil if Attach was not called or has not
// returned.
func (l *ExtensionConn) Handler() ExtensionHandler {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handler
}

// Abort aborts the connection with a cause, and does not wait.
func (l *ExtensionConn) Abort(cause error) { l.conn.Abort(cause) }

var _ oncrpc.Caller = (*ExtensionConn)(nil)

// Call sends a call over this connection and waits for the reply, at a
// requester. The call is not retransmitted over another connection: if this one
// has ended, the error wraps rdma.ErrClosed.
func (l *ExtensionConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if l.isResponder() {
		return fmt.Errorf("%w: a call by a responder", errNotAgreed)
	}
	if line := l.client.line; line != nil { // if the server is silent during the call, the connection must be dropped
		line.Begin(x)
		defer line.End()
	}
	return l.client.Call(ctx, x)
}

// ExtensionConnOf returns the ExtensionConn for the connection that a program's
// caller used, or nil if there is none.
func ExtensionConnOf(p *oncrpc.Peer) *ExtensionConn {
	b, ok := p.Reverse.(*ReverseClient)
	if !ok {
		return nil
	}
	return b.ExtensionConn()
}

// Atomic posts a FetchAdd or CompareSwap, with the operands a, on a word in the
// responder's memory; done receives the completion, with id. An error wraps
// rdma.ErrClosed, or means that the ends have not agreed on op; done is not
// called then.
//
// done is called exactly once, before ExtensionHandler.Closed. Completions
// arrive in posting order, and only after ExtensionHandler.Immediate was called
// for everything that arrived before the response. Any goroutine may call done,
// and data that arrived after the response may be delivered concurrently.
//
// An operation is queued with the calls, after everything posted before it, and
// the peer's NIC responds to it. Atomic allocates nothing. If more operations
// are posted than the peer serves at a time (rdma.ReadDepth), later work
// requests wait.
func (l *ExtensionConn) Atomic(op rdma.Op, word rdma.Remote, a rdma.Atomic, done rdma.Completer, id uint64) error {
	if !l.agreed.Atomics || l.isResponder() || !op.Atomic() {
		return errNotAgreed
	}
	return l.postWork(rdma.WR{Op: op, Remote: word, Atomic: a, Done: done, ID: id})
}

// workRequests pools work requests, because a slice passed through an interface would be allocated.
var workRequests = sync.Pool{New: func() any { return new([1]rdma.WR) }}

// postWork posts one work request.
func (l *ExtensionConn) postWork(wr rdma.WR) error {
	w := workRequests.Get().(*[1]rdma.WR)
	w[0] = wr
	err := l.conn.Post(w[:]...)
	w[0] = rdma.WR{}
	workRequests.Put(w)
	return err
}
