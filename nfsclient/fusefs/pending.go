package fusefs

import (
	"context"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// pendingWrites holds the data that programs wrote to a node and that the server
// may not have yet, and records lost data.
type pendingWrites struct {
	mu      sync.Mutex
	w       *writer
	writers int // number of open files that may write
	reads   pageReads
	losses  writeErrors
}

// A writer accepts data from one caller.
type writer struct {
	wb     *nfsclient.WriteBehind
	who    *caller
	users  int           // number of goroutines in a method of wb
	takers int           // number of users that are adding data
	taken  uint64        // total number of takers so far
	closed bool          // accepts no more data; another writer must replace it
	idle   chan struct{} // closed when there are no takers; nil: no goroutine waits
}

// ensurePending returns n's pendingWrites, creating it if needed.
func (n *node) ensurePending() *pendingWrites {
	p := n.pending.Load()
	if p == nil {
		n.pending.CompareAndSwap(nil, new(pendingWrites))
		p = n.pending.Load()
	}
	return p
}

// unsentRange returns the file range that may not be at the server.
func (n *node) unsentRange() (from, to int64, any bool) {
	p := n.pending.Load()
	if p == nil {
		return 0, 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		return 0, 0, false
	}
	return p.w.wb.Pending()
}

// acquireWriter returns the current writer, or nil. The caller must call
// releaseWriter.
func (n *node) acquireWriter() (*pendingWrites, *writer) {
	p := n.pending.Load()
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		p.w.users++
	}
	return p, p.w
}

// releaseWriter ends one use of w. The last use of a writer that is no longer
// current closes the writer.
func (p *pendingWrites) releaseWriter(w *writer) {
	p.mu.Lock()
	w.users--
	last := p.w != w && w.users == 0
	p.mu.Unlock()
	if last {
		w.wb.Close()
	}
}

// retireWriter removes w as the current writer. The caller must be using w. Data that
// w has not put on stable storage are lost.
func (p *pendingWrites) retireWriter(w *writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retireLocked(w)
}

func (p *pendingWrites) retireLocked(w *writer) {
	if p.w == w {
		p.w = nil
	}
}

// releaseTaker ends one use of w that added data.
func (p *pendingWrites) releaseTaker(w *writer) {
	p.mu.Lock()
	if w.takers--; w.takers == 0 && w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
	p.mu.Unlock()
	p.releaseWriter(w)
}

// removeOpenWriter removes one of the open files that may write. If it was the
// last, removeOpenWriter returns the current writer, in use, and its total number
// of takers.
func (p *pendingWrites) removeOpenWriter() (w *writer, taken uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers--; p.writers > 0 || p.w == nil {
		return nil, 0
	}
	p.w.users++
	return p.w, p.w.taken
}

// writerFor returns n's writer for data from caller who. The caller must call
// releaseTaker. Data from another caller are sent first, because the write order
// matters.
func (m *Mount) writerFor(o *op, n *node, who *caller) (*pendingWrites, *writer, error) {
	p := n.ensurePending()
	for {
		p.mu.Lock()
		if p.w == nil {
			failed := func(err error) { m.recordLoss(n, err) }
			p.w = &writer{wb: m.cfg.FS.File(n.fh).As(who.cred).WriteBehind(m.budget, failed), who: who}
		}
		w := p.w
		w.users++
		if w.who.isSame(who) && !w.closed {
			w.takers++
			w.taken++
			p.mu.Unlock()
			return p, w, nil
		}
		w.closed = true
		p.mu.Unlock()
		err := p.drainWriter(o, w)
		p.releaseWriter(w)
		if err != nil {
			return nil, nil, err
		}
	}
}

// drainWriter retires a writer that accepts no more data, once all its data are on
// stable storage.
func (p *pendingWrites) drainWriter(o *op, w *writer) error {
	p.mu.Lock()
	if w.takers > 0 && w.idle == nil {
		w.idle = make(chan struct{})
	}
	idle := w.idle
	p.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-o.Done():
			return o.Err()
		}
	}
	err := w.wb.Sync(o)
	if err == nil {
		p.retireWriter(w)
	}
	return err
}

// recordWrite records that data for n up to end are in flight. The attributes of n
// in replies to calls now in flight are outdated.
func (m *Mount) recordWrite(n *node, end uint64) {
	now := m.nextTick()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writtenEnd = max(n.writtenEnd, end)
	n.toldStamp.Size = max(n.toldStamp.Size, end)
	n.validFrom, n.changedAt, n.dataChangedAt = now, now, now
	n.sentAt, n.behind = math.MaxUint64, true
	n.writes++
}

// countWrites returns the number of writes to n.
func (n *node) countWrites() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writes
}

// recordArrival records that n's first count writes are at the server. Replies to
// calls that begin from now on reflect these writes; so does a, if not nil and
// OK, from a call that began after tick began.
func (m *Mount) recordArrival(n *node, count, began uint64, a *nfs3.PostOpAttr) {
	now := m.nextTick()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.writes != count || n.sentAt != math.MaxUint64 {
		return
	}
	n.sentAt = now
	if a != nil && a.OK && began >= n.validFrom {
		n.sentAt = began
		m.storeAttrLocked(n, began, &a.Attr)
	}
	n.validFrom, n.changedAt, n.dataChangedAt = now, now, now
}

// flushData returns nil when all data written to n are at the server or lost, and
// an error if o is canceled.
func (m *Mount) flushData(o context.Context, n *node) error {
	count := n.countWrites()
	p, w := n.acquireWriter()
	if w == nil {
		m.recordArrival(n, count, 0, nil)
		return nil
	}
	defer p.releaseWriter(w)
	if err := w.wb.Flush(o); err != nil {
		return err
	}
	m.recordArrival(n, count, 0, nil)
	return nil
}

// syncData returns nil when all data written to n are on stable storage or lost,
// and an error if o is canceled.
func (m *Mount) syncData(o context.Context, n *node) error {
	count := n.countWrites()
	p, w := n.acquireWriter()
	if w == nil {
		m.recordArrival(n, count, 0, nil)
		return nil
	}
	defer p.releaseWriter(w)
	began := m.nextTick()
	a, err := w.wb.SyncStat(o)
	if err != nil {
		return err
	}
	m.recordArrival(n, count, began, &a)
	return nil
}
