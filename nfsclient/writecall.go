package nfsclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A writeCall is a WRITE in flight.
type writeCall struct {
	piece     // as sent
	block     *memBlock
	seq       uint64
	parts     []*extent // the parts that have not been replaced
	syncCount uint64    // the WriteBehind's, if there were no other data; otherwise 0
}

// startCalls starts every call that can be sent. It must be called after each
// change.
func (w *WriteBehind) startCalls() {
	if w.closed {
		return
	}
	if e := w.openExtent; e != nil {
		full := len(e.data) == w.file.fs.writeSize
		if full || e.seq <= max(w.sendUpTo, w.stableUpTo) || w.othersNeedMemory() {
			w.queueOpen()
		}
	}
	w.sendQueued()
	if !w.committing && w.isCommitDue() {
		w.sendCommit()
	}
	w.wakeWaiters()
}

// othersNeedMemory reports whether another writer waits for memory that w holds.
func (w *WriteBehind) othersNeedMemory() bool { return w.window.hasWaiters() || w.budget.hasWaiters() }

func (w *WriteBehind) enqueueExtent(e *extent) {
	w.setState(e, stateQueued)
	w.queue = append(w.queue, e)
}

// sendQueued sends queued pieces, with at most Config.Depth calls in flight.
// Calls must not overlap, because the server may execute them in any order.
func (w *WriteBehind) sendQueued() {
	depth := w.file.fs.c.cfg.Depth
	if len(w.writes) == depth {
		return
	}
	w.queue = slices.DeleteFunc(w.queue, func(e *extent) bool {
		switch {
		case e.state == stateFinished:
			return true
		case len(w.writes) == depth || w.overlapsFlight(e):
			return false
		}
		w.sendWrite(e)
		return true
	})
}

func (w *WriteBehind) overlapsFlight(e *extent) bool {
	for _, c := range w.writes {
		if c.off < e.endOffset() && e.off < c.endOffset() {
			return true
		}
	}
	return false
}

func (w *WriteBehind) sendWrite(e *extent) {
	how := w.stability(e)
	c := &writeCall{piece: piece{off: e.off, data: e.data}, block: e.block, seq: e.seq, parts: []*extent{e}}
	if w.isOnlyPiece() {
		c.syncCount = w.syncCount
	}
	c.block.refs++
	w.setState(e, stateSending)
	e.write = c
	w.writes = append(w.writes, c)
	w.startCall(func(ctx context.Context) {
		began := time.Now()
		_, err := w.file.writePiece(ctx, &c.piece, how)
		w.finishWrite(c, time.Since(began), err)
	})
}

// stability returns the stable_how value for a piece's WRITE. A piece needs no
// COMMIT if it was lost before, or if it is the only piece and must be made
// stable anyway.
func (w *WriteBehind) stability(e *extent) nfs3.Stable {
	if e.wasLost || w.isOnlyPiece() && e.seq <= w.stableUpTo {
		return nfs3.FileSync
	}
	return nfs3.Unstable
}

// isOnlyPiece reports whether the piece about to be sent is the only one.
func (w *WriteBehind) isOnlyPiece() bool { return len(w.pieces) == 1 && len(w.writes) == 0 }

// finishWrite processes the result of a WRITE.
func (w *WriteBehind) finishWrite(c *writeCall, took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = slices.DeleteFunc(w.writes, func(f *writeCall) bool { return f == c })
	w.releaseBlock(c.block)
	for _, e := range c.parts {
		switch {
		case e.state == stateFinished:
		case err != nil || c.stable:
			w.discardExtent(e)
		case c.lost:
			w.requeueLost(e)
		default:
			e.verf = c.verf
			w.setState(e, stateWritten)
		}
	}
	w.removeFinished()
	switch {
	case err != nil:
		w.handleFailure(err)
	case !c.stable:
		w.commitWindow.recordWrite(took)
		w.recordVerf(c.verf)
	case c.syncCount > 0:
		w.recordAttr(c.syncCount, &c.attr)
	}
	w.startCalls()
}

// handleFailure reports err for lost data. If err is not an NFS status, the
// server is unreachable. handleFailure then also discards unsent data, so that
// callers do not wait for each piece in turn.
func (w *WriteBehind) handleFailure(err error) {
	if w.closed {
		return // Close has abandoned the call
	}
	w.reportFailure(err)
	var refused *Error
	if errors.As(err, &refused) {
		return
	}
	w.queueOpen()
	for _, e := range w.queue {
		w.discardExtent(e)
	}
	w.queue = nil
	w.removeFinished()
}

// hasUnsentUpTo reports whether a piece up to seq may not be at the server.
// startCalls must have queued these pieces.
func (w *WriteBehind) hasUnsentUpTo(seq uint64) bool {
	for _, e := range w.queue {
		if e.seq <= seq && e.state != stateFinished {
			return true
		}
	}
	return slices.ContainsFunc(w.writes, func(c *writeCall) bool { return c.seq <= seq })
}

// hasUnstableUpTo reports whether a piece up to seq is not on stable storage.
func (w *WriteBehind) hasUnstableUpTo(seq uint64) bool {
	return slices.ContainsFunc(w.pieces, func(e *extent) bool { return e.seq <= seq })
}
