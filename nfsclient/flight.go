package nfsclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A flight is a WRITE under way.
type flight struct {
	piece // as it is sent
	block *block
	seq   uint64
	parts []*extent // what is left of it
	turn  uint64    // of the WriteBehind, if there were no other data; else 0
}

// pump does whatever can be done. It is called after every change.
func (w *WriteBehind) pump() {
	if w.closed {
		return
	}
	if e := w.open; e != nil {
		full := len(e.data) == w.f.fs.writeSize
		if full || e.seq <= max(w.sendTo, w.stableTo) || w.short() {
			w.seal()
		}
	}
	w.send()
	if !w.commit && w.due() {
		w.sendCommit()
	}
	w.wake()
}

// short tells whether somebody waits for our memory.
func (w *WriteBehind) short() bool { return w.window.short() || w.budget.short() }

func (w *WriteBehind) enqueue(e *extent) {
	w.set(e, queued)
	w.queue = append(w.queue, e)
}

// send sends what is queued, as far as calls are to be had. A call never
// overlaps another: the server may do them in any order.
func (w *WriteBehind) send() {
	depth := w.f.fs.c.cfg.Depth
	if len(w.flights) == depth {
		return
	}
	w.queue = slices.DeleteFunc(w.queue, func(e *extent) bool {
		switch {
		case e.state == over:
			return true
		case len(w.flights) == depth || w.inFlight(e):
			return false
		}
		w.depart(e)
		return true
	})
}

func (w *WriteBehind) inFlight(e *extent) bool {
	for _, c := range w.flights {
		if c.off < e.end() && e.off < c.end() {
			return true
		}
	}
	return false
}

func (w *WriteBehind) depart(e *extent) {
	how := w.how(e)
	c := &flight{piece: piece{off: e.off, data: e.data}, block: e.block, seq: e.seq, parts: []*extent{e}}
	if w.alone() {
		c.turn = w.turn
	}
	c.block.refs++
	w.set(e, sending)
	e.call = c
	w.flights = append(w.flights, c)
	w.spawn(func(ctx context.Context) {
		began := time.Now()
		_, err := w.f.put(ctx, &c.piece, how)
		w.arrive(c, time.Since(began), err)
	})
}

// how returns how stable a piece is to be when its WRITE is answered. One that
// was lost, or is alone and to be stable anyway, needs no COMMIT.
func (w *WriteBehind) how(e *extent) nfs3.Stable {
	if e.again || w.alone() && e.seq <= w.stableTo {
		return nfs3.FileSync
	}
	return nfs3.Unstable
}

// alone tells whether a piece that is to be sent is all that there is.
func (w *WriteBehind) alone() bool { return len(w.pieces) == 1 && len(w.flights) == 0 }

// arrive ends a WRITE.
func (w *WriteBehind) arrive(c *flight, took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool { return f == c })
	w.drop(c.block)
	for _, e := range c.parts {
		switch {
		case e.state == over:
		case err != nil || c.stable:
			w.discard(e)
		case c.lost:
			w.lose(e)
		default:
			e.verf = c.verf
			w.set(e, written)
		}
	}
	w.sweep()
	switch {
	case err != nil:
		w.fail(err)
	case !c.stable:
		w.commitWindow.sent(took)
		w.meet(c.verf)
	case c.turn > 0:
		w.hear(c.turn, &c.attr)
	}
	w.pump()
}

// fail tells why data are lost. Where it is no refusal, the server cannot be
// reached: what was not sent yet is given up too, for nobody shall wait for it
// again and again.
func (w *WriteBehind) fail(err error) {
	if w.closed {
		return // the call was given up
	}
	w.failed(err)
	var refused *Error
	if errors.As(err, &refused) {
		return
	}
	w.seal()
	for _, e := range w.queue {
		w.discard(e)
	}
	w.queue = nil
	w.sweep()
}

// unsentUpTo tells whether a piece up to a certain age, which pump has seen that
// it shall be sent, may not be at the server.
func (w *WriteBehind) unsentUpTo(seq uint64) bool {
	for _, e := range w.queue {
		if e.seq <= seq && e.state != over {
			return true
		}
	}
	return slices.ContainsFunc(w.flights, func(c *flight) bool { return c.seq <= seq })
}

// heldUpTo tells whether a piece up to a certain age is not on stable storage.
func (w *WriteBehind) heldUpTo(seq uint64) bool {
	return slices.ContainsFunc(w.pieces, func(e *extent) bool { return e.seq <= seq })
}
