package nfsclient

import (
	"context"
	"math/bits"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A memBlock is pooled memory that holds pieces of a file. Its WriteBehind's
// lock guards it.
type memBlock struct {
	mem  *buf.Buf
	refs int // number of pieces and calls
}

func newBlock(size int) *memBlock { return &memBlock{mem: buf.Default.Get(size), refs: 1} }

func (b *memBlock) byteCount() int { return len(b.mem.B) }

// releaseBlock releases a reference to b; the last one frees the memory.
func (w *WriteBehind) releaseBlock(b *memBlock) {
	if b.refs--; b.refs == 0 {
		w.releaseMemory(b.byteCount())
		b.mem.Release()
	}
}

// acquireMemory reserves a block in both budgets, and waits until it fits.
func (w *WriteBehind) acquireMemory(ctx context.Context, size int) error {
	if err := w.window.acquireBytes(ctx, int64(size)); err != nil {
		return err
	}
	err := w.budget.acquireBytes(ctx, int64(size))
	if err != nil {
		w.window.releaseBytes(int64(size))
	}
	return err
}

// tryAcquireMemory reserves a block in both budgets if it fits, and does not
// wait.
func (w *WriteBehind) tryAcquireMemory(size int) bool {
	if !w.window.tryAcquireBytes(int64(size)) {
		return false
	}
	ok := w.budget.tryAcquireBytes(int64(size))
	if !ok {
		w.window.releaseBytes(int64(size))
	}
	return ok
}

func (w *WriteBehind) releaseMemory(size int) {
	w.window.releaseBytes(int64(size))
	w.budget.releaseBytes(int64(size))
}

// writePart copies a part of p, at least one byte, and returns its length.
func (w *WriteBehind) writePart(ctx context.Context, p []byte, off int64) (int, error) {
	n, size, err := w.appendToOpen(ctx, p, off)
	if err != nil || n > 0 {
		return n, err
	}
	if err := w.acquireMemory(ctx, size); err != nil {
		return 0, err
	}
	b := newBlock(size)
	n = copy(b.mem.B, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.waitForAdmission(ctx, off, off+int64(n)); err != nil {
		w.releaseBlock(b)
		return 0, err
	}
	w.queueOpen()
	w.removeRange(off, off+int64(n))
	w.lastSeq++
	w.openExtent = &extent{piece: piece{off: off, data: b.mem.B[:n]}, block: b, seq: w.lastSeq, state: stateGrowing}
	w.insertExtent(w.openExtent)
	if !w.timerRuns {
		w.timerRuns = true
		w.lingerTimer.Reset(linger)
	}
	w.startCalls()
	return n, nil
}

// appendToOpen copies the first n bytes of p into the open piece if they start
// in it or directly after it. If n is 0, size is the memory in bytes that a new
// piece for p should have.
func (w *WriteBehind) appendToOpen(ctx context.Context, p []byte, off int64) (n, size int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p = p[:min(len(p), w.file.fs.writeSize)]
	if err := w.waitForAdmission(ctx, off, off+int64(len(p))); err != nil {
		return 0, 0, err
	}
	if e := w.openExtent; e != nil && e.off <= off && off <= e.endOffset() {
		at := int(off - e.off)
		w.growBlock(e, at+len(p))
		if n = min(len(p), e.block.byteCount()-at); n > 0 {
			w.removeRange(e.endOffset(), off+int64(n))
			e.data = e.block.mem.B[:max(len(e.data), at+n)]
			copy(e.data[at:], p)
			w.startCalls()
			return n, 0, nil
		}
	}
	if off == w.lastFullEnd { // a sequential writer
		return 0, w.file.fs.writeSize, nil
	}
	return 0, w.blockSize(len(p)), nil
}

// waitForAdmission waits while the queue is so long that more data would only
// fill memory, and while a Flush or Sync waits for data in the range. If such
// data were replaced, they would never reach the server.
func (w *WriteBehind) waitForAdmission(ctx context.Context, from, to int64) error {
	for {
		switch {
		case w.closed:
			return errClosed
		case w.queuedBytes >= maxBacklog:
		case w.waitedUpTo == 0 || !w.pieces.overlapsUpTo(from, to, w.waitedUpTo):
			return nil
		}
		if err := w.waitForChange(ctx); err != nil {
			return err
		}
	}
}

// blockSize returns the memory in bytes for a piece of n bytes or slightly
// more.
func (w *WriteBehind) blockSize(n int) int {
	n = max(n, smallBlock)
	return min(1<<bits.Len(uint(n-1)), w.file.fs.writeSize)
}

// growBlock gives the open piece memory for n bytes, at most for one WRITE, if
// the budgets allow.
func (w *WriteBehind) growBlock(e *extent, n int) {
	if size := w.blockSize(n); size > e.block.byteCount() {
		w.moveToBlock(e, size)
	}
}

// queueOpen closes the open piece and queues it.
func (w *WriteBehind) queueOpen() {
	e := w.openExtent
	if e == nil {
		return
	}
	if size := w.blockSize(len(e.data)); size <= e.block.byteCount()/4 {
		w.moveToBlock(e, size)
	}
	if len(e.data) == w.file.fs.writeSize {
		w.lastFullEnd = e.endOffset()
	}
	w.openExtent = nil
	w.enqueueExtent(e)
}

// moveToBlock copies a piece to a block of size bytes, if the budgets allow.
func (w *WriteBehind) moveToBlock(e *extent, size int) {
	if !w.tryAcquireMemory(size) {
		return
	}
	b := newBlock(size)
	e.data = b.mem.B[:copy(b.mem.B, e.data)]
	w.releaseBlock(e.block)
	e.block = b
}
