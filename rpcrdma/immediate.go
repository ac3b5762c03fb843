package rpcrdma

import (
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Link is a connection between two ends of this project, as seen by the user of
// what they have beside calls: Immediate Data, and atomic operations on words of
// the responder's memory. Its methods may be called by several goroutines.
//
// Immediate Data comes as question and answer. The responder asks, at most as
// often as the fewer of both ends' receives before it has an answer; the
// requester does nothing but answer. An end that does otherwise loses the
// connection. So the receives that an end has posted for Immediate Data are
// always enough, and those for calls and replies are left alone.
//
//	responder ── question ──▶ requester        questions without an answer:
//	          ◀── answer ────                  0 to Extensions.Immediate
type Link struct {
	cfg       *ExtensionConfig
	responder bool

	// Set before anything comes in.
	conn rdma.Conn
	on   Extensions
	peer cmpriv.Extension
	ours bool // the peer is of this project

	mu      sync.Mutex
	open    int         // questions without an answer
	handler LinkHandler // nil: no Immediate Data
	over    bool
	cause   error
}

// A LinkHandler takes what comes in on a Link. Its methods are called one at a
// time.
type LinkHandler interface {
	// Immediate takes Immediate Data. It runs on the goroutine that reads the
	// connection, so it must not wait for anything that the peer has yet to
	// send. The receive is posted again already.
	Immediate(octets [8]byte)

	// Closed is called once, when the connection has ended, with the cause.
	Closed(error)
}

// Errors of a Link.
var (
	// ErrNotAgreed: the operation is not on between these ends.
	ErrNotAgreed = errors.New("rpcrdma: the ends have not agreed on the operation")
	// ErrUnanswered: the peer has no receive for one more question.
	ErrUnanswered = errors.New("rpcrdma: too many questions are unanswered")
	// ErrUnasked: an answer to nothing.
	ErrUnasked = errors.New("rpcrdma: no question is unanswered")
)

// start learns what the peer of the new connection offers. Nothing is received
// before it returns that a requester has not posted receives for.
func (l *Link) start(conn rdma.Conn) {
	if l == nil {
		return
	}
	l.conn = conn
	if l.peer, l.ours = cmpriv.ParseExtension(conn.PrivateData()); !l.ours {
		return
	}
	l.on = agree(l.cfg.block(), l.peer, depth(conn, l.responder))
	if l.on.Immediate == 0 {
		return
	}
	h := l.cfg.Attach(l)
	l.mu.Lock()
	l.handler = h
	over, cause := l.over, l.cause
	l.mu.Unlock()
	if over {
		h.Closed(cause)
		return
	}
	if !l.responder {
		_ = conn.PostRecv(l.cfg.ImmediateRecvs) // an error means that the connection ends
	}
}

// closed is told of the end of the connection.
func (l *Link) closed(cause error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	h := l.handler
	l.over, l.cause = true, cause
	l.mu.Unlock()
	if h != nil {
		h.Closed(cause)
	}
}

// Extensions returns what is on.
func (l *Link) Extensions() Extensions { return l.on }

// Peer returns the peer's block.
func (l *Link) Peer() cmpriv.Extension { return l.peer }

// PostImmediate sends Immediate Data With Solicited Event, behind all that was
// posted before: a question, or an answer. done, if not nil, is told when it has
// been sent, with id. The error is ErrNotAgreed, ErrUnanswered, ErrUnasked, or
// wraps rdma.ErrClosed.
func (l *Link) PostImmediate(octets [8]byte, done rdma.Completer, id uint64) error {
	if err := l.count(l.responder, ErrUnanswered, ErrUnasked); err != nil {
		return err
	}
	return l.conn.Post(rdma.WR{Op: rdma.OpImmediate, Immediate: octets, Solicited: true, Done: done, ID: id})
}

// receive takes Immediate Data. An error is reason to end the connection.
func (l *Link) receive(octets [8]byte) error {
	if l == nil {
		return ErrNotAgreed
	}
	if err := l.count(!l.responder, errOverrun, errUnaskedFor); err != nil {
		return err
	}
	if err := l.conn.PostRecv(1); err != nil {
		return err
	}
	l.handler.Immediate(octets)
	return nil
}

// takeImmediate takes what came in on a requester's connection.
func (c *Client) takeImmediate(octets [8]byte) {
	if err := c.link.receive(octets); err != nil {
		c.conn.Abort(err)
	}
}

// count counts a question or an answer, if there may be one.
func (l *Link) count(question bool, tooMany, none error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.handler == nil:
		return ErrNotAgreed
	case question && l.open == l.on.Immediate:
		return tooMany
	case question:
		l.open++
	case l.open == 0:
		return none
	default:
		l.open--
	}
	return nil
}

// Atomic posts a FetchAdd or CompareSwap, with the operands a, on a word of the
// responder's memory; done is told of its completion, with id. The error is
// ErrNotAgreed, or wraps rdma.ErrClosed.
func (l *Link) Atomic(op rdma.Op, word rdma.Remote, a rdma.Atomic, done rdma.Completer, id uint64) error {
	if !l.on.Atomics || l.responder || !op.Atomic() {
		return ErrNotAgreed
	}
	return l.conn.Post(rdma.WR{Op: op, Remote: word, Atomic: a, Done: done, ID: id})
}

// Why a peer's Immediate Data ends the connection.
var (
	errOverrun    = errors.New("rpcrdma: the peer asks more questions by Immediate Data than there are receives")
	errUnaskedFor = errors.New("rpcrdma: the peer answers by Immediate Data what was not asked")
)
