package fusefs

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// What is asked for, and what lets attributes be served.
const (
	ofFile       = delegation.FileData | delegation.FileAttributes
	ofAttributes = delegation.FileAttributes | delegation.Directory
)

// A delegationState is under what a node is served without a call (docs/delegation.md). It is
// under the node's lock, but for adrift.
//
// What a call says that began when the grant had come is so until drop: nobody else
// changes it. What this mount changes by itself, the cache's ticks tell.
type delegationState struct {
	grant   uint64 // the tick at which it came; 0: there is none
	dropped uint64 // the tick of the last drop
	pages   *pages // what the kernel has of a file; nil: nothing

	// using says that the object has a user: what the kernel was told may be
	// served at any time, until lent. touched says that somebody asked since
	// rest looked.
	using, touched bool
	lent           instant

	// uncertain says that a change of ours was given up, and the server may make it
	// at any time without a word to us: nothing is served any more.
	uncertain atomic.Bool

	// late counts changes of ours that go on although the program was killed that
	// asked for them: nothing is believed until they have ended.
	late atomic.Int32
}

// loose tells whether a change of ours may come at any time.
func (n *node) loose() bool { return n.uncertain.Load() || n.late.Load() > 0 }

// trustLocked returns for how long what was learned of n under its grant may be served,
// if the grant is of one of the types; 0 where that is not so now.
func (n *node) trustLocked(types delegation.Types) time.Duration {
	if n.grant == 0 || !n.using || n.object().Types()&types == 0 || n.loose() {
		return 0
	}
	return n.object().Trust()
}

// trusted makes sure that what was learned of n under its grant may be served, and
// returns false where that cannot be had. It may wait for an atomic operation.
func (n *node) trusted(o *op, types delegation.Types) bool {
	if n.object().Types()&types == 0 || n.loose() {
		return false
	}
	n.mu.Lock()
	using := n.using
	n.using, n.touched = true, true
	n.mu.Unlock()
	if using {
		return n.object().Check(o)
	}
	return n.object().Open(o)
}

// holdable tells whether types of n may be had at the server, now or later.
func (m *Mount) holdable(n *node) bool {
	if n.loose() {
		return false
	}
	if o := n.own.Load(); o != nil {
		return m.cfg.Held.Available(o)
	}
	return m.cfg.Held.Offers(n.fh)
}

// nothing is the object of nodes of which nothing has been asked for: nothing is held of
// it, and never will be.
var nothing delegclient.Object

// object returns what is held of n.
func (n *node) object() *delegclient.Object {
	if o := n.own.Load(); o != nil {
		return o
	}
	return &nothing
}

// asks returns the object by which something is asked for.
func (n *node) asks() *delegclient.Object {
	if n.own.Load() == nil {
		o := new(delegclient.Object)
		n.m.cfg.Held.Init(o, n.fh, n)
		n.own.CompareAndSwap(nil, o)
	}
	return n.own.Load()
}

// unheld ends what is held of n, for ever.
func (n *node) unheld() {
	if !n.own.CompareAndSwap(nil, &nothing) {
		n.m.cfg.Held.Forget(n.own.Load())
	}
}

// acquire asks the server for n, if that is of use now, in the name of who makes the
// request, and takes the attributes that come with it. It tells whether anything came.
func (m *Mount) acquire(o *op, n *node, types delegation.Types) bool {
	if types == 0 || !m.holdable(n) {
		return false
	}
	n.mu.Lock()
	if n.object().Types() == 0 {
		n.grant = 0 // before the object is held again
	}
	n.mu.Unlock()
	began := m.tick()
	g, err := m.cfg.Held.Acquire(o, n.asks(), types, o.who().cred)
	if err != nil || g.Types == 0 { // who needs an answer makes another call
		return false
	}
	if g.Types&ofAttributes != 0 {
		m.whole.Store(true)
	}
	r := xdr.NewReader(g.Attr[:])
	var a nfs3.Attr
	a.Decode(&r)
	m.granted(n, began, &a, r.Err() == nil)
	return true
}

// granted takes a grant that was asked for at tick began. It may have been dropped
// already, and have been followed by another: then its attributes are old.
func (m *Mount) granted(n *node, began uint64, a *nfs3.Attr, counts bool) {
	now := m.tick()
	n.mu.Lock()
	changed := false
	if counts && began > n.changed && began > n.dropped {
		changed = m.takeLocked(n, began, a)
		n.learnt = now
	}
	n.grant, n.since = now, now
	second := n.using
	n.using = true
	n.mu.Unlock()
	if second {
		n.object().Close()
	}
	if changed {
		m.expire(n) // and what the kernel believes from before
	}
}

// rest ends the use of what nobody has used since it was called last, and what the
// kernel does not serve any more: the server may take that back without a word, where
// it wants room. The next use begins with an atomic operation.
func (m *Mount) rest() {
	for _, n := range m.table.all() {
		n.mu.Lock()
		idle := n.using && !n.touched && n.lent.left() <= 0
		n.touched = false
		n.using = n.using && !idle
		n.mu.Unlock()
		if idle {
			n.object().Close()
		}
	}
}

// lendLocked notes that the kernel was told something of n that it believes for so
// long.
func (n *node) lendLocked(life time.Duration) {
	if until := at(time.Now().Add(life)); n.using && until > n.lent {
		n.lent = until
	}
}

// unsure takes the outcome of a change of ours. Where the server has not said what it
// is, it may come yet, and the kernel serves nothing any more either.
func unsure(err error, changed ...*node) {
	var refused *nfsclient.Error
	var auth rpcmsg.AuthError
	if err == nil || errors.Is(err, nfsclient.ErrNotMade) || errors.As(err, &refused) || errors.As(err, &auth) {
		return
	}
	for _, n := range changed {
		n.unlend(n.uncertain.CompareAndSwap(false, true))
	}
}

// unlend makes the kernel ask for n's attributes and, where it may be the first time,
// for the names in n.
func (n *node) unlend(first bool) {
	n.m.expire(n)
	if first && n.directory.Load() != nil {
		n.m.notes.Go(func() { n.m.forgetNames(n) })
	}
}
