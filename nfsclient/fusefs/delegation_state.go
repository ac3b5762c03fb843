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
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// fileTypes are the delegation types to request for a file. A delegation of any
// type in attrTypes allows attributes to be served from the cache.
const (
	fileTypes = delegation.FileData | delegation.FileAttributes
	attrTypes = delegation.FileAttributes | delegation.Directory
)

// A delegationState is the state of the delegation under which a node is served
// without calls (docs/delegation.md). The node's mutex guards it, except for
// uncertain and lateChanges.
//
// The reply to a call that began after the grant is valid until dropDelegation: no
// other client changes the object. The ticks in attrCache show changes by this
// mount.
type delegationState struct {
	grant     uint64       // tick of the grant; 0: no delegation
	droppedAt uint64       // tick of the last dropDelegation
	pages     *cachedPages // a file's pages in the kernel; nil: none

	// using is set while the object is in use: the kernel may serve from its cache
	// at any time, until lentUntil. touched is set by each use since the last
	// releaseIdleNodes.
	using, touched bool
	lentUntil      instant

	// uncertain is set when we abandoned a change. The server may still make the
	// change at any time without notice, so nothing is served from the cache any
	// more.
	uncertain atomic.Bool

	// lateChanges counts our changes that are still in flight although the program
	// that requested them was killed. Until they have completed, no cached state is
	// valid.
	lateChanges atomic.Int32
}

// hasUnsettledChange reports whether one of our changes may take effect at any
// time.
func (n *node) hasUnsettledChange() bool { return n.uncertain.Load() || n.lateChanges.Load() > 0 }

// trustTimeLocked returns how long from now state learned under n's grant may be
// served, if the delegation has one of types; 0 means not now.
func (n *node) trustTimeLocked(types delegation.Types) time.Duration {
	if n.grant == 0 || !n.using || n.delegationObject().Types()&types == 0 || n.hasUnsettledChange() {
		return 0
	}
	return n.delegationObject().Trust()
}

// ensureTrusted makes sure that state learned under n's grant may be served, and
// reports whether that succeeded. It may wait for an RDMA atomic operation.
func (n *node) ensureTrusted(o *op, types delegation.Types) bool {
	if n.delegationObject().Types()&types == 0 || n.hasUnsettledChange() {
		return false
	}
	n.mu.Lock()
	using := n.using
	n.using, n.touched = true, true
	n.mu.Unlock()
	if using {
		return n.delegationObject().Check(o)
	}
	return n.delegationObject().Open(o)
}

// isDelegatable reports whether the server may delegate n, now or later.
func (m *Mount) isDelegatable(n *node) bool {
	if n.hasUnsettledChange() {
		return false
	}
	if o := n.delegObject.Load(); o != nil {
		return m.cfg.Held.Available(o)
	}
	return m.cfg.Held.Offers(n.fh)
}

// nothing is the object of nodes for which no delegation has been requested. It
// never holds a delegation.
var nothing delegclient.Object

// delegationObject returns n's delegation object, or nothing.
func (n *node) delegationObject() *delegclient.Object {
	if o := n.delegObject.Load(); o != nil {
		return o
	}
	return &nothing
}

// ensureObject returns the object with which to request a delegation, and creates
// it if needed.
func (n *node) ensureObject() *delegclient.Object {
	if n.delegObject.Load() == nil {
		o := new(delegclient.Object)
		n.m.cfg.Held.Init(o, n.fh, n)
		n.delegObject.CompareAndSwap(nil, o)
	}
	return n.delegObject.Load()
}

// forgetDelegation ends n's delegation permanently.
func (n *node) forgetDelegation() {
	if !n.delegObject.CompareAndSwap(nil, &nothing) {
		n.m.cfg.Held.Forget(n.delegObject.Load())
	}
}

// acquireDelegation requests a delegation of n. If that shows changed attributes,
// the kernel must fetch them again, because it may cache older ones.
func (m *Mount) acquireDelegation(o *op, n *node, types delegation.Types) bool {
	held, changed := m.requestDelegation(o, n, types)
	if changed {
		m.expireAttr(n)
	}
	return held
}

// requestDelegation requests a delegation of n from the server, if that is useful
// now, under the identity of the request's caller. It stores the attributes from
// the reply, and reports whether a delegation was granted, and whether the
// attributes have changed.
func (m *Mount) requestDelegation(o *op, n *node, types delegation.Types) (held, changed bool) {
	if types == 0 || !m.isDelegatable(n) {
		return false, false
	}
	who := o.requestCaller()
	if who.denied {
		return false, false
	}
	n.mu.Lock()
	if n.delegationObject().Types() == 0 {
		n.grant = 0 // before another grant
	}
	n.mu.Unlock()
	began := m.nextTick()
	g, err := m.cfg.Held.Acquire(o, n.ensureObject(), types, who.cred)
	if err != nil || g.Types == 0 { // a caller that needs attributes sends another call
		return false, false
	}
	if g.Types&attrTypes != 0 {
		m.grantsAttr.Store(true)
	}
	r := xdr.NewReader(g.Attr[:])
	var a nfs3.Attr
	a.Decode(&r)
	return true, m.recordGrant(n, began, &a, r.Err() == nil)
}

// recordGrant records a delegation that was requested at tick began. The delegation
// may have been dropped already, and another granted since: then its attributes are
// old and are ignored. valid reports that a is valid. recordGrant reports whether a
// shows a change.
func (m *Mount) recordGrant(n *node, began uint64, a *nfs3.Attr, valid bool) (changed bool) {
	now := m.nextTick()
	n.mu.Lock()
	if valid && began > n.changedAt && began > n.droppedAt {
		changed = m.storeAttrLocked(n, began, a)
		n.learnedAt = now
	}
	n.grant, n.validFrom = now, now
	second := n.using
	n.using = true
	n.mu.Unlock()
	if second {
		n.delegationObject().Close()
	}
	return changed
}

// releaseIdleNodes ends the use of nodes that have not been used since its last
// call and that the kernel no longer serves. The server may then reclaim such a
// delegation without a recall if it needs space. The next use begins with an RDMA
// atomic operation.
func (m *Mount) releaseIdleNodes() {
	for _, n := range m.table.listNodes() {
		n.mu.Lock()
		idle := n.using && !n.touched && n.lentUntil.timeLeft() <= 0
		n.touched = false
		n.using = n.using && !idle
		n.mu.Unlock()
		if idle {
			n.delegationObject().Close()
		}
	}
}

// extendLentLocked records that the kernel may cache something about n for life
// from now.
func (n *node) extendLentLocked(life time.Duration) {
	if until := instantOf(time.Now().Add(life)); n.using && until > n.lentUntil {
		n.lentUntil = until
	}
}

// markIfUncertain marks the changed nodes uncertain, unless the server has said
// whether it made our change. The change may still take effect, so the kernel must
// not serve anything either.
func markIfUncertain(err error, changed ...*node) {
	var refused *nfsclient.Error
	var auth rpcmsg.AuthError
	if err == nil || errors.Is(err, nfsclient.ErrNotMade) || errors.As(err, &refused) || errors.As(err, &auth) {
		return
	}
	for _, n := range changed {
		n.expireNode(n.uncertain.CompareAndSwap(false, true))
	}
}

// expireNode makes the kernel fetch n's attributes again and, if first, the names
// in n.
func (n *node) expireNode(first bool) {
	n.m.expireAttr(n)
	if first && n.directory.Load() != nil {
		n.m.notifications.Go(func() { n.m.recallLentNames(n) })
	}
}
