package nfs4state

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// connectClient creates a client's record and session.
func (r *outageRun) connectClient(b *outageClient) bool {
	id, sequence, confirmed, status := r.ExchangeID(exchangeArgs(b.name, b.verifier, 0))
	if status != nfs4.OK {
		r.failRun("EXCHANGE_ID is %v", status)
	}
	if confirmed {
		r.failRun("client %s is known", b.name)
	}
	res := r.CreateSession(createArgs(id, sequence, 0))
	if r.isDead() {
		return false
	}
	if res.Status != nfs4.OK {
		r.failRun("CREATE_SESSION is %v", res.Status)
	}
	b.id, b.sequence, b.epoch, b.session = id, sequence+1, r.epoch, r.Session(res.Session)
	b.complete, b.lastCallAt, b.revoked = false, r.clockTime(), nil
	r.logStep("client %s connects", b.name)
	return true
}

// beginContact begins a client's call, and reconnects the client if necessary.
func (r *outageRun) beginContact(b *outageClient) bool {
	if b.session == nil || b.epoch != r.epoch || b.session.client.ended {
		if b.session != nil && b.epoch != r.epoch && r.Session(b.session.ID) != nil {
			r.failRun("a session outlives the server")
		}
		if !r.connectClient(b) {
			return false
		}
	}
	if o := r.beginNextCall(b.session, 0); !o.New {
		r.failRun("SEQUENCE of client %s is %v", b.name, o.Status)
	}
	if lost := r.SequenceFlags(b.session)&nfs4.SeqAdminStateRevoked != 0; lost != (len(b.revoked) > 0) {
		r.failRun("client %s hears that state was revoked: %v", b.name, lost)
	}
	for _, id := range b.revoked {
		if status := r.FreeStateID(b.session, &id); status != nfs4.OK {
			r.failRun("FREE_STATEID of client %s is %v", b.name, status)
		}
	}
	b.revoked = nil
	return true
}

// endContact ends a call, and reports whether the client gets its result.
func (r *outageRun) endContact(b *outageClient) bool {
	b.session.End(0, nil, false, false)
	if r.isDead() {
		return false
	}
	b.lastCallAt = r.clockTime()
	return true
}

// mayBeDelayed reports whether the grace period may delay a call: a client that may
// still reclaim had state of some kinds, or any.
func (r *outageRun) mayBeDelayed(of stateKinds) bool {
	if r.stored >= 0 && (r.clockTime() >= r.stored+r.grace || r.forced) {
		return false
	}
	for i := range r.clients {
		b := &r.clients[i]
		ended := b.epoch == r.epoch && (b.complete || b.session.client.ended)
		if b.listed && !ended && (of == 0 || b.had&of != 0) {
			return true
		}
	}
	return false
}

// checkGrant checks the status of a call that requests state: it must be OK unless
// something may delay the call. It reports whether the state is granted.
func (r *outageRun) checkGrant(what string, b *outageClient, status nfs4.Status, grace bool, others ...nfs4.Status) bool {
	r.logStep("client %s: %s is %v", b.name, what, status)
	for _, other := range others {
		if status == other {
			return false
		}
	}
	switch {
	case status == nfs4.OK:
		return true
	case status == nfs4.ErrGrace && grace:
		r.waits++
		return false
	case status == nfs4.ErrDelay && r.mayFail():
		return false
	}
	r.failRun("%s is %v", what, status)
	return false
}

// noteStored records that a client was granted state or has reclaimed it: the
// journal has all its state now.
func (r *outageRun) noteStored(b *outageClient) {
	if len(b.revoked) == 0 {
		b.eachClaim(func(c *claim) { c.must = c.must || r.isCurrentGrant(b, c) && c.tainted == "" })
	}
}

// openMore sends OPEN for a client, for more modes than it has.
func (r *outageRun) openMore(b *outageClient, object int, access, deny uint32) {
	if !r.beginContact(b) {
		return
	}
	if deny != 0 {
		b.tried |= hadDeny
	}
	modes := access | deny<<denyShift
	_, id, status := r.OpenFile(b.session, &OpenFile{Owner: []byte("o"), Key: modelKeys[object], Access: access, Deny: deny}, new(int))
	if !r.endContact(b) {
		return
	}
	if !b.complete {
		if status != nfs4.ErrGrace {
			r.failRun("OPEN before RECLAIM_COMPLETE is %v", status)
		}
		return
	}
	of := hadDeny
	if deny != 0 {
		of = 0
	}
	what := fmt.Sprintf("OPEN of object %d for %d, denying %d", object, access, deny)
	if !r.checkGrant(what, b, status, r.mayBeDelayed(of), nfs4.ErrShareDenied) {
		return
	}
	r.noteGrant(b, what, false, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && sharesConflict(o.modes, modes) })
	o := &b.opens[object]
	o.modes, o.id, o.from, o.must = o.modes|modes, id, b.id, true
	r.noteStored(b)
}

// lockSpan sends LOCK for a client that has the object open.
func (r *outageRun) lockSpan(b *outageClient, owner, object int, s span, kind locks.Kind) {
	if o := &b.opens[object]; o.modes&nfs4.ShareBoth != nfs4.ShareBoth || !r.isCurrentGrant(b, &o.claim) || !r.beginContact(b) {
		return
	}
	if !r.isCurrentGrant(b, &b.opens[object].claim) { // it has reconnected
		r.endContact(b)
		return
	}
	b.tried |= hadLocks
	a := r.lockArgs(b, owner, object, s, kind)
	id, _, status := r.Lock(b.session, &a)
	if !r.endContact(b) {
		return
	}
	what := fmt.Sprintf("LOCK of object %d, cells %d to %d, kind %d, owner %d", object, s.first, s.last, kind, owner)
	if !b.complete {
		if status != nfs4.ErrGrace {
			r.failRun("%s before RECLAIM_COMPLETE is %v", what, status)
		}
		return
	}
	if !r.checkGrant(what, b, status, r.mayBeDelayed(hadLocks), nfs4.ErrDenied) {
		return
	}
	r.lockGranted(b, owner, object, s, kind, what, false)
	b.sets[owner][object] = id
}

// testSpan sends LOCKT.
func (r *outageRun) testSpan(b *outageClient, owner, object int, s span, kind locks.Kind) {
	if !r.beginContact(b) {
		return
	}
	a := r.lockArgs(b, owner, object, s, kind)
	_, status := r.TestLock(b.session, &a)
	if r.endContact(b) {
		r.checkGrant("LOCKT", b, status, r.mayBeDelayed(hadLocks), nfs4.ErrDenied)
	}
}

func (r *outageRun) lockArgs(b *outageClient, owner, object int, s span, kind locks.Kind) Lock {
	a := Lock{
		StateID: b.opens[object].id, New: true, Owner: []byte(ownerNames[owner]), Key: modelKeys[object], Range: s.byteRange(),
		Exclusive: kind == locks.Exclusive,
	}
	a.StateID.SeqID = 0
	if object == 0 {
		a.Host, a.Storage = r.openHost, "storage"
	}
	return a
}

func (r *outageRun) openHost() (HostLocks, nfs4.Status) {
	r.host.open = true
	return &r.host, nfs4.OK
}

func (r *outageRun) lockGranted(b *outageClient, owner, object int, s span, kind locks.Kind, what string, reclaim bool) {
	r.noteGrant(b, what, reclaim, object, func(_ *openClaim, c *byteClaim, at int) bool {
		return c != nil && kindsConflict(c.kind, kind) && s.first <= at && at <= s.last
	})
	for at := s.first; at <= s.last; at++ {
		for other := range modelOwners {
			if other != owner && kindsConflict(b.bytes[other][object][at].kind, kind) && !reclaim {
				r.failRun("%s is granted against the client's own other owner", what)
			}
		}
		b.bytes[owner][object][at] = byteClaim{claim{from: b.id, must: true}, kind}
	}
	r.noteStored(b)
}

// unlockSpan sends LOCKU.
func (r *outageRun) unlockSpan(b *outageClient, owner, object int, s span) {
	if !r.beginContact(b) {
		return
	}
	held := false
	for at := range cells {
		c := &b.bytes[owner][object][at]
		held = held || c.kind != locks.None && r.isCurrentGrant(b, &c.claim)
	}
	if !held {
		r.endContact(b)
		return
	}
	for at := s.first; at <= s.last; at++ {
		if c := &b.bytes[owner][object][at]; r.isCurrentGrant(b, &c.claim) {
			*c = byteClaim{}
		}
	}
	id := b.sets[owner][object]
	id.SeqID = 0
	_, status := r.Unlock(b.session, &Lock{StateID: id, Key: modelKeys[object], Range: s.byteRange()})
	if r.endContact(b) && status != nfs4.OK {
		r.failRun("LOCKU of client %s is %v", b.name, status)
	}
	r.logStep("client %s: LOCKU of object %d, cells %d to %d, owner %d", b.name, object, s.first, s.last, owner)
}

// closeObject sends CLOSE.
func (r *outageRun) closeObject(b *outageClient, object int) {
	if b.opens[object].modes == 0 || !r.beginContact(b) {
		return
	}
	if !r.isCurrentGrant(b, &b.opens[object].claim) {
		r.endContact(b)
		return
	}
	id := b.opens[object].id
	id.SeqID = 0
	b.dropOpen(object)
	status := r.Close(b.session, &id)
	if r.endContact(b) && status != nfs4.OK {
		r.failRun("CLOSE of client %s is %v", b.name, status)
	}
	r.logStep("client %s: CLOSE of object %d", b.name, object)
}

// useSpecial sends a READ or WRITE with a special stateid.
func (r *outageRun) useSpecial(object int, access uint32) {
	use, status := r.BeginSpecial([]byte(modelKeys[object]), access, false)
	if r.isDead() {
		return
	}
	use.End()
	what := fmt.Sprintf("special access %d of object %d", access, object)
	if r.checkGrant(what, &outageClient{name: "none"}, status, r.mayBeDelayed(hadDeny), nfs4.ErrLocked) {
		r.noteGrant(nil, what, false, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && sharesConflict(o.modes, access) })
	}
}

// lockLocally locks cells of the first object for a host process, unless the
// server's locks conflict.
func (r *outageRun) lockLocally(s span, kind locks.Kind) {
	for at := s.first; at <= s.last; at++ {
		if kindsConflict(r.host.kinds[at], kind) {
			return
		}
	}
	r.logStep("a host process locks cells %d to %d, kind %d", s.first, s.last, kind)
	for at := s.first; at <= s.last; at++ {
		r.locals.local[0][at] = kind
		for i := range r.clients {
			b := &r.clients[i]
			for owner := range modelOwners {
				// A lock that was not yet reclaimed is not on the host.
				if c := &b.bytes[owner][0][at]; kindsConflict(c.kind, kind) && r.isCurrentGrant(b, &c.claim) {
					if r.isProtected(b, &c.claim, false) {
						r.failRun("a host process gets a lock of client %s", b.name)
					}
					c.must, c.tainted = false, "lock of a host process"
				}
			}
		}
	}
}
