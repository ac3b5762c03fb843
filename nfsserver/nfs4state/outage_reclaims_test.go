package nfs4state

import (
	"fmt"
	"math/rand/v2"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// reclaimNext reclaims the next part of a client's state, or ends its reclaims. It
// reports whether the client had done so before.
func (r *outageRun) reclaimNext(b *outageClient) (before bool) {
	if !r.beginContact(b) {
		return false
	}
	if b.complete {
		r.endContact(b)
		return true
	}
	for object := range modelObjects {
		if o := &b.opens[object]; o.modes != 0 && !r.isCurrentGrant(b, &o.claim) {
			r.reclaimOpen(b, object)
			return false
		}
	}
	for object := range modelObjects {
		for owner := range modelOwners {
			for at := range cells {
				if c := &b.bytes[owner][object][at]; c.kind != locks.None && !r.isCurrentGrant(b, &c.claim) {
					r.reclaimLock(b, owner, object, at)
					return false
				}
			}
		}
	}
	r.endReclaims(b)
	return false
}

// endReclaims sends RECLAIM_COMPLETE: what was not reclaimed is lost.
func (r *outageRun) endReclaims(b *outageClient) {
	b.dropClaims(func(c *claim) bool { return !r.isCurrentGrant(b, c) })
	status := r.ReclaimComplete(b.session)
	if r.endContact(b) && r.checkGrant("RECLAIM_COMPLETE", b, status, false) {
		b.complete = true
		r.noteStored(b)
	}
}

// checkReclaim checks the status of a reclaim, and reports whether the client has
// its state back. put says that the client may try again.
func (r *outageRun) checkReclaim(what string, b *outageClient, c *claim, status nfs4.Status, inTheWay bool) (back, put bool) {
	r.logStep("client %s: %s is %v", b.name, what, status)
	switch {
	case status == nfs4.OK && c.tainted != "":
		r.failRun("%s is given back after %s", what, c.tainted)
	case status == nfs4.OK:
		r.handBack++
		return true, false
	case status == nfs4.ErrDelay && r.mayFail():
		return false, true
	case status == nfs4.ErrReclaimConflict && inTheWay:
	case c.must && !r.forced && r.clockTime() < r.began+r.grace:
		r.failRun("%s is %v", what, status)
	case status != nfs4.ErrNoGrace && status != nfs4.ErrReclaimBad:
		r.failRun("%s is %v", what, status)
	}
	r.lost++
	return false, false
}

func (r *outageRun) reclaimOpen(b *outageClient, object int) {
	o := &b.opens[object]
	modes := o.modes
	_, id, status := r.OpenFile(b.session, &OpenFile{
		Owner: []byte("o"), Key: modelKeys[object], Access: modes & nfs4.ShareBoth, Deny: modes >> denyShift, Reclaim: true,
	}, new(int))
	if !r.endContact(b) {
		return
	}
	what := fmt.Sprintf("reclaim of the open of object %d with modes %#x", object, modes)
	back, again := r.checkReclaim(what, b, &o.claim, status, r.hasLiars())
	switch {
	case back:
		o.from, o.id, o.must = b.id, id, true
		r.noteGrant(b, what, true, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && sharesConflict(o.modes, modes) })
		r.noteStored(b)
	case !again:
		b.dropOpen(object)
	}
}

func (r *outageRun) reclaimLock(b *outageClient, owner, object, first int) {
	kind, s := b.bytes[owner][object][first].kind, span{first, first}
	for s.last+1 < cells {
		c := &b.bytes[owner][object][s.last+1]
		if c.kind != kind || r.isCurrentGrant(b, &c.claim) {
			break
		}
		s.last++
	}
	a := r.lockArgs(b, owner, object, s, kind)
	a.Reclaim = true
	id, _, status := r.Lock(b.session, &a)
	if !r.endContact(b) {
		return
	}
	what := fmt.Sprintf("reclaim of the lock of object %d, cells %d to %d, kind %d, owner %d", object, s.first, s.last, kind, owner)
	all, inTheWay := claim{must: true}, r.hasLiars()
	for at := s.first; at <= s.last; at++ {
		c := &b.bytes[owner][object][at]
		all.must = all.must && c.must
		if c.tainted != "" {
			all.tainted = c.tainted
		}
		inTheWay = inTheWay || object == 0 && kindsConflict(r.locals.local[0][at], kind)
	}
	back, again := r.checkReclaim(what, b, &all, status, inTheWay)
	switch {
	case back:
		b.sets[owner][object] = id
		r.lockGranted(b, owner, object, s, kind, what, true)
	case !again:
		for at := s.first; at <= s.last; at++ {
			b.bytes[owner][object][at] = byteClaim{}
		}
	}
}

// hasLiars reports whether a client lies in this schedule.
func (r *outageRun) hasLiars() bool {
	for i := range r.clients {
		if r.clients[i].liar {
			return true
		}
	}
	return false
}

// reclaimFalsely makes a client reclaim what it never had.
func (r *outageRun) reclaimFalsely(b *outageClient, random *rand.Rand) {
	if !r.beginContact(b) {
		return
	}
	object, access, deny := random.IntN(modelObjects), uint32(nfs4.ShareBoth), random.Uint32N(4)
	modes := access | deny<<denyShift
	o := &b.opens[object]
	if o.modes == 0 || !r.isCurrentGrant(b, &o.claim) {
		_, id, status := r.OpenFile(b.session, &OpenFile{
			Owner: []byte("o"), Key: modelKeys[object], Access: access, Deny: deny, Reclaim: true,
		}, new(int))
		if !r.endContact(b) {
			return
		}
		what := fmt.Sprintf("untrue reclaim of an open of object %d, denying %d", object, deny)
		r.logStep("client %s: %s is %v", b.name, what, status)
		if status == nfs4.OK {
			kind := hadDeny
			if deny == 0 {
				kind = 0
			}
			r.checkMayReclaim(b, kind, what)
			r.noteGrant(b, what, true, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && sharesConflict(o.modes, modes) })
			b.dropOpen(object)
			*o = openClaim{claim{from: b.id}, modes, id}
		}
		return
	}
	owner, at, kind := random.IntN(modelOwners), random.IntN(cells), locks.Exclusive
	a := r.lockArgs(b, owner, object, span{at, at}, kind)
	a.Reclaim = true
	id, _, status := r.Lock(b.session, &a)
	if !r.endContact(b) {
		return
	}
	what := fmt.Sprintf("untrue reclaim of a lock of object %d, cell %d, owner %d", object, at, owner)
	r.logStep("client %s: %s is %v", b.name, what, status)
	if status == nfs4.OK {
		r.checkMayReclaim(b, hadLocks, what)
		b.sets[owner][object] = id
		r.lockGranted(b, owner, object, span{at, at}, kind, what, true)
	}
}

// checkMayReclaim fails if a reclaim has succeeded for a client that may reclaim
// nothing, or no state of that kind.
func (r *outageRun) checkMayReclaim(b *outageClient, kind stateKinds, what string) {
	if !b.listed || b.complete || r.forced || kind&^b.had != 0 || r.stored >= 0 && r.clockTime() >= r.stored+r.grace {
		r.failRun("%s succeeds", what)
	}
}

// rebootClient starts a new incarnation of a client, which has no state.
func (r *outageRun) rebootClient(b *outageClient) {
	b.verifier++
	b.dropClaims(func(*claim) bool { return true })
	if r.connectClient(b) {
		r.logStep("client %s has rebooted", b.name)
	}
}

// noteRemoved records which clients were removed. They must have been silent.
func (r *outageRun) noteRemoved() {
	for i := range r.clients {
		b := &r.clients[i]
		if b.session == nil || b.epoch != r.epoch || !b.session.client.ended {
			continue
		}
		b.eachClaim(func(c *claim) {
			if c.must && r.isCurrentGrant(b, c) && r.clockTime()-b.lastCallAt <= r.lease {
				r.failRun("client %s has ended within its lease", b.name)
			}
			c.must = false
		})
	}
}

// revokeOpenOf revokes an open of a client, and the locks through it. After a restart the
// client may get nothing back (R8881-8.4.3-4), until it knows.
func (r *outageRun) revokeOpenOf(b *outageClient, object int) {
	o := b.opens[object]
	if o.modes == 0 || !r.isCurrentGrant(b, &o.claim) || b.session.client.ended {
		return
	}
	h := r.findClientHolding(b.session, &o.id)
	b.eachClaim(func(c *claim) { c.must = false })
	r.logStep("an administrator revokes the open of client %s of object %d", b.name, object)
	b.revoked = append(b.revoked, h.StateID())
	for _, set := range h.open.locks {
		b.revoked = append(b.revoked, set.StateID())
	}
	b.dropOpen(object)
	b.sets[0][object], b.sets[1][object] = nfs4.StateID{}, nfs4.StateID{}
	r.Revoke(func(file any) bool { return file == h.open.File })
}

// expireClientNow removes a client even if its lease is valid.
func (r *outageRun) expireClientNow(b *outageClient) {
	if b.session == nil || b.epoch != r.epoch || b.session.client.ended {
		return
	}
	b.eachClaim(func(c *claim) { c.must = false })
	status := r.Expire(b.id)
	if !r.isDead() && status != nfs4.OK && (status != nfs4.ErrDelay || !r.mayFail()) {
		r.failRun("Expire is %v", status)
	}
	r.logStep("an administrator ends client %s: %v", b.name, status)
}

// exchangeAsOther sends EXCHANGE_ID as another principal, which removes no claim that may
// still be reclaimed.
func (r *outageRun) exchangeAsOther(b *outageClient) {
	mayReclaim := false
	b.eachClaim(func(c *claim) { mayReclaim = mayReclaim || !r.isCurrentGrant(b, c) && r.isProtected(b, c, false) })
	_, _, _, status := r.ExchangeID(exchangeArgs(b.name, 99, 9))
	r.logStep("EXCHANGE_ID of client %s by another principal is %v", b.name, status)
	if mayReclaim && status != nfs4.ErrClidInUse {
		r.failRun("another principal gets the name of client %s", b.name)
	}
}

// stopServer shuts the server down: clients get all their state back.
func (r *outageRun) stopServer() {
	r.StopRecording()
	r.Revoke(func(any) bool { return true })
	r.crashServer("in an orderly way")
}

// checkState checks the State after a step: which clients were removed, and whether
// clients have what they believe.
func (r *outageRun) checkState() {
	if r.isDead() {
		r.crashServer("in a call of the journal")
		return
	}
	r.WaitForHostLocks()
	r.noteJournal()
	r.noteRemoved()
	for i := range r.clients {
		b := &r.clients[i]
		if b.session == nil || b.epoch != r.epoch || b.session.client.ended {
			continue
		}
		for object := range modelObjects {
			o := &b.opens[object]
			if o.modes == 0 || !r.isCurrentGrant(b, &o.claim) {
				continue
			}
			if h := r.findClientHolding(b.session, &o.id); h == nil || h.open.modes.Load() != o.modes {
				r.failRun("client %s has not the open of object %d", b.name, object)
			}
		}
	}
	if r.host.fault != "" {
		r.failRun("%s", r.host.fault)
	}
}
