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
	errTooFar = fmt.Errorf("the end of the data has an offset that no file has: %w", syscall.EFBIG)
)

// A WriteBehind takes data for one file and writes them later, several WRITEs
// at a time: what is adjacent in one. It keeps a copy until the server has the
// data on stable storage (COMMIT), and writes again what a server loses that is
// started again. After some seconds it does all that unasked.
//
// Where writes overlap, the later one counts, at all times and after any loss.
// Its calls do not end with the context of who wrote.
//
// A failure loses the data concerned, or all that were not sent yet where the
// server cannot be reached. It is handed to the function that WriteBehind was
// given, which knows who has to be told, and all goes on as if nothing had
// happened: Write, Flush and Sync return other errors only.
type WriteBehind struct {
	f      *File
	failed func(err error)
	budget *Budget // of all files together
	window *Budget // of this file

	spawn func(call func(ctx context.Context)) // until Close
	calls sync.WaitGroup
	stop  context.CancelFunc // of all calls

	mu           sync.Mutex
	changed      chan struct{} // closed when anything changes; nil if nobody waits
	closed       bool
	pieces       extents      // all data that are not on stable storage
	open         *extent      // which still grows, or nil
	queue        []*extent    // to be sent
	flights      []*flight    // under way
	commit       bool         // is under way
	unsent       int          // pieces that the server may not have
	written      int64        // octets that it may have in memory only
	backlog      int64        // octets in queue
	commitWindow commitWindow // of a COMMIT
	full         int64        // end of the last piece that was filled

	seq      uint64 // of the youngest piece
	sendTo   uint64 // pieces up to this one are to be sent,
	stableTo uint64 // and made stable; 0 when they are
	barrier  uint64 // pieces up to this one are waited for and must not be replaced
	waiters  int    // who set barrier

	timer *time.Timer
	aging bool // timer runs

	turn     uint64 // of Sync
	lastAttr lastAttr

	verf uint64 // that the server showed last
	met  bool   // it has shown one
}

// WriteBehind returns a WriteBehind for f. Its data count against budget, and
// are no more than Config.Window at a time. failed is called for each failure,
// before the Flush or Sync that waits for the data returns; it must not use the
// WriteBehind. After Close it is not called any more.
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
	w.commitWindow.octets = min(minLot, w.window.limit/2)
	w.spawn = func(call func(ctx context.Context)) { w.calls.Go(func() { call(ctx) }) }
	w.aging, w.timer = true, time.AfterFunc(linger, w.age)
	w.window.join(w)
	budget.join(w)
	return w
}

// Write takes a copy of p, to be written at offset off. It waits where there is
// no room, or while a Flush or Sync waits for data that p overlaps. With an
// error, part of p may have been taken.
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

// Flush returns when all that was written before and did not fail is at the
// server, perhaps only in its memory.
func (w *WriteBehind) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	upTo := w.seq
	w.sendTo = upTo
	w.pump()
	return w.until(ctx, upTo, w.unsentUpTo)
}

// Sync returns when all that was written before and did not fail is on stable
// storage. A single piece costs a single call.
func (w *WriteBehind) Sync(ctx context.Context) error {
	_, err := w.SyncStat(ctx)
	return err
}

// SyncStat is Sync, and returns what the server said of the file in answer to a
// call that was made after SyncStat was, when the server had all data: nothing,
// if there was no such call.
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

// until waits until no piece up to a certain one is left.
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
// server yet, and whether there are any.
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

// Close drops what is not on stable storage, gives up the calls under way and
// gives all memory back. Over RDMA, a call that is given up can cost the
// connection; after a Sync there is none.
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

// age puts on stable storage what has been here for a while.
func (w *WriteBehind) age() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aging = false
	w.stableTo = w.seq
	w.pump()
}

// poke makes w look whether somebody needs room.
func (w *WriteBehind) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pump()
}
