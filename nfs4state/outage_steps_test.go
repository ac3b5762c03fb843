package nfs4state

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// connect makes the record and the session of a client.
func (r *outages) connect(b *believer) bool {
	id, sequence, confirmed, status := r.ExchangeID(exchange(b.name, b.verifier, 0))
	if status != nfs4.OK {
		r.fail("EXCHANGE_ID is %v", status)
	}
	if confirmed {
		r.fail("client %s is known", b.name)
	}
	res := r.CreateSession(create(id, sequence, 0))
	if r.dead() {
		return false
	}
	if res.Status != nfs4.OK {
		r.fail("CREATE_SESSION is %v", res.Status)
	}
	b.id, b.sequence, b.epoch, b.session = id, sequence+1, r.epoch, r.Session(res.Session)
	b.complete, b.heard, b.revoked = false, r.now(), nil
	r.logf("client %s connects", b.name)
	return true
}

// contact begins a call of a client, which connects anew if it must.
func (r *outages) contact(b *believer) bool {
	if b.session == nil || b.epoch != r.epoch || b.session.client.ended {
		if b.session != nil && b.epoch != r.epoch && r.Session(b.session.ID) != nil {
			r.fail("a session outlives the server")
		}
		if !r.connect(b) {
			return false
		}
	}
	if o := r.next(b.session, 0); !o.New {
		r.fail("SEQUENCE of client %s is %v", b.name, o.Status)
	}
	if lost := r.Flags(b.session)&nfs4.SeqAdminStateRevoked != 0; lost != (len(b.revoked) > 0) {
		r.fail("client %s hears that state was revoked: %v", b.name, lost)
	}
	for _, id := range b.revoked {
		if status := r.FreeStateID(b.session, &id); status != nfs4.OK {
			r.fail("FREE_STATEID of client %s is %v", b.name, status)
		}
	}
	b.revoked = nil
	return true
}

// done ends a call, and reports whether the client hears of its result.
func (r *outages) done(b *believer) bool {
	b.session.End(0, nil, false, false)
	if r.dead() {
		return false
	}
	b.heard = r.now()
	return true
}

// heldUp reports whether grace may put off a call: a client that may yet reclaim
// had state of some kinds, or any.
func (r *outages) heldUp(of kinds) bool {
	if r.stored >= 0 && (r.now() >= r.stored+r.grace || r.forced) {
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

// judge judges the status of a call that asks for state: success is OK unless
// something may put it off. It reports whether the state is granted.
func (r *outages) judge(what string, b *believer, status nfs4.Status, grace bool, others ...nfs4.Status) bool {
	r.logf("client %s: %s is %v", b.name, what, status)
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
	case status == nfs4.ErrDelay && r.failing():
		return false
	}
	r.fail("%s is %v", what, status)
	return false
}

// restored notes that a client has been granted or given back state: the journal
// has all that it has now.
func (r *outages) restored(b *believer) {
	if len(b.revoked) == 0 {
		b.claims(func(c *claim) { c.must = c.must || r.current(b, c) && c.tainted == "" })
	}
}

// open is OPEN of a client, for more modes than it has.
func (r *outages) open(b *believer, object int, access, deny uint32) {
	if !r.contact(b) {
		return
	}
	if deny != 0 {
		b.tried |= hadDeny
	}
	modes := access | deny<<denyShift
	_, id, status := r.OpenFile(b.session, &OpenFile{Owner: []byte("o"), Key: modelKeys[object], Access: access, Deny: deny}, new(int))
	if !r.done(b) {
		return
	}
	if !b.complete {
		if status != nfs4.ErrGrace {
			r.fail("OPEN before RECLAIM_COMPLETE is %v", status)
		}
		return
	}
	of := hadDeny
	if deny != 0 {
		of = 0
	}
	what := fmt.Sprintf("OPEN of object %d for %d, denying %d", object, access, deny)
	if !r.judge(what, b, status, r.heldUp(of), nfs4.ErrShareDenied) {
		return
	}
	r.granted(b, what, false, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && denies(o.modes, modes) })
	o := &b.opens[object]
	o.modes, o.id, o.from, o.must = o.modes|modes, id, b.id, true
	r.restored(b)
}

// lock is LOCK of a client that has the object open.
func (r *outages) lock(b *believer, owner, object int, s span, kind locks.Kind) {
	if o := &b.opens[object]; o.modes&nfs4.ShareBoth != nfs4.ShareBoth || !r.current(b, &o.claim) || !r.contact(b) {
		return
	}
	if !r.current(b, &b.opens[object].claim) { // it has connected anew
		r.done(b)
		return
	}
	b.tried |= hadLocks
	a := r.lockArgs(b, owner, object, s, kind)
	id, _, status := r.Lock(b.session, &a)
	if !r.done(b) {
		return
	}
	what := fmt.Sprintf("LOCK of object %d, cells %d to %d, kind %d, owner %d", object, s.first, s.last, kind, owner)
	if !b.complete {
		if status != nfs4.ErrGrace {
			r.fail("%s before RECLAIM_COMPLETE is %v", what, status)
		}
		return
	}
	if !r.judge(what, b, status, r.heldUp(hadLocks), nfs4.ErrDenied) {
		return
	}
	r.lockGranted(b, owner, object, s, kind, what, false)
	b.sets[owner][object] = id
}

// test is LOCKT.
func (r *outages) test(b *believer, owner, object int, s span, kind locks.Kind) {
	if !r.contact(b) {
		return
	}
	a := r.lockArgs(b, owner, object, s, kind)
	_, status := r.TestLock(b.session, &a)
	if r.done(b) {
		r.judge("LOCKT", b, status, r.heldUp(hadLocks), nfs4.ErrDenied)
	}
}

func (r *outages) lockArgs(b *believer, owner, object int, s span, kind locks.Kind) Lock {
	a := Lock{
		StateID: b.opens[object].id, New: true, Owner: []byte(ownerNames[owner]), Key: modelKeys[object], Range: s.bytes(),
		Exclusive: kind == locks.Exclusive,
	}
	a.StateID.SeqID = 0
	if object == 0 {
		a.Host, a.Storage = r.openHost, "storage"
	}
	return a
}

func (r *outages) openHost() (HostLocks, nfs4.Status) {
	r.host.open = true
	return &r.host, nfs4.OK
}

func (r *outages) lockGranted(b *believer, owner, object int, s span, kind locks.Kind, what string, reclaim bool) {
	r.granted(b, what, reclaim, object, func(_ *openClaim, c *byteClaim, at int) bool {
		return c != nil && blocks(c.kind, kind) && s.first <= at && at <= s.last
	})
	for at := s.first; at <= s.last; at++ {
		for other := range modelOwners {
			if other != owner && blocks(b.bytes[other][object][at].kind, kind) && !reclaim {
				r.fail("%s is granted against the client's own other owner", what)
			}
		}
		b.bytes[owner][object][at] = byteClaim{claim{from: b.id, must: true}, kind}
	}
	r.restored(b)
}

// unlock is LOCKU.
func (r *outages) unlock(b *believer, owner, object int, s span) {
	if !r.contact(b) {
		return
	}
	held := false
	for at := range cells {
		c := &b.bytes[owner][object][at]
		held = held || c.kind != locks.None && r.current(b, &c.claim)
	}
	if !held {
		r.done(b)
		return
	}
	for at := s.first; at <= s.last; at++ {
		if c := &b.bytes[owner][object][at]; r.current(b, &c.claim) {
			*c = byteClaim{}
		}
	}
	id := b.sets[owner][object]
	id.SeqID = 0
	_, status := r.Unlock(b.session, &Lock{StateID: id, Key: modelKeys[object], Range: s.bytes()})
	if r.done(b) && status != nfs4.OK {
		r.fail("LOCKU of client %s is %v", b.name, status)
	}
	r.logf("client %s: LOCKU of object %d, cells %d to %d, owner %d", b.name, object, s.first, s.last, owner)
}

// close is CLOSE.
func (r *outages) close(b *believer, object int) {
	if b.opens[object].modes == 0 || !r.contact(b) {
		return
	}
	if !r.current(b, &b.opens[object].claim) {
		r.done(b)
		return
	}
	id := b.opens[object].id
	id.SeqID = 0
	b.dropOpen(object)
	status := r.Close(b.session, &id)
	if r.done(b) && status != nfs4.OK {
		r.fail("CLOSE of client %s is %v", b.name, status)
	}
	r.logf("client %s: CLOSE of object %d", b.name, object)
}

// special is a READ or WRITE with a special stateid.
func (r *outages) special(object int, access uint32) {
	use, status := r.BeginSpecial([]byte(modelKeys[object]), access, false)
	if r.dead() {
		return
	}
	use.End()
	what := fmt.Sprintf("special access %d of object %d", access, object)
	if r.judge(what, &believer{name: "none"}, status, r.heldUp(hadDeny), nfs4.ErrLocked) {
		r.granted(nil, what, false, object, func(o *openClaim, _ *byteClaim, _ int) bool { return o != nil && denies(o.modes, access) })
	}
}

// local has a process of the host lock cells of the first object, if the server
// has none in the way.
func (r *outages) local(s span, kind locks.Kind) {
	for at := s.first; at <= s.last; at++ {
		if blocks(r.host.kinds[at], kind) {
			return
		}
	}
	r.logf("a process of the host locks cells %d to %d, kind %d", s.first, s.last, kind)
	for at := s.first; at <= s.last; at++ {
		r.locals.local[0][at] = kind
		for i := range r.clients {
			b := &r.clients[i]
			for owner := range modelOwners {
				// A lock that is yet to be reclaimed is not on the host.
				if c := &b.bytes[owner][0][at]; blocks(c.kind, kind) && r.current(b, &c.claim) {
					if r.protected(b, &c.claim, false) {
						r.fail("a process of the host gets a lock of client %s", b.name)
					}
					c.must, c.tainted = false, "lock of a process of the host"
				}
			}
		}
	}
}
