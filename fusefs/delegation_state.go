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

// ofFile is the types to request for a file. A delegation of any type in
// ofAttributes allows attributes to be served from the cache.
const (
	ofFile       = delegation.FileData | delegation.FileAttributes
	ofAttributes = delegation.FileAttributes | delegation.Directory
)

// A delegationState is the state of the delegation under which a node is served
// without calls (docs/delegation.md). The node's mutex guards it, except for
// uncertain and late.
//
// The reply to a call that began after the grant is true until drop: nobody
// else changes the object. Changes by this mount show in the ticks of cache.
type delegationState struct {
	grant   uint64 // tick of the grant; 0: no delegation
	dropped uint64 // the tick of the last drop
	pages   *pages // pages of a file in the kernel; nil: none

	// using is set while the object has a user: the kernel may serve from its
	// cache at any time, until lent. touched is set by each use since rest last
	// looked.
	using, touched bool
	lent           instant

	// uncertain is set when a change of ours was abandoned. The server may
	// still make the change at any time without a word to us: nothing is served
	// any more.
	uncertain atomic.Bool

	// late counts changes of ours that are still under way although the program
	// that asked for them was killed. Nothing is believed until they have
	// ended.
	late atomic.Int32
}

// loose reports whether a change of ours may take effect at any time.
func (n *node) loose() bool { return n.uncertain.Load() || n.late.Load() > 0 }

// trustLocked returns for how long from now state learned under n's grant may
// be served, if the delegation has one of types; 0 means not now.
func (n *node) trustLocked(types delegation.Types) time.Duration {
	if n.grant == 0 || !n.using || n.object().Types()&types == 0 || n.loose() {
		return 0
	}
	return n.object().Trust()
}

// trusted makes sure that state learned under n's grant may be served, and
// reports whether that succeeded. It may wait for an atomic operation.
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

// holdable reports whether the server may delegate n, now or later.
func (m *Mount) holdable(n *node) bool {
	if n.loose() {
		return false
	}
	if o := n.own.Load(); o != nil {
		return m.cfg.Held.Available(o)
	}
	return m.cfg.Held.Offers(n.fh)
}

// nothing is the object of nodes for which nothing has been requested. It never
// holds a delegation.
var nothing delegclient.Object

// object returns n's delegation object, or nothing.
func (n *node) object() *delegclient.Object {
	if o := n.own.Load(); o != nil {
		return o
	}
	return &nothing
}

// asks returns the object to request a delegation with, and makes it if needed.
func (n *node) asks() *delegclient.Object {
	if n.own.Load() == nil {
		o := new(delegclient.Object)
		n.m.cfg.Held.Init(o, n.fh, n)
		n.own.CompareAndSwap(nil, o)
	}
	return n.own.Load()
}

// unheld ends n's delegation for good.
func (n *node) unheld() {
	if !n.own.CompareAndSwap(nil, &nothing) {
		n.m.cfg.Held.Forget(n.own.Load())
	}
}

// acquire asks the server for a delegation of n, if that is of use now, under
// the identity of the request's caller. It stores the attributes in the reply,
// and reports whether a delegation was granted.
func (m *Mount) acquire(o *op, n *node, types delegation.Types) bool {
	if types == 0 || !m.holdable(n) {
		return false
	}
	n.mu.Lock()
	if n.object().Types() == 0 {
		n.grant = 0 // before another grant
	}
	n.mu.Unlock()
	began := m.tick()
	g, err := m.cfg.Held.Acquire(o, n.asks(), types, o.who().cred)
	if err != nil || g.Types == 0 { // a caller that needs an answer makes another call
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

// granted records a delegation that was requested at tick began. The delegation
// may have been dropped already, and another granted since: then its attributes
// are old and are ignored. counts says that a is valid.
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
		m.expire(n) // the kernel may believe older attributes
	}
}

// rest closes the use of nodes that have not been used since its last call and
// that the kernel no longer serves. The server may then take such a delegation
// back without a recall if it needs room. The next use begins with an atomic
// operation.
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

// lendLocked notes that the kernel may believe something about n for life from
// now.
func (n *node) lendLocked(life time.Duration) {
	if until := at(time.Now().Add(life)); n.using && until > n.lent {
		n.lent = until
	}
}

// unsure takes the outcome of a change of ours. If the server has not said
// whether it made the change, the change may still come, and the kernel must
// serve nothing any more either.
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

// unlend makes the kernel ask for n's attributes again and, if first, for the
// names in n.
func (n *node) unlend(first bool) {
	n.m.expire(n)
	if first && n.directory.Load() != nil {
		n.m.notes.Go(func() { n.m.forgetNames(n) })
	}
}
