package nfsclient

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

var (
	errClosed = fmt.Errorf("write-behind: %w", fs.ErrClosed)
	errTooFar = fmt.Errorf("the data ends beyond the largest file offset: %w", syscall.EFBIG)
)

// A WriteBehind takes data for one file and writes them later, several WRITEs
// at a time, each of adjacent data. It keeps a copy until the server has the
// data on stable storage (COMMIT), and writes data again that a restarted
// server has lost. After linger, it writes and commits without being asked.
//
// If writes overlap, the later write counts, at all times and after any loss.
// Calls to the server do not end with the context of the writer.
//
// A failure loses the data concerned, or, if the server cannot be reached, all
// data that were not sent yet. The WriteBehind passes the error to the function
// failed, which must report the loss, and continues: Write, Flush and Sync
// return only other errors.
type WriteBehind struct {
	f      *File
	failed func(err error)
	budget *Budget // of all files together
	window *Budget // of this file

	spawn func(call func(ctx context.Context)) // until Close
	calls sync.WaitGroup
	stop  context.CancelFunc // of all calls

	mu           sync.Mutex
	changed      chan struct{} // closed on any change; nil if no goroutine waits
	closed       bool
	pieces       extents      // all data not on stable storage
	open         *extent      // the piece that still grows, or nil
	queue        []*extent    // pieces to send
	flights      []*flight    // under way
	commit       bool         // a COMMIT is under way
	unsent       int          // number of pieces the server may not have
	written      int64        // bytes the server may have in memory only
	backlog      int64        // bytes in queue
	commitWindow commitWindow // bytes before a COMMIT
	full         int64        // end of the last piece that was filled

	seq      uint64 // of the youngest piece
	sendTo   uint64 // pieces up to this seq must be sent,
	stableTo uint64 // and made stable; 0 if they are
	barrier  uint64 // pieces up to this seq are waited for, and must not be replaced
	waiters  int    // number of calls of until that rely on barrier

	timer *time.Timer
	aging bool // timer runs

	turn     uint64 // counts calls of Sync
	lastAttr lastAttr

	verf uint64 // the server's latest write verifier
	met  bool   // verf is set
}

// WriteBehind returns a WriteBehind for f. Its data count against budget, and
// are no more than Config.Window at a time. It calls failed for each failure,
// before the Flush or Sync that waits for the data returns. failed must not use
// the WriteBehind. After Close, failed is not called any more.
func (f *File) WriteBehind(budget *Budget, failed func(err error)) *WriteBehind {
	ctx, stop := context.WithCancel(context.Background())
	w := &WriteBehind{
		f:      f,
		failed: failed,
		budget: budget,
		window: NewBudget(int64(max(f.fs.c.cfg.Window, 2*f.fs.writeSize))),
		stop:   stop,
		full:   -1,
	}
	w.commitWindow.bytes = min(minLot, w.window.limit/2)
	w.spawn = func(call func(ctx context.Context)) { w.calls.Go(func() { call(ctx) }) }
	w.aging, w.timer = true, time.AfterFunc(linger, w.age)
	w.window.join(w)
	budget.join(w)
	return w
}

// Write takes a copy of p, to be written at offset off. It waits while there is
// no room, and while a Flush or Sync waits for data that p overlaps. If Write
// returns an error, part of p may have been taken.
func (w *WriteBehind) Write(ctx context.Context, p []byte, off int64) error {
	switch {
	case off < 0:
		return errNegative
	case off > math.MaxInt64-int64(len(p)):
		return errTooFar
	}
	for len(p) > 0 {
		n, err := w.take(ctx, p, off)
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Flush returns when all data written before it that did not fail are at the
// server, possibly only in the server's memory.
func (w *WriteBehind) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	upTo := w.seq
	w.sendTo = upTo
	w.pump()
	return w.until(ctx, upTo, w.unsentUpTo)
}

// Sync returns when all data written before it that did not fail are on stable
// storage. A single piece costs a single call.
func (w *WriteBehind) Sync(ctx context.Context) error {
	_, err := w.SyncStat(ctx)
	return err
}

// SyncStat is Sync, and returns the file's attributes from the reply to a call
// that began after SyncStat did, when the server had all data. If no such call
// was made, the attributes are not OK.
func (w *WriteBehind) SyncStat(ctx context.Context) (a nfs3.PostOpAttr, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	turn, upTo := w.turn, w.seq
	w.stableTo = upTo
	w.pump()
	err = w.until(ctx, upTo, w.heldUpTo)
	if err == nil && w.lastAttr.turn >= turn {
		a = w.lastAttr.attr
	}
	return a, err
}

// until waits until left(seq) is false: no piece up to seq is left.
func (w *WriteBehind) until(ctx context.Context, seq uint64, left func(seq uint64) bool) error {
	w.waiters++
	w.barrier = max(w.barrier, seq)
	defer func() {
		if w.waiters--; w.waiters == 0 {
			w.barrier = 0
			w.wake()
		}
	}()
	for !w.closed && left(seq) {
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
	if w.closed {
		return errClosed
	}
	return nil
}

// Pending returns the smallest range with all data that may not be at the
// server yet, and whether any such data exist.
func (w *WriteBehind) Pending() (from, to int64, any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unsent == 0 && len(w.flights) == 0 {
		return 0, 0, false
	}
	var s span
	for _, e := range w.pieces {
		if e.state.unsent() {
			s.add(&e.piece)
		}
	}
	for _, c := range w.flights {
		s.add(&c.piece)
	}
	return s.from, s.to, true
}

// Close drops data that are not on stable storage, abandons the calls under way
// and frees all memory. Over RDMA, abandoning a call can cost the connection;
// after a Sync no call is under way.
func (w *WriteBehind) Close() {
	w.mu.Lock()
	w.closed = true
	w.timer.Stop()
	for _, e := range w.pieces {
		w.discard(e)
	}
	w.pieces, w.queue, w.open = nil, nil, nil
	w.wake()
	w.mu.Unlock()
	w.stop()
	w.calls.Wait()
	w.budget.leave(w)
}

// wait unlocks w until something changes.
func (w *WriteBehind) wait(ctx context.Context) error {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	changed := w.changed
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *WriteBehind) wake() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// age puts data on stable storage that have been here for linger.
func (w *WriteBehind) age() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aging = false
	w.stableTo = w.seq
	w.pump()
}

// poke makes w check whether another writer needs room.
func (w *WriteBehind) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pump()
}
