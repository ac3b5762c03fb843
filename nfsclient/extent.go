package nfsclient

import (
	"slices"
	"sort"
)

// An extentState is the progress of a WriteBehind's piece.
//
//	growing ─▶ queued ─▶ sending ─▶ written ─▶ committing ─▶ finished
//	             ▲                                 │
//	             └──────── lost by the server ──────┘
type extentState uint8

const (
	stateGrowing    extentState = iota // adjacent data may be added
	stateQueued                        // waits for its WRITE
	stateSending                       // in a WRITE in flight
	stateWritten                       // the server has it, perhaps only in memory
	stateCommitting                    // in a COMMIT in flight
	stateFinished                      // stable, replaced by later data, or abandoned
)

// isUnsent reports whether the server may not have a piece in state s.
func (s extentState) isUnsent() bool { return s <= stateSending }

// An extent is a piece of a WriteBehind.
type extent struct {
	piece // its lent is nil, because block holds the data
	block *memBlock

	seq     uint64 // sequence number: later pieces have a higher one
	state   extentState
	write   *writeCall // the WRITE of this piece, in stateSending
	wasLost bool       // the server has lost the data once
}

// extents are ordered by offset and do not overlap: removeRange removes data
// that later data replace. Extents may therefore be sent again in any order.
type extents []*extent

// searchEnd returns the index of the first extent that ends after off.
func (x extents) searchEnd(off int64) int {
	return sort.Search(len(x), func(i int) bool { return x[i].endOffset() > off })
}

// overlapsUpTo reports whether a piece up to seq has data in a range.
func (x extents) overlapsUpTo(from, to int64, seq uint64) bool {
	for i := x.searchEnd(from); i < len(x) && x[i].off < to; i++ {
		if x[i].seq <= seq {
			return true
		}
	}
	return false
}

// insertExtent puts an extent in its place. No other extent may overlap it.
func (w *WriteBehind) insertExtent(e *extent) {
	w.pieces = slices.Insert(w.pieces, w.pieces.searchEnd(e.off), e)
	w.countExtent(e, 1)
}

// removeRange removes the data in a range, which is about to be replaced. A
// call in flight continues with the old data, and overlapping new data wait for
// it.
func (w *WriteBehind) removeRange(from, to int64) {
	i := w.pieces.searchEnd(from)
	if from >= to || i == len(w.pieces) {
		return
	}
	if e := w.pieces[i]; e.off < from {
		if e.endOffset() > to {
			w.splitExtent(e, to)
		}
		w.trimExtent(e, e.off, from)
		i++
	}
	j := i
	for ; j < len(w.pieces) && w.pieces[j].endOffset() <= to; j++ {
		w.discardExtent(w.pieces[j])
	}
	w.pieces = slices.Delete(w.pieces, i, j)
	if i < len(w.pieces) && w.pieces[i].off < to {
		w.trimExtent(w.pieces[i], to, w.pieces[i].endOffset())
	}
}

// trimExtent reduces an extent to a range.
func (w *WriteBehind) trimExtent(e *extent, from, to int64) {
	w.countExtent(e, -1)
	e.data, e.off = e.data[from-e.off:to-e.off], from
	w.countExtent(e, 1)
}

// splitExtent divides an extent in two.
func (w *WriteBehind) splitExtent(e *extent, at int64) {
	r := new(extent)
	*r = *e
	r.data, r.off = e.data[at-e.off:], at
	r.block.refs++
	w.trimExtent(e, e.off, at)
	w.insertExtent(r)
	switch r.state {
	case stateQueued:
		w.queue = append(w.queue, r)
	case stateSending:
		r.write.parts = append(r.write.parts, r)
	}
}

// setState changes an extent's state.
func (w *WriteBehind) setState(e *extent, s extentState) {
	w.countExtent(e, -1)
	e.state = s
	w.countExtent(e, 1)
}

// countExtent adds an extent to w's totals (sign 1) or subtracts it (sign -1).
func (w *WriteBehind) countExtent(e *extent, sign int) {
	if e.state == stateQueued {
		w.queuedBytes += int64(sign * len(e.data))
	}
	switch {
	case e.state.isUnsent():
		w.unsentPieces += sign
	case e.state == stateWritten:
		w.unstableBytes += int64(sign * len(e.data))
	}
}

// discardExtent finishes an extent and releases its memory. The caller must
// remove it from w.pieces.
func (w *WriteBehind) discardExtent(e *extent) {
	if e.state != stateFinished {
		w.setState(e, stateFinished)
		w.releaseBlock(e.block)
	}
}

func (w *WriteBehind) removeFinished() {
	w.pieces = slices.DeleteFunc(w.pieces, func(e *extent) bool { return e.state == stateFinished })
}
