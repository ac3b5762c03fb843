package nfsclient

import (
	"context"
	"time"
)

// isCommitDue reports whether a COMMIT should be sent.
func (w *WriteBehind) isCommitDue() bool {
	switch {
	case w.unstableBytes == 0:
		return false
	case w.unstableBytes >= w.commitWindow.bytes, w.othersNeedMemory():
		return true
	case w.unstableBytes >= int64(w.file.fs.writeSize) && w.budget.isHalfUsed():
		return true
	case w.stableUpTo == 0 || w.hasUnsentUpTo(w.stableUpTo):
		return false
	case w.hasUnstableUpTo(w.stableUpTo):
		return true
	}
	w.stableUpTo = 0
	return false
}

// sendCommit sends a COMMIT.
func (w *WriteBehind) sendCommit() {
	var s fileRange
	for _, e := range w.pieces {
		if e.state == stateWritten {
			s.addPiece(&e.piece)
			w.setState(e, stateCommitting)
		}
	}
	w.committing = true
	turn, whole := w.syncCount, w.unsentPieces == 0 && len(w.writes) == 0
	w.startCall(func(ctx context.Context) {
		began := time.Now()
		res, err := w.file.commitRange(ctx, s)
		took := time.Since(began)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finishCommit(res.Verf, took, err)
		if err == nil && whole {
			w.recordAttr(turn, &res.Wcc.After)
		}
		w.startCalls()
	})
}

// finishCommit processes the result of a COMMIT.
func (w *WriteBehind) finishCommit(verf uint64, took time.Duration, err error) {
	w.committing = false
	for _, e := range w.pieces {
		switch {
		case e.state != stateCommitting:
		case err != nil || e.isStableAfter(verf):
			w.discardExtent(e)
		default:
			w.requeueLost(e)
		}
	}
	w.removeFinished()
	if err != nil {
		w.handleFailure(err)
	} else {
		w.commitWindow.recordCommit(took, w.window.limit/2)
		w.recordVerf(verf)
	}
}

// recordVerf records the server's write verifier. If it has changed, the server
// has lost unstable data, and readers may miss them already. Replies can arrive
// out of order, so a few pieces may be sent again that were not lost.
func (w *WriteBehind) recordVerf(verf uint64) {
	if w.verfKnown && w.writeVerf != verf {
		for _, e := range w.pieces {
			if e.state == stateWritten && e.verf != verf {
				w.requeueLost(e)
			}
		}
	}
	w.verfKnown, w.writeVerf = true, verf
}

// requeueLost queues a piece to be sent again.
func (w *WriteBehind) requeueLost(e *extent) {
	e.wasLost = true
	w.enqueueExtent(e)
}
