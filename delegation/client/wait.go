package client

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A pendingOp is an atomic operation in flight (rdma.Completer).
type pendingOp struct {
	op      delegation.Op
	conn    *conn
	opening *heldDelegation // the delegation whose use op begins, or nil
	verdict handoff[delegation.Verdict]
}

// postOp posts op. state is handoffPending if the caller waits for the verdict,
// and handoffAbandoned if not. postOp returns nil if the connection has closed.
func (c *conn) postOp(op delegation.Op, opening *heldDelegation, state uint32) *pendingOp {
	w, ok := c.set.pendingOps.Get().(*pendingOp)
	if !ok {
		w = &pendingOp{verdict: handoff[delegation.Verdict]{value: make(chan delegation.Verdict, 1)}}
	}
	w.op, w.conn, w.opening = op, c, opening
	w.verdict.state.Store(state)
	if err := c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(op.Word), op.Kind.Operands(), w, 0); err != nil {
		w.recycleOp()
		return nil
	}
	return w
}

// postUnawaited posts an operation without waiting for the response.
func (c *conn) postUnawaited(op delegation.Op) { c.postOp(op, nil, handoffAbandoned) }

// postAndWait posts an operation and waits for its verdict.
func (c *conn) postAndWait(ctx context.Context, op delegation.Op, opening *heldDelegation) delegation.Verdict {
	c.set.counts.atomics.Add(1)
	c.renewLease(c.set.cfg.Now()) // renew first in case of a suspend: then op's response already confirms the delegation
	w := c.postOp(op, opening, handoffPending)
	if w == nil {
		return delegation.Void
	}
	v, ok := w.verdict.waitForValue(ctx)
	if !ok {
		return delegation.Doubt
	}
	w.recycleOp()
	return v
}

// Complete handles the response (rdma.Completer).
func (w *pendingOp) Complete(done rdma.Completion) {
	v := delegation.Void
	if done.Err == nil {
		var fx delegation.Posts
		v, fx = w.conn.holder.Answered(&w.op, done.Original, w.conn.set.cfg.Now())
		w.conn.applyPosts(fx)
		if w.opening != nil {
			w.opening.finishOpening()
		}
	}
	if !w.verdict.putValue(v) {
		w.recycleOp()
	}
}

func (w *pendingOp) recycleOp() {
	set := w.conn.set
	w.conn, w.opening, w.op = nil, nil, delegation.Op{}
	set.pendingOps.Put(w)
}
