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
	piece // as sent
	block *block
	seq   uint64
	parts []*extent // the parts that were not replaced
	turn  uint64    // of the WriteBehind, if there were no other data; otherwise 0
}

// pump starts all calls that can be made. It must be called after every change.
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

// short reports whether another writer waits for our memory.
func (w *WriteBehind) short() bool { return w.window.short() || w.budget.short() }

func (w *WriteBehind) enqueue(e *extent) {
	w.set(e, queued)
	w.queue = append(w.queue, e)
}

// send sends queued pieces, up to Config.Depth calls at a time. A call never
// overlaps another call, because the server may execute them in any order.
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

// how returns how stable a piece must be when the server answers its WRITE. A
// piece needs no COMMIT if it was lost before, or if it is the only piece and
// must be made stable anyway.
func (w *WriteBehind) how(e *extent) nfs3.Stable {
	if e.again || w.alone() && e.seq <= w.stableTo {
		return nfs3.FileSync
	}
	return nfs3.Unstable
}

// alone reports whether the piece about to be sent is the only one.
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

// fail reports err for lost data. If err is not a refusal, the server cannot be
// reached: fail then also discards unsent data, so that no caller waits for
// them again and again.
func (w *WriteBehind) fail(err error) {
	if w.closed {
		return // Close has abandoned the call
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

// unsentUpTo reports whether a piece up to seq may not be at the server. pump
// must have queued these pieces.
func (w *WriteBehind) unsentUpTo(seq uint64) bool {
	for _, e := range w.queue {
		if e.seq <= seq && e.state != over {
			return true
		}
	}
	return slices.ContainsFunc(w.flights, func(c *flight) bool { return c.seq <= seq })
}

// heldUpTo reports whether a piece up to seq is not on stable storage.
func (w *WriteBehind) heldUpTo(seq uint64) bool {
	return slices.ContainsFunc(w.pieces, func(e *extent) bool { return e.seq <= seq })
}
