package rpcrdma

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// PostImmediate sends Immediate Data With Solicited Event, behind everything
// posted before: a question, or an answer. done, if not nil, gets the
// completion when the data has been sent, with id. If the peer has no receive
// for another question, the error is ErrUnanswered; after the end of the
// connection it wraps rdma.ErrClosed; any other error means that the ends have
// not agreed on Immediate Data, or that an answer has no question. done is not
// called then.
//
// The reply to a call is queued when its Reply.Posted has been called.
func (l *ExtensionConn) PostImmediate(word [8]byte, done rdma.Completer, id uint64) error {
	if err := l.tally(l.responder(), ErrUnanswered, errUnasked); err != nil {
		return err
	}
	return l.post(rdma.WR{Op: rdma.OpImmediate, Immediate: word, Solicited: true, Done: done, ID: id})
}

// receive takes Immediate Data. The caller must end the connection on an error.
func (l *ExtensionConn) receive(word [8]byte) error {
	if l == nil {
		return errNotAgreed
	}
	if err := l.tally(!l.responder(), errOverrun, errUnaskedFor); err != nil {
		return err
	}
	if err := l.conn.PostRecv(1); err != nil {
		return err
	}
	l.handler.Immediate(word)
	return nil
}

// takeImmediate takes Immediate Data from a requester's connection.
func (c *ClientConn) takeImmediate(word [8]byte) {
	if err := c.link.receive(word); err != nil {
		c.conn.Abort(err)
	}
}

// tally counts a question or an answer, if it is allowed.
func (l *ExtensionConn) tally(question bool, tooMany, none error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.handler == nil:
		return errNotAgreed
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

// Errors of a peer's Immediate Data that end the connection.
var (
	errOverrun    = errors.New("rpcrdma: the peer sends more queries by Immediate Data than posted receives")
	errUnaskedFor = errors.New("rpcrdma: the peer's Immediate Data answers no query")
)
