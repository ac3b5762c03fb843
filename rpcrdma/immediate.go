package rpcrdma

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// PostImmediate sends Immediate Data With Solicited Event, after everything
// posted before: a question, or an answer. done, if not nil, receives the
// completion when the data has been sent, with id. If the peer has no receive
// for another question, the error is ErrUnanswered; after the connection has
// ended it wraps rdma.ErrClosed; any other error means that the ends have not
// agreed on Immediate Data, or that an answer has no question. done is not
// called then.
//
// The reply to a call is queued when its Reply.Posted has been called.
func (l *ExtensionConn) PostImmediate(word [8]byte, done rdma.Completer, id uint64) error {
	if err := l.countQuestion(l.isResponder(), ErrUnanswered, errUnasked); err != nil {
		return err
	}
	return l.postWork(rdma.WR{Op: rdma.OpImmediate, Immediate: word, Solicited: true, Done: done, ID: id})
}

// receiveImmediate receives Immediate Data. The caller must abort the connection on an error.
func (l *ExtensionConn) receiveImmediate(word [8]byte) error {
	if l == nil {
		return errNotAgreed
	}
	if err := l.countQuestion(!l.isResponder(), errOverrun, errUnaskedFor); err != nil {
		return err
	}
	if err := l.conn.PostRecv(1); err != nil {
		return err
	}
	l.handler.Immediate(word)
	return nil
}

// receiveImmediate receives Immediate Data on a requester's connection.
func (c *ClientConn) receiveImmediate(word [8]byte) {
	if err := c.extConn.receiveImmediate(word); err != nil {
		c.conn.Abort(err)
	}
}

// countQuestion counts a question or an answer, if it is allowed.
func (l *ExtensionConn) countQuestion(question bool, tooMany, none error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.handler == nil:
		return errNotAgreed
	case question && l.openQuestions == l.agreed.Immediate:
		return tooMany
	case question:
		l.openQuestions++
	case l.openQuestions == 0:
		return none
	default:
		l.openQuestions--
	}
	return nil
}

// Errors in a peer's Immediate Data, for which the connection is aborted.
var (
	errOverrun    = errors.New("rpcrdma: the peer sends more queries by Immediate Data than posted receives")
	errUnaskedFor = errors.New("rpcrdma: the peer's Immediate Data answers no query")
)
