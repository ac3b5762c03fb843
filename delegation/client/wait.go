package client

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A wait is an atomic operation under way (rdma.Completer).
type wait struct {
	op      delegation.Op
	c       *conn
	opening *holding // the holding whose use op begins, or nil
	verdict handoff[delegation.Verdict]
}

// post posts op. The state is pending if the caller waits for the verdict, and
// abandoned if not. post returns nil if the connection has ended.
func (c *conn) post(op delegation.Op, opening *holding, state uint32) *wait {
	w, ok := c.set.waits.Get().(*wait)
	if !ok {
		w = &wait{verdict: handoff[delegation.Verdict]{c: make(chan delegation.Verdict, 1)}}
	}
	w.op, w.c, w.opening = op, c, opening
	w.verdict.state.Store(state)
	if err := c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(op.Word), op.Kind.Operands(), w, 0); err != nil {
		w.free()
		return nil
	}
	return w
}

// forget posts an operation without waiting for the answer.
func (c *conn) forget(op delegation.Op) { c.post(op, nil, abandoned) }

// ask posts an operation and waits for its verdict.
func (c *conn) ask(ctx context.Context, op delegation.Op, opening *holding) delegation.Verdict {
	c.set.counts.atomics.Add(1)
	c.keep(c.set.cfg.Now()) // renew first if the machine has slept since: then op's answer is already good
	w := c.post(op, opening, pending)
	if w == nil {
		return delegation.Void
	}
	v, ok := w.verdict.wait(ctx)
	if !ok {
		return delegation.Doubt
	}
	w.free()
	return v
}

// Complete receives the answer (rdma.Completer).
func (w *wait) Complete(done rdma.Completion) {
	v := delegation.Void
	if done.Err == nil {
		var fx delegation.Posts
		v, fx = w.c.h.Answered(&w.op, done.Original, w.c.set.cfg.Now())
		w.c.do(fx)
		if w.opening != nil {
			w.opening.opened()
		}
	}
	if !w.verdict.put(v) {
		w.free()
	}
}

func (w *wait) free() {
	set := w.c.set
	w.c, w.opening, w.op = nil, nil, delegation.Op{}
	set.waits.Put(w)
}
