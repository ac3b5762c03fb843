package fusefs

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// rightsCache holds the server's replies about callers' rights to an object, and
// the object's state and grant at that time.
type rightsCache struct {
	stamp   delegation.Stamp
	grant   uint64
	callers []callerRights
}

// A callerRights holds one caller's rights, as ACCESS bits.
type callerRights struct {
	who            *caller
	asked, allowed uint32
}

// cachedRightsLocked returns which of the wanted rights a caller has, if that is
// known.
func (n *node) cachedRightsLocked(who *caller, want uint32) (allowed uint32, known bool) {
	r := n.rights
	if r == nil || r.grant != n.grant || r.stamp != attrStamp(&n.attr) {
		return 0, false
	}
	for i := range r.callers {
		if b := &r.callers[i]; b.asked&want == want && b.who.isSame(who) {
			return b.allowed & want, true
		}
	}
	return 0, false
}

// storeRightsLocked records which of the requested rights a caller has.
func (n *node) storeRightsLocked(who *caller, asked, allowed uint32) {
	r := n.rights
	if r == nil || r.grant != n.grant || r.stamp != attrStamp(&n.attr) {
		r = &rightsCache{grant: n.grant, stamp: attrStamp(&n.attr)}
		n.rights = r
	}
	for i := range r.callers {
		if b := &r.callers[i]; b.who.isSame(who) {
			b.asked, b.allowed = b.asked|asked, b.allowed&^asked|allowed&asked
			return
		}
	}
	if len(r.callers) >= maxRights {
		r.callers = nil
	}
	r.callers = append(r.callers, callerRights{who, asked, allowed & asked})
}

// An accessReply is a reply to ACCESS: which of the requested rights a caller has.
type accessReply struct {
	asked, allowed uint32

	calledAt   uint64          // tick before the call
	serverTime int64           // lower bound of the server's clock at that time (delegclient.Set)
	attr       nfs3.PostOpAttr // the object's attributes
}

// recordRights records a caller's rights from a reply. If the call began before the
// grant, the reply counts only if the object's state was as granted.
func (n *node) recordRights(who *caller, r accessReply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.calledAt <= n.changedAt && n.grant != 0 {
		return
	}
	if r.calledAt < n.grant && !(r.attr.OK && n.learnedAt >= n.grant && delegation.Unchanged(attrStamp(&r.attr.Attr), attrStamp(&n.attr), r.serverTime)) {
		return
	}
	n.storeRightsLocked(who, r.asked, r.allowed)
}

// checkRights returns which of the wanted rights the caller has, from the cache
// under a grant or otherwise with ACCESS. Afterwards n's attributes are known. If
// types is not 0, checkRights concurrently requests a delegation of n.
func (m *Mount) checkRights(o *op, n *node, want uint32, types delegation.Types) (allowed uint32, err error) {
	who := o.requestCaller()
	if allowed, known := n.rightsUnderGrant(o, who, want); known {
		return allowed, nil
	}
	granted := m.acquireConcurrently(o, n, types)
	r, err := m.callAccess(o, n, who, want)
	if !granted() || err != nil || n.delegationObject().Types()&attrTypes == 0 {
		return r.allowed & want, err
	}
	n.recordRights(who, r) // a reply from before the grant may be valid under it
	if allowed, known := n.rightsUnderGrant(o, who, want); known {
		return allowed, nil
	}
	r, err = m.callAccess(o, n, who, want) // so that the rights are known from now on
	return r.allowed & want, err
}

// rightsUnderGrant returns which of the wanted rights the caller has, if that is
// cached under a grant.
func (n *node) rightsUnderGrant(o *op, who *caller, want uint32) (allowed uint32, known bool) {
	if !n.ensureTrusted(o, attrTypes) {
		return 0, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trustTimeLocked(attrTypes) == 0 || n.learnedAt < n.grant || n.freshTimeLocked() == 0 {
		return 0, false
	}
	return n.cachedRightsLocked(who, want)
}

// acquireConcurrently runs acquireDelegation concurrently with a call that the
// caller sends. The returned function waits for the outcome. The caller must call
// the function.
func (m *Mount) acquireConcurrently(o *op, n *node, types delegation.Types) func() bool {
	if types == 0 || n.delegationObject().Types() != 0 || !m.isDelegatable(n) {
		return func() bool { return false }
	}
	done := make(chan bool, 1)
	go func() { done <- m.acquireDelegation(o, n, types) }()
	return func() bool { return <-done }
}

// callAccess requests the caller's rights from the server. For an object that can
// be delegated it requests all rights, because later callers may need others.
func (m *Mount) callAccess(o *op, n *node, who *caller, want uint32) (accessReply, error) {
	r := accessReply{asked: want, calledAt: m.nextTick(), serverTime: m.cfg.Held.ServerTime()}
	if m.isDelegatable(n) {
		r.asked |= allRights
	}
	res, err := who.client.Access(o, n.fh, r.asked)
	if err != nil {
		return accessReply{}, err
	}
	if err := m.learnOrFetchAttr(o, n, r.calledAt, &res.Attr); err != nil {
		return accessReply{}, err
	}
	r.allowed, r.attr = res.Access, res.Attr
	n.recordRights(who, r)
	return r, nil
}

// allRights are the rights that ACCESS defines.
const allRights = nfs3.AccessRead | nfs3.AccessLookup | nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete | nfs3.AccessExecute
