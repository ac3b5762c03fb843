package rpcrdma

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// Atomic posts a FetchAdd or CompareSwap, with the operands a, on a word of the
// responder's memory; done is told of its completion, with id. The error is
// ErrNotAgreed, or wraps rdma.ErrClosed; done is not told then.
//
// done is told once, before ExtensionHandler.Closed, of the answers in the order of
// posting, and never before ExtensionHandler.Immediate was told of what came before the
// answer. By whichever goroutine that is: what comes after the answer may be told
// of at the same time.
//
// An operation stands in the queue with the calls, behind what was posted before
// it, and is answered by the peer's NIC. It allocates nothing. More than the peer
// serves at a time (rdma.ReadDepth) hold up what is posted behind them.
func (l *ExtensionConn) Atomic(op rdma.Op, word rdma.Remote, a rdma.Atomic, done rdma.Completer, id uint64) error {
	if !l.on.Atomics || l.responder() || !op.Atomic() {
		return ErrNotAgreed
	}
	return l.post(rdma.WR{Op: op, Remote: word, Atomic: a, Done: done, ID: id})
}

// works are work requests between two posts, since a list of them goes through an
// interface.
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
