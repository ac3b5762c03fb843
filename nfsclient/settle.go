package nfsclient

import (
	"context"
	"time"
)

// due reports whether a COMMIT should be made.
func (w *WriteBehind) due() bool {
	switch {
	case w.written == 0:
		return false
	case w.written >= w.commitWindow.bytes, w.short():
		return true
	case w.written >= int64(w.f.fs.writeSize) && w.budget.half():
		return true
	case w.stableTo == 0 || w.unsentUpTo(w.stableTo):
		return false
	case w.heldUpTo(w.stableTo):
		return true
	}
	w.stableTo = 0
	return false
}

// sendCommit makes a COMMIT.
func (w *WriteBehind) sendCommit() {
	var s span
	for _, e := range w.pieces {
		if e.state == written {
			s.add(&e.piece)
			w.set(e, settling)
		}
	}
	w.commit = true
	turn, whole := w.turn, w.unsent == 0 && len(w.flights) == 0
	w.spawn(func(ctx context.Context) {
		began := time.Now()
		res, err := w.f.commitSpan(ctx, s)
		took := time.Since(began)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.settled(res.Verf, took, err)
		if err == nil && whole {
			w.hear(turn, &res.Wcc.After)
		}
		w.pump()
	})
}

// settled ends a COMMIT.
func (w *WriteBehind) settled(verf uint64, took time.Duration, err error) {
	w.commit = false
	for _, e := range w.pieces {
		switch {
		case e.state != settling:
		case err != nil || e.safe(verf):
			w.discard(e)
		default:
			w.lose(e)
		}
	}
	w.sweep()
	if err != nil {
		w.fail(err)
	} else {
		w.commitWindow.settled(took, w.window.limit/2)
		w.meet(verf)
	}
}

// meet records the server's write verifier. If it has changed, the server has
// lost unstable data, and readers may miss them already. Replies can arrive in
// another order than they were made. A few pieces may therefore be sent again
// that were not lost.
func (w *WriteBehind) meet(verf uint64) {
	if w.met && w.verf != verf {
		for _, e := range w.pieces {
			if e.state == written && e.verf != verf {
				w.lose(e)
			}
		}
	}
	w.met, w.verf = true, verf
}

// lose queues a piece to be sent again.
func (w *WriteBehind) lose(e *extent) {
	e.again = true
	w.enqueue(e)
}
