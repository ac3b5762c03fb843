package nfs4state

import (
	"fmt"
	"math/rand/v2"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// reclaim reclaims the next part of a client's state, or ends its reclaims. It
// reports whether the client had done so before.
func (r *outages) reclaim(b *believer) (before bool) {
	if !r.contact(b) {
		return false
	}
	if b.complete {
		r.done(b)
		return true
	}
	for object := range modelObjects {
		if o := &b.opens[object]; o.modes != 0 && !r.current(b, &o.claim) {
			r.reclaimOpen(b, object)
			return false
		}
	}
	for object := range modelObjects {
		for owner := range modelOwners {
			for at := range cells {
				if c := &b.bytes[owner][object][at]; c.kind != locks.None && !r.current(b, &c.claim) {
					r.reclaimLock(b, owner, object, at)
					return false
				}
			}
		}
	}
	r.endReclaims(b)
	return false
}

// endReclaims is RECLAIM_COMPLETE: what was not reclaimed is lost.
func (r *outages) endReclaims(b *believer) {
	b.forget(func(c *claim) bool { return !r.current(b, c) })
	status := r.ReclaimComplete(b.session)
	if r.done(b) && r.judge("RECLAIM_COMPLETE", b, status, false) {
		b.complete = true
		r.restored(b)
	}
}

// reclaimed judges the status of a reclaim, and reports whether the client has
// its state back. put says that the client may try again.
func (r *outages) reclaimed(what string, b *believer, c *claim, status nfs4.Status, inTheWay bool) (back, put bool) {
	r.logf("client %s: %s is %v", b.name, what, status)
	switch {
	case status == nfs4.OK && c.tainted != "":
		r.fail("%s is given back after %s", what, c.tainted)
	case status == nfs4.OK:
		r.handBack++
		return true, false
	case status == nfs4.ErrDelay && r.failing():
		return false, true
	case status == nfs4.ErrReclaimConflict && inTheWay:
	case c.must && !r.forced && r.now() < r.began+r.grace:
		r.fail("%s is %v", what, status)
	case status != nfs4.ErrNoGrace && status != nfs4.ErrReclaimBad:
		r.fail("%s is %v", what, status)
	}
	r.lost++
	return false, false
}

func (r *outages) reclaimOpen(b *believer, object int) {
	o := &b.opens[object]
	modes := o.modes
	_, id, status := r.OpenFile(b.session, &OpenFile{
		Owner: []byte("o"), Key: modelKeys[object], Access: modes & nfs4.ShareBoth, Deny: modes >> denyShift, Reclaim: true,
	}, new(int))
	if !r.done(b) {
		return
	}
	what := fmt.Sprintf("reclaim of the open of object %d with modes %#x", object, modes)
	back, again := r.reclaimed(what, b, &o.claim, status, r.liars())
	switch {
	case back:
		o.from, o.id, o.must = b.id, id, true
		r.granted(b, what, true, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && denies(o.modes, modes) })
		r.restored(b)
	case !again:
		b.dropOpen(object)
	}
}

func (r *outages) reclaimLock(b *believer, owner, object, first int) {
	kind, s := b.bytes[owner][object][first].kind, span{first, first}
	for s.last+1 < cells {
		c := &b.bytes[owner][object][s.last+1]
		if c.kind != kind || r.current(b, &c.claim) {
			break
		}
		s.last++
	}
	a := r.lockArgs(b, owner, object, s, kind)
	a.Reclaim = true
	id, _, status := r.Lock(b.session, &a)
	if !r.done(b) {
		return
	}
	what := fmt.Sprintf("reclaim of the lock of object %d, cells %d to %d, kind %d, owner %d", object, s.first, s.last, kind, owner)
	all, inTheWay := claim{must: true}, r.liars()
	for at := s.first; at <= s.last; at++ {
		c := &b.bytes[owner][object][at]
		all.must = all.must && c.must
		if c.tainted != "" {
			all.tainted = c.tainted
		}
		inTheWay = inTheWay || object == 0 && blocks(r.locals.local[0][at], kind)
	}
	back, again := r.reclaimed(what, b, &all, status, inTheWay)
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

// liars reports whether a client lies in this schedule.
func (r *outages) liars() bool {
	for i := range r.clients {
		if r.clients[i].liar {
			return true
		}
	}
	return false
}

// lie has a client reclaim what it never had.
func (r *outages) lie(b *believer, random *rand.Rand) {
	if !r.contact(b) {
		return
	}
	object, access, deny := random.IntN(modelObjects), uint32(nfs4.ShareBoth), random.Uint32N(4)
	modes := access | deny<<denyShift
	o := &b.opens[object]
	if o.modes == 0 || !r.current(b, &o.claim) {
		_, id, status := r.OpenFile(b.session, &OpenFile{
			Owner: []byte("o"), Key: modelKeys[object], Access: access, Deny: deny, Reclaim: true,
		}, new(int))
		if !r.done(b) {
			return
		}
		what := fmt.Sprintf("untrue reclaim of an open of object %d, denying %d", object, deny)
		r.logf("client %s: %s is %v", b.name, what, status)
		if status == nfs4.OK {
			kind := hadDeny
			if deny == 0 {
				kind = 0
			}
			r.maySteal(b, kind, what)
			r.granted(b, what, true, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && denies(o.modes, modes) })
			b.dropOpen(object)
			*o = openClaim{claim{from: b.id}, modes, id}
		}
		return
	}
	owner, at, kind := random.IntN(modelOwners), random.IntN(cells), locks.Exclusive
	a := r.lockArgs(b, owner, object, span{at, at}, kind)
	a.Reclaim = true
	id, _, status := r.Lock(b.session, &a)
	if !r.done(b) {
		return
	}
	what := fmt.Sprintf("untrue reclaim of a lock of object %d, cell %d, owner %d", object, at, owner)
	r.logf("client %s: %s is %v", b.name, what, status)
	if status == nfs4.OK {
		r.maySteal(b, hadLocks, what)
		b.sets[owner][object] = id
		r.lockGranted(b, owner, object, span{at, at}, kind, what, true)
	}
}

// maySteal fails if a reclaim has succeeded for a client that may reclaim
// nothing, or no state of that kind.
func (r *outages) maySteal(b *believer, kind kinds, what string) {
	if !b.listed || b.complete || r.forced || kind&^b.had != 0 || r.stored >= 0 && r.now() >= r.stored+r.grace {
		r.fail("%s succeeds", what)
	}
}

// reboot is a new incarnation of a client, which has no state.
func (r *outages) reboot(b *believer) {
	b.verifier++
	b.forget(func(*claim) bool { return true })
	if r.connect(b) {
		r.logf("client %s has rebooted", b.name)
	}
}

// ends notes which clients have ended, for which they must have been silent.
func (r *outages) ends() {
	for i := range r.clients {
		b := &r.clients[i]
		if b.session == nil || b.epoch != r.epoch || !b.session.client.ended {
			continue
		}
		b.claims(func(c *claim) {
			if c.must && r.current(b, c) && r.now()-b.heard <= r.lease {
				r.fail("client %s has ended within its lease", b.name)
			}
			c.must = false
		})
	}
}

// revoke revokes an open of a client, and the locks through it. After a restart the
// client may get nothing back (R8881-8.4.3-4), until it knows.
func (r *outages) revoke(b *believer, object int) {
	o := b.opens[object]
	if o.modes == 0 || !r.current(b, &o.claim) || b.session.client.ended {
		return
	}
	h := r.find(b.session, &o.id)
	b.claims(func(c *claim) { c.must = false })
	r.logf("an administrator revokes the open of client %s of object %d", b.name, object)
	b.revoked = append(b.revoked, h.StateID())
	for _, set := range h.open.locks {
		b.revoked = append(b.revoked, set.StateID())
	}
	b.dropOpen(object)
	b.sets[0][object], b.sets[1][object] = nfs4.StateID{}, nfs4.StateID{}
	r.Revoke(func(file any) bool { return file == h.open.File })
}

// expire ends a client whenever it was heard.
func (r *outages) expire(b *believer) {
	if b.session == nil || b.epoch != r.epoch || b.session.client.ended {
		return
	}
	b.claims(func(c *claim) { c.must = false })
	status := r.Expire(b.id)
	if !r.dead() && status != nfs4.OK && (status != nfs4.ErrDelay || !r.failing()) {
		r.fail("Expire is %v", status)
	}
	r.logf("an administrator ends client %s: %v", b.name, status)
}

// usurp is EXCHANGE_ID by another principal, which ends no claim that may yet be
// reclaimed.
func (r *outages) usurp(b *believer) {
	mayReclaim := false
	b.claims(func(c *claim) { mayReclaim = mayReclaim || !r.current(b, c) && r.protected(b, c, false) })
	_, _, _, status := r.ExchangeID(exchange(b.name, 99, 9))
	r.logf("EXCHANGE_ID of client %s by another principal is %v", b.name, status)
	if mayReclaim && status != nfs4.ErrClidInUse {
		r.fail("another principal gets the name of client %s", b.name)
	}
}

// stop ends the server in an orderly way: clients get back all.
func (r *outages) stop() {
	r.Retire()
	r.Revoke(func(any) bool { return true })
	r.crash("in an orderly way")
}

// settle looks at the State after a step: who has ended, and whether clients have
// what they believe.
func (r *outages) settle() {
	if r.dead() {
		r.crash("in a call of the journal")
		return
	}
	r.WaitHost()
	r.note()
	r.ends()
	for i := range r.clients {
		b := &r.clients[i]
		if b.session == nil || b.epoch != r.epoch || b.session.client.ended {
			continue
		}
		for object := range modelObjects {
			o := &b.opens[object]
			if o.modes == 0 || !r.current(b, &o.claim) {
				continue
			}
			if h := r.find(b.session, &o.id); h == nil || h.open.modes.Load() != o.modes {
				r.fail("client %s has not the open of object %d", b.name, object)
			}
		}
	}
	if r.host.fault != "" {
		r.fail("%s", r.host.fault)
	}
}
