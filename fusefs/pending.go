package fusefs

import (
	"context"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// pending holds the data that programs wrote to a node and that the server may
// not have yet, and records of lost data.
type pending struct {
	mu      sync.Mutex
	w       *writer
	writers int // open files that may write
	losses  losses
}

// A writer takes data in the name of one caller.
type writer struct {
	wb     *nfsclient.WriteBehind
	who    *caller
	users  int           // number of goroutines in a method of wb
	takers int           // number of users that are handing over data
	taken  uint64        // total number of takers so far
	over   bool          // takes no more data; another writer must take its place
	idle   chan struct{} // closed when there are no takers; nil: no goroutine waits
}

// pend returns n's pending, creating it if needed.
func (n *node) pend() *pending {
	p := n.pending.Load()
	if p == nil {
		n.pending.CompareAndSwap(nil, new(pending))
		p = n.pending.Load()
	}
	return p
}

// unsent returns the range of the file that may not be at the server.
func (n *node) unsent() (from, to int64, any bool) {
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

// use returns the current writer, or nil. The caller must call unuse.
func (n *node) use() (*pending, *writer) {
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

// unuse ends a use. The last unuse of a writer that is no longer current closes
// the writer.
func (p *pending) unuse(w *writer) {
	p.mu.Lock()
	w.users--
	last := p.w != w && w.users == 0
	p.mu.Unlock()
	if last {
		w.wb.Close()
	}
}

// retire removes w as the current writer. The caller must be using w. Data that
// w has not put on stable storage are lost.
func (p *pending) retire(w *writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retireLocked(w)
}

func (p *pending) retireLocked(w *writer) {
	if p.w == w {
		p.w = nil
	}
}

// took ends the use by a taker, which handed over data.
func (p *pending) took(w *writer) {
	p.mu.Lock()
	if w.takers--; w.takers == 0 && w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
	p.mu.Unlock()
	p.unuse(w)
}

// closed counts down the open files that may write. If this was the last,
// closed returns the current writer, in use, and its total number of takers.
func (p *pending) closed() (w *writer, taken uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers--; p.writers > 0 || p.w == nil {
		return nil, 0
	}
	p.w.users++
	return p.w, p.w.taken
}

// writerFor returns the writer of n for data of caller who. The caller must
// call took. Data of another caller go to the server first, because the order
// of writes matters.
func (m *Mount) writerFor(o *op, n *node, who *caller) (*pending, *writer, error) {
	p := n.pend()
	for {
		p.mu.Lock()
		if p.w == nil {
			failed := func(err error) { m.lost(n, err) }
			p.w = &writer{wb: m.cfg.FS.File(n.fh).As(who.cred).WriteBehind(m.budget, failed), who: who}
		}
		w := p.w
		w.users++
		if w.who.same(who) && !w.over {
			w.takers++
			w.taken++
			p.mu.Unlock()
			return p, w, nil
		}
		w.over = true
		p.mu.Unlock()
		err := p.drain(o, w)
		p.unuse(w)
		if err != nil {
			return nil, nil, err
		}
	}
}

// drain retires a writer that takes no more data, once all its data are on
// stable storage.
func (p *pending) drain(o *op, w *writer) error {
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
		p.retire(w)
	}
	return err
}

// wrote records that data of n up to end are under way. The attributes of n in
// replies to calls now under way are outdated.
func (m *Mount) wrote(n *node, end uint64) {
	now := m.tick()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrote = max(n.wrote, end)
	n.told.size = max(n.told.size, end)
	n.since, n.changed = now, now
	n.sent, n.behind = math.MaxUint64, true
	n.writes++
}

// writesOf returns how often n was written to.
func (n *node) writesOf() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writes
}

// arrived records that n's first count writes are at the server. Replies to
// calls that begin from now on reflect these writes; so does a, if not nil and
// OK, from a call that began after tick began.
func (m *Mount) arrived(n *node, count, began uint64, a *nfs3.PostOpAttr) {
	now := m.tick()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.writes != count || n.sent != math.MaxUint64 {
		return
	}
	n.sent = now
	if a != nil && a.OK && began >= n.since {
		n.sent = began
		m.takeLocked(n, began, &a.Attr)
	}
	n.since, n.changed = now, now
}

// flush returns nil when all data written to n are at the server or lost, and
// an error if o has ended.
func (m *Mount) flush(o context.Context, n *node) error {
	count := n.writesOf()
	p, w := n.use()
	if w == nil {
		m.arrived(n, count, 0, nil)
		return nil
	}
	defer p.unuse(w)
	if err := w.wb.Flush(o); err != nil {
		return err
	}
	m.arrived(n, count, 0, nil)
	return nil
}

// sync returns nil when all data written to n are on stable storage or lost,
// and an error if o has ended.
func (m *Mount) sync(o context.Context, n *node) error {
	count := n.writesOf()
	p, w := n.use()
	if w == nil {
		m.arrived(n, count, 0, nil)
		return nil
	}
	defer p.unuse(w)
	began := m.tick()
	a, err := w.wb.SyncStat(o)
	if err != nil {
		return err
	}
	m.arrived(n, count, began, &a)
	return nil
}
