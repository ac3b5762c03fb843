package rpcrdma

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

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
