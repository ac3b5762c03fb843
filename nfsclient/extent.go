package nfsclient

import (
	"slices"
	"sort"
)

// A state is how far a piece of a WriteBehind has come.
//
//	growing ─▶ queued ─▶ sending ─▶ written ─▶ settling ─▶ over
//	             ▲                                 │
//	             └──────── lost by the server ─────┘
type state uint8

const (
	growing  state = iota // adjacent data may be added
	queued                // for a WRITE
	sending               // in a WRITE under way
	written               // the server has it, perhaps only in memory
	settling              // in a COMMIT under way
	over                  // stable, replaced by later data, or abandoned
)

// unsent reports whether the server may not have a piece in state s.
func (s state) unsent() bool { return s <= sending }

// An extent is a piece of a WriteBehind.
type extent struct {
	piece // lent is nil: block holds the data
	block *block

	seq   uint64 // its age: later pieces have a higher number
	state state
	call  *flight // the WRITE of this piece, in state sending
	again bool    // the server has lost it once
}

// extents are ordered by offset and do not overlap: cover cuts off data that
// later data replace. They may therefore be sent again in any order.
type extents []*extent

// search returns the index of the first extent that ends after off.
func (x extents) search(off int64) int {
	return sort.Search(len(x), func(i int) bool { return x[i].end() > off })
}

// overlap reports whether a range has data of pieces up to seq.
func (x extents) overlap(from, to int64, seq uint64) bool {
	for i := x.search(from); i < len(x) && x[i].off < to; i++ {
		if x[i].seq <= seq {
			return true
		}
	}
	return false
}

// insert puts an extent in its place. No other extent may overlap it.
func (w *WriteBehind) insert(e *extent) {
	w.pieces = slices.Insert(w.pieces, w.pieces.search(e.off), e)
	w.count(e, 1)
}

// cover cuts off the data in a range, which is about to be replaced. A call
// under way continues with the old data, and overlapping new data wait for it.
func (w *WriteBehind) cover(from, to int64) {
	i := w.pieces.search(from)
	if from >= to || i == len(w.pieces) {
		return
	}
	if e := w.pieces[i]; e.off < from {
		if e.end() > to {
			w.split(e, to)
		}
		w.trim(e, e.off, from)
		i++
	}
	j := i
	for ; j < len(w.pieces) && w.pieces[j].end() <= to; j++ {
		w.discard(w.pieces[j])
	}
	w.pieces = slices.Delete(w.pieces, i, j)
	if i < len(w.pieces) && w.pieces[i].off < to {
		w.trim(w.pieces[i], to, w.pieces[i].end())
	}
}

// trim cuts an extent down to a range.
func (w *WriteBehind) trim(e *extent, from, to int64) {
	w.count(e, -1)
	e.data, e.off = e.data[from-e.off:to-e.off], from
	w.count(e, 1)
}

// split divides an extent in two.
func (w *WriteBehind) split(e *extent, at int64) {
	r := new(extent)
	*r = *e
	r.data, r.off = e.data[at-e.off:], at
	r.block.refs++
	w.trim(e, e.off, at)
	w.insert(r)
	switch r.state {
	case queued:
		w.queue = append(w.queue, r)
	case sending:
		r.call.parts = append(r.call.parts, r)
	}
}

// set changes an extent's state.
func (w *WriteBehind) set(e *extent, s state) {
	w.count(e, -1)
	e.state = s
	w.count(e, 1)
}

// count adds an extent to the sums, or subtracts it.
func (w *WriteBehind) count(e *extent, sign int) {
	if e.state == queued {
		w.backlog += int64(sign * len(e.data))
	}
	switch {
	case e.state.unsent():
		w.unsent += sign
	case e.state == written:
		w.written += int64(sign * len(e.data))
	}
}

// discard ends an extent. The caller must remove it from w.pieces.
func (w *WriteBehind) discard(e *extent) {
	if e.state != over {
		w.set(e, over)
		w.drop(e.block)
	}
}

func (w *WriteBehind) sweep() {
	w.pieces = slices.DeleteFunc(w.pieces, func(e *extent) bool { return e.state == over })
}
