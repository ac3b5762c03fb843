package fusefs

import (
	"context"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// pending is what programs wrote to a node and the server may not have yet.
type pending struct {
	mu      sync.Mutex
	w       *writer
	writers int   // open files that may write
	lost    error // of data, and nobody has been told
}

// A writer takes data in the name of one opener.
type writer struct {
	wb    *nfsclient.WriteBehind
	who   *caller
	users int  // that are in a method of wb
	over  bool // another has taken its place; the last user closes wb
}

// extent returns the range of the file that may not be at the server.
func (p *pending) extent() (from, to int64, any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		return 0, 0, false
	}
	return p.w.wb.Pending()
}

// use returns the present writer, or nil. Who gets it calls unuse.
func (p *pending) use() *writer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		p.w.users++
	}
	return p.w
}

func (p *pending) unuse(w *writer) {
	p.mu.Lock()
	w.users--
	last := w.over && w.users == 0
	p.mu.Unlock()
	if last {
		w.wb.Close()
	}
}

// keep notes a failure for the next who asks by fsync or close.
func (p *pending) keep(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = err
	}
}

// take returns the failure that nobody has been told of.
func (p *pending) take() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.lost
	p.lost = nil
	return err
}

// writerFor returns the writer of n for data of who. Data of another go to the
// server first: the order of writes counts.
func (m *Mount) writerFor(o *op, n *node, who *caller) (*writer, error) {
	p := &n.pending
	for {
		w := p.use()
		if w == nil {
			p.mu.Lock()
			if p.w == nil {
				p.w = &writer{wb: m.cfg.FS.File(n.fh).As(who.cred).WriteBehind(m.budget), who: who}
			}
			p.mu.Unlock()
			continue
		}
		if w.who.same(who) {
			return w, nil
		}
		err := w.wb.Sync(o)
		p.unuse(w)
		switch {
		case o.Err() != nil:
			return nil, o.Err()
		case err != nil:
			p.keep(err)
		}
		p.retire(w)
	}
}

// retire closes a writer, now or when its last user has done.
func (p *pending) retire(w *writer) {
	p.mu.Lock()
	if p.w != w {
		p.mu.Unlock()
		return
	}
	p.w, w.over = nil, true
	idle := w.users == 0
	p.mu.Unlock()
	if idle {
		w.wb.Close()
	}
}

// wrote notes that data of n up to end are on their way. What calls under way
// say of n is outdated.
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

// arrived notes that n's first writes are at the server, of which count were
// made. What calls that begin from now on say of n knows of them, and so does a,
// if it is not nil and OK, of a call that began after tick began.
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

// flush returns when everything that was written to n is at the server. An
// error of the data is kept for who calls fsync or close; flush's own is that o
// has ended.
func (m *Mount) flush(o context.Context, n *node) error {
	count := n.writesOf()
	w := n.pending.use()
	if w == nil {
		m.arrived(n, count, 0, nil)
		return nil
	}
	defer n.pending.unuse(w)
	err := w.wb.Flush(o)
	switch {
	case o.Err() != nil:
		return o.Err()
	case err != nil:
		n.pending.keep(err)
	}
	m.arrived(n, count, 0, nil)
	return nil
}

// sync returns when everything that was written to n is on stable storage, with
// the first error that nobody was told of.
func (m *Mount) sync(o context.Context, n *node) error {
	count := n.writesOf()
	w := n.pending.use()
	if w == nil {
		m.arrived(n, count, 0, nil)
		return n.pending.take()
	}
	defer n.pending.unuse(w)
	began := m.tick()
	a, err := w.wb.SyncStat(o)
	if o.Err() != nil {
		return o.Err()
	}
	m.arrived(n, count, began, &a)
	if lost := n.pending.take(); lost != nil {
		return lost
	}
	return err
}
