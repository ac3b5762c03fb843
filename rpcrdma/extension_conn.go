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

// An ExtensionConn is a connection between two ends of this project, as seen by the user of
// what they have beside calls: Immediate Data, and atomic operations on words of
// the responder's memory. Its methods may be called by several goroutines.
//
// An ExtensionConn ends with its connection, and the next connection has another: nothing
// that belongs to one is ever told to the ExtensionHandler of another. A call over this
// connection and no other is made by ExtensionConn.Call; the program that serves a call
// finds the ExtensionConn that it came by in oncrpc.Peer (ExtensionConnOf).
//
// Immediate Data comes as question and answer. The responder asks, at most as
// often as the fewer of both ends' receives before it has an answer; the
// requester does nothing but answer. An end that does otherwise loses the
// connection. So the receives that an end has posted for Immediate Data are
// always enough, and those for calls and replies are left alone.
//
//	responder ── question ──▶ requester        questions without an answer:
//	          ◀── answer ────                  0 to Extensions.Immediate
type ExtensionConn struct {
	cfg    *ExtensionConfig
	client *ClientConn // nil at a responder

	// Set before anything comes in.
	conn     rdma.Conn
	block    cmpriv.Extension // this end's
	on       Extensions
	peer     cmpriv.Extension
	ours     bool // the peer is of this project
	counters counters

	mu      sync.Mutex
	open    int              // questions without an answer
	handler ExtensionHandler // nil: no Immediate Data
	started bool             // handler is there, if there is to be one
	over    bool
	cause   error
}

// An ExtensionHandler takes what comes in on an ExtensionConn. Its methods are called one at a
// time.
type ExtensionHandler interface {
	// Immediate takes Immediate Data. It runs on the goroutine that reads the
	// connection, so it must not wait for anything that the peer has yet to
	// send. The receive is posted again already.
	Immediate(octets [8]byte)

	// Closed is called once, when the connection has ended, with the cause:
	// nil or io.EOF after an orderly end, and at a responder rdma.ErrClosed
	// where it was the one that closed it, or ErrBound where that was for want
	// of room. Everything that was posted has
	// completed. It runs on the goroutine that has read the
	// connection, and must not wait for calls of that.
	Closed(error)
}

// Errors of an ExtensionConn.
var (
	// ErrNotAgreed: the operation is not on between these ends.
	ErrNotAgreed = errors.New("rpcrdma: the ends have not agreed on the operation")
	// ErrUnanswered: the peer has no receive for one more question.
	ErrUnanswered = errors.New("rpcrdma: too many questions are unanswered")
	// ErrUnasked: an answer to nothing.
	ErrUnasked = errors.New("rpcrdma: no question is unanswered")
)

func (l *ExtensionConn) responder() bool { return l.client == nil }

// start learns what the peer of the new connection offers. Nothing is received
// before it returns that a requester has not posted receives for.
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

// closed is told of the end of the connection.
func (l *ExtensionConn) closed(cause error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	h, started := l.handler, l.started
	l.over, l.cause = true, cause
	l.mu.Unlock()
	if started { // or start will see to it
		l.end(h, cause)
	}
}

// end tells the handler of the end, and gives back what it may have used until
// then.
func (l *ExtensionConn) end(h ExtensionHandler, cause error) {
	if h != nil {
		h.Closed(cause)
	}
	l.giveBack()
}

// drop is for a connection that was not made.
func (l *ExtensionConn) drop() {
	if l != nil {
		l.giveBack()
	}
}

// Extensions returns what is on.
func (l *ExtensionConn) Extensions() Extensions { return l.on }

// Peer returns the peer's block.
func (l *ExtensionConn) Peer() cmpriv.Extension { return l.peer }

// RemoteAddr returns the peer's network address.
func (l *ExtensionConn) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// Handler returns what Attach has returned; nil where that was not called, or is
// yet to return.
func (l *ExtensionConn) Handler() ExtensionHandler {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handler
}

// Abort ends the connection at once with a cause, and does not wait.
func (l *ExtensionConn) Abort(cause error) { l.conn.Abort(cause) }

var _ oncrpc.Caller = (*ExtensionConn)(nil)

// Call makes a call over the connection of the ExtensionConn, at a requester; it is not made
// again over another: the error wraps rdma.ErrClosed where this one has ended.
func (l *ExtensionConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if l.responder() {
		return fmt.Errorf("%w: a call by a responder", ErrNotAgreed)
	}
	if line := l.client.line; line != nil { // a server that is silent meanwhile loses the connection
		line.begin(x)
		defer line.calls.Add(-1)
	}
	return l.client.Call(ctx, x)
}

// ExtensionConnOf returns the ExtensionConn that a program's caller has come by; nil where there is
// none.
func ExtensionConnOf(p *oncrpc.Peer) *ExtensionConn {
	b, ok := p.Reverse.(*ReverseClient)
	if !ok {
		return nil
	}
	return b.ExtensionConn()
}
