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
	growing  state = iota // more may come behind it
	queued                // for a WRITE
	sending               // in a WRITE under way
	written               // the server has it, perhaps only in memory
	settling              // in a COMMIT under way
	over                  // stable, replaced by later data, or given up
)

// unsent tells whether the server may not have such a piece.
func (s state) unsent() bool { return s <= sending }

// An extent is a piece of a WriteBehind.
type extent struct {
	piece // lent is nil: the data are in
	block *block

	seq   uint64 // its age: pieces that came later have more
	state state
	call  *flight // that it is in, while it is sending
	again bool    // the server has lost it once
}

// Extents are in the order of their offsets and do not overlap: what later data
// replace is cut off. Therefore it does not matter in what order they are sent
// again.
type extents []*extent

// search returns the index of the first extent that ends behind off.
func (x extents) search(off int64) int {
	return sort.Search(len(x), func(i int) bool { return x[i].end() > off })
}

// overlap tells whether there is data up to a certain age in a range.
func (x extents) overlap(from, to int64, seq uint64) bool {
	for i := x.search(from); i < len(x) && x[i].off < to; i++ {
		if x[i].seq <= seq {
			return true
		}
	}
	return false
}

// insert puts an extent to its place, where there is none.
func (w *WriteBehind) insert(e *extent) {
	w.pieces = slices.Insert(w.pieces, w.pieces.search(e.off), e)
	w.count(e, 1)
}

// cover cuts off what is to be replaced. A call under way goes on with what it
// has, and who overlaps it waits.
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

// trim leaves only a part of an extent.
func (w *WriteBehind) trim(e *extent, from, to int64) {
	w.count(e, -1)
	e.data, e.off = e.data[from-e.off:to-e.off], from
	w.count(e, 1)
}

// split makes two of an extent.
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

// count adds an extent to the sums, or takes it from them.
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

// discard ends an extent, which the caller takes out of w.pieces.
func (w *WriteBehind) discard(e *extent) {
	if e.state != over {
		w.set(e, over)
		w.drop(e.block)
	}
}

func (w *WriteBehind) sweep() {
	w.pieces = slices.DeleteFunc(w.pieces, func(e *extent) bool { return e.state == over })
}
