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
	errClosed         = fmt.Errorf("write-behind: %w", fs.ErrClosed)
	errOffsetTooLarge = fmt.Errorf("the data ends beyond the largest file offset: %w", syscall.EFBIG)
)

// A WriteBehind buffers data for one file and writes them later, with several
// WRITEs in flight, each with adjacent data. It keeps a copy until the server
// has the data on stable storage (COMMIT), and rewrites any data that a
// restarted server has lost. After linger, it writes and commits unasked.
//
// If writes overlap, the later write counts, at all times and after any loss.
// Calls to the server continue when the writer's context ends.
//
// A failure loses the data concerned, or, if the server cannot be reached, all
// data that were not sent yet. The WriteBehind passes the error to the function
// reportFailure, which must report the loss, and continues: Write, Flush and
// Sync return only other errors.
type WriteBehind struct {
	file          *File
	reportFailure func(err error)
	budget        *Budget // shared by all files
	window        *Budget // this file's limit

	startCall func(call func(ctx context.Context)) // starts a call that lasts until Close at most
	calls     sync.WaitGroup
	stop      context.CancelFunc // cancels all calls

	mu            sync.Mutex
	changed       chan struct{} // closed on any change; nil if no goroutine waits
	closed        bool
	pieces        extents      // all data not on stable storage
	openExtent    *extent      // the piece that can still grow, or nil
	queue         []*extent    // pieces to send
	writes        []*writeCall // in flight
	committing    bool         // a COMMIT is in flight
	unsentPieces  int          // number of pieces the server may not have
	unstableBytes int64        // bytes the server may have in memory only
	queuedBytes   int64        // in queue
	commitWindow  commitWindow // number of bytes to write before a COMMIT
	lastFullEnd   int64        // end of the last piece that was filled

	lastSeq    uint64 // sequence number of the youngest piece
	sendUpTo   uint64 // pieces up to this number must be sent,
	stableUpTo uint64 // and made stable; 0 when they are
	waitedUpTo uint64 // pieces up to this number have waiters and must not be replaced
	waiters    int    // number of waitUntilNone calls that rely on waitedUpTo

	lingerTimer *time.Timer
	timerRuns   bool

	syncCount uint64 // counts calls to SyncStat
	lastAttr  lastAttr

	writeVerf uint64 // the server's latest write verifier
	verfKnown bool
}

// WriteBehind returns a WriteBehind for f. Its data count against budget, and
// never exceed Config.Window. It calls reportFailure for each failure, before
// the Flush or Sync that waits for the data returns. reportFailure must not use
// the WriteBehind, and is not called after Close.
func (f *File) WriteBehind(budget *Budget, reportFailure func(err error)) *WriteBehind {
	ctx, stop := context.WithCancel(context.Background())
	w := &WriteBehind{
		file:          f,
		reportFailure: reportFailure,
		budget:        budget,
		window:        NewBudget(int64(max(f.fs.c.cfg.Window, 2*f.fs.writeSize))),
		stop:          stop,
		lastFullEnd:   -1,
	}
	w.commitWindow.bytes = min(minCommitWindow, w.window.limit/2)
	w.startCall = func(call func(ctx context.Context)) { w.calls.Go(func() { call(ctx) }) }
	w.timerRuns, w.lingerTimer = true, time.AfterFunc(linger, w.commitAged)
	w.window.addUser(w)
	budget.addUser(w)
	return w
}

// Write copies p, to be written at offset off. It waits while the budgets have
// no space, and while a Flush or Sync waits for data that p overlaps. If Write
// returns an error, part of p may have been accepted.
func (w *WriteBehind) Write(ctx context.Context, p []byte, off int64) error {
	switch {
	case off < 0:
		return errNegativeOffset
	case off > math.MaxInt64-int64(len(p)):
		return errOffsetTooLarge
	}
	for len(p) > 0 {
		n, err := w.writePart(ctx, p, off)
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
	upTo := w.lastSeq
	w.sendUpTo = upTo
	w.startCalls()
	return w.waitUntilNone(ctx, upTo, w.hasUnsentUpTo)
}

// Sync returns when all data written before it that did not fail are on stable
// storage. A single piece costs a single call.
func (w *WriteBehind) Sync(ctx context.Context) error {
	_, err := w.SyncStat(ctx)
	return err
}

// SyncStat does what Sync does, and returns the file's attributes. They come
// from the reply to a call that was sent after SyncStat began, when the server
// had all data. If there was no such call, the attributes are not OK.
func (w *WriteBehind) SyncStat(ctx context.Context) (a nfs3.PostOpAttr, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.syncCount++
	turn, upTo := w.syncCount, w.lastSeq
	w.stableUpTo = upTo
	w.startCalls()
	err = w.waitUntilNone(ctx, upTo, w.hasUnstableUpTo)
	if err == nil && w.lastAttr.syncCount >= turn {
		a = w.lastAttr.attr
	}
	return a, err
}

// waitUntilNone waits until left(seq) is false, which means that no piece up to
// seq remains.
func (w *WriteBehind) waitUntilNone(ctx context.Context, seq uint64, remains func(seq uint64) bool) error {
	w.waiters++
	w.waitedUpTo = max(w.waitedUpTo, seq)
	defer func() {
		if w.waiters--; w.waiters == 0 {
			w.waitedUpTo = 0
			w.wakeWaiters()
		}
	}()
	for !w.closed && remains(seq) {
		if err := w.waitForChange(ctx); err != nil {
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
	if w.unsentPieces == 0 && len(w.writes) == 0 {
		return 0, 0, false
	}
	var s fileRange
	for _, e := range w.pieces {
		if e.state.isUnsent() {
			s.addPiece(&e.piece)
		}
	}
	for _, c := range w.writes {
		s.addPiece(&c.piece)
	}
	return s.from, s.to, true
}

// Close drops data that are not on stable storage, abandons the calls in flight
// and frees all memory. Over RDMA, abandoning a call can cost the connection;
// after a Sync no call is in flight.
func (w *WriteBehind) Close() {
	w.mu.Lock()
	w.closed = true
	w.lingerTimer.Stop()
	for _, e := range w.pieces {
		w.discardExtent(e)
	}
	w.pieces, w.queue, w.openExtent = nil, nil, nil
	w.wakeWaiters()
	w.mu.Unlock()
	w.stop()
	w.calls.Wait()
	w.budget.removeUser(w)
}

// waitForChange unlocks w and waits until a field changes or ctx ends.
func (w *WriteBehind) waitForChange(ctx context.Context) error {
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

func (w *WriteBehind) wakeWaiters() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// commitAged commits all data when linger has passed.
func (w *WriteBehind) commitAged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timerRuns = false
	w.stableUpTo = w.lastSeq
	w.startCalls()
}

// checkPressure sends data early if another writer waits for memory.
func (w *WriteBehind) checkPressure() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.startCalls()
}
