package nfsclient

import (
	"context"
	"math/bits"

	"github.com/nfsrdma/nfsrdma/buf"
)

// A block is lent memory that holds pieces of a file. The lock of its
// WriteBehind guards it.
type block struct {
	lent *buf.Buf
	refs int // number of pieces and calls
}

func newBlock(size int) *block { return &block{lent: buf.Default.Get(size), refs: 1} }

func (b *block) size() int { return len(b.lent.B) }

// drop releases a reference to b; the last one frees the memory.
func (w *WriteBehind) drop(b *block) {
	if b.refs--; b.refs == 0 {
		w.give(b.size())
		b.lent.Release()
	}
}

// room waits until there is room for a block.
func (w *WriteBehind) room(ctx context.Context, size int) error {
	if err := w.window.acquire(ctx, int64(size)); err != nil {
		return err
	}
	err := w.budget.acquire(ctx, int64(size))
	if err != nil {
		w.window.give(int64(size))
	}
	return err
}

// tryRoom is room that does not wait.
func (w *WriteBehind) tryRoom(size int) bool {
	if !w.window.try(int64(size)) {
		return false
	}
	ok := w.budget.try(int64(size))
	if !ok {
		w.window.give(int64(size))
	}
	return ok
}

func (w *WriteBehind) give(size int) {
	w.window.give(int64(size))
	w.budget.give(int64(size))
}

// take takes a part of p, at least one byte.
func (w *WriteBehind) take(ctx context.Context, p []byte, off int64) (int, error) {
	n, size, err := w.gather(ctx, p, off)
	if err != nil || n > 0 {
		return n, err
	}
	if err := w.room(ctx, size); err != nil {
		return 0, err
	}
	b := newBlock(size)
	n = copy(b.lent.B, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.admit(ctx, off, off+int64(n)); err != nil {
		w.drop(b)
		return 0, err
	}
	w.seal()
	w.cover(off, off+int64(n))
	w.seq++
	w.open = &extent{piece: piece{off: off, data: b.lent.B[:n]}, block: b, seq: w.seq, state: growing}
	w.insert(w.open)
	if !w.aging {
		w.aging = true
		w.timer.Reset(linger)
	}
	w.pump()
	return n, nil
}

// gather takes the first n bytes of p if they belong in the open piece or
// directly after it. If n is 0, size is how much memory a new piece for p
// should have.
func (w *WriteBehind) gather(ctx context.Context, p []byte, off int64) (n, size int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p = p[:min(len(p), w.f.fs.writeSize)]
	if err := w.admit(ctx, off, off+int64(len(p))); err != nil {
		return 0, 0, err
	}
	if e := w.open; e != nil && e.off <= off && off <= e.end() {
		at := int(off - e.off)
		w.grow(e, at+len(p))
		if n = min(len(p), e.block.size()-at); n > 0 {
			w.cover(e.end(), off+int64(n))
			e.data = e.block.lent.B[:max(len(e.data), at+n)]
			copy(e.data[at:], p)
			w.pump()
			return n, 0, nil
		}
	}
	if off == w.full { // a sequential writer
		return 0, w.f.fs.writeSize, nil
	}
	return 0, w.blockSize(len(p)), nil
}

// admit waits while the backlog is so long that more data would only fill
// memory, and while a Flush or Sync waits for data in the range: if replaced,
// those data would never get to the server.
func (w *WriteBehind) admit(ctx context.Context, from, to int64) error {
	for {
		switch {
		case w.closed:
			return errClosed
		case w.backlog >= maxBacklog:
		case w.barrier == 0 || !w.pieces.overlap(from, to, w.barrier):
			return nil
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
}

// blockSize returns the bytes of memory for a piece of n bytes or a little
// more.
func (w *WriteBehind) blockSize(n int) int {
	n = max(n, smallBlock)
	return min(1<<bits.Len(uint(n-1)), w.f.fs.writeSize)
}

// grow gives the open piece memory for n bytes, limited to the size of one
// WRITE, if there is room.
func (w *WriteBehind) grow(e *extent, n int) {
	if size := w.blockSize(n); size > e.block.size() {
		w.move(e, size)
	}
}

// seal closes the open piece and queues it.
func (w *WriteBehind) seal() {
	e := w.open
	if e == nil {
		return
	}
	if size := w.blockSize(len(e.data)); size <= e.block.size()/4 {
		w.move(e, size)
	}
	if len(e.data) == w.f.fs.writeSize {
		w.full = e.end()
	}
	w.open = nil
	w.enqueue(e)
}

// move copies a piece to other memory, if there is room.
func (w *WriteBehind) move(e *extent, size int) {
	if !w.tryRoom(size) {
		return
	}
	b := newBlock(size)
	e.data = b.lent.B[:copy(b.lent.B, e.data)]
	w.drop(e.block)
	e.block = b
}
