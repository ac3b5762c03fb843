package nfs4state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// byDelegation returns the arguments for a LOCK through a delegation, or an open.
func byDelegation(id nfs4.StateID, key, owner string, exclusive bool, start, end uint64) *Lock {
	a := newLock(id, key, owner, exclusive, start, end)
	a.ByDelegation = true
	return a
}

// delegateOnly grants a delegation that represents the only open of a file.
func (w *testState) delegateOnly(s *Session, key string, write bool) *Delegation {
	w.t.Helper()
	access := nfs4.ShareRead
	if write {
		access = nfs4.ShareBoth
	}
	_, open := w.mustOpen(s, "o", key, access, 0, "open")
	d, status := w.Delegate(s, &Delegate{Key: key, Handle: "fh " + key, Write: write}, "delegated")
	want(w.t, "a delegation", status, nfs4.OK)
	id := d.StateID()
	want(w.t, "one stateid", w.ReplaceOpen(s, &open, &id), true)
	return d
}

// TestLockByDelegation checks that a delegation's stateid locks bytes like an open's, with the access
// of the delegation's type, that an open can take the locks over, and that the return of the delegation
// releases the others. R9754-4-3, R8881-9.1.2-5.
func TestLockByDelegation(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s, other := w.newCallableClient("a"), w.newCallableClient("b")
	d := w.delegateOnly(s, "f", false)
	did := d.StateID()
	want(t, "LOCK in a lesser minor version", w.lockStatus(s, newLock(did, "f", "l", false, 0, 6)), nfs4.ErrBadStateID)
	want(t, "LOCK of another file", w.lockStatus(s, byDelegation(did, "g", "l", false, 0, 6)), nfs4.ErrBadStateID)
	want(t, "LOCK of another client", w.lockStatus(other, byDelegation(did, "f", "l", false, 0, 6)), nfs4.ErrBadStateID)
	want(t, "LOCK for writing", w.lockStatus(s, byDelegation(did, "f", "l", true, 0, 6)), nfs4.ErrOpenMode)
	id := w.mustLock(s, f.setOn(byDelegation(did, "f", "l", false, 0, 6)))
	want(t, "the delegation's stateid", d.StateID(), did)
	id = w.mustLock(s, f.setOn(newLock(did, "f", "l", false, 8, 12).withStateID(id)))
	want(t, "a process's lock", f.hostObject("f").lockLocally(10, 10, locks.Exclusive), false)
	w.checkHostLocks(f)
	o, status := w.Open(s, &id)
	want(t, "READ by the locks' stateid", status, nfs4.OK)
	assert.Equal(t, "delegated", o.File)
	id, status = w.unlockBytes(s, id, "f", 10, 12)
	want(t, "LOCKU", status, nfs4.OK)
	want(t, "FREE_STATEID", w.FreeStateID(s, &id), nfs4.ErrLocksHeld)

	_, otherOpen := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil) // the server has recalled the delegation
	exclusive := func(start, end uint64) nfs4.Status {
		return w.lockStatus(other, f.setOn(newLock(otherOpen, "f", "x", true, start, end)))
	}
	want(t, "another client's LOCK", exclusive(3, 3), nfs4.ErrDenied)
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareRead, 0, nil) // by CLAIM_DELEG_CUR_FH
	w.mustLock(s, f.setOn(newLock(open, "f", "l", false, 0, 4)))
	want(t, "DELEGRETURN", w.ReturnDelegation(s, &did), nfs4.OK)
	want(t, "LOCK of what the open took over", exclusive(4, 4), nfs4.ErrDenied)
	want(t, "LOCK of the rest", exclusive(5, 15), nfs4.OK)
	want(t, "TEST_STATEID of the locks", w.TestStateID(s, &id), nfs4.ErrBadStateID)
	w.checkHostLocks(f)
}

// TestLocksOfDelegationEnd checks that all ends of a delegation release the locks through it, in steps,
// and with a record, if the client has not itself returned it.
func TestLocksOfDelegationEnd(t *testing.T) {
	ends := map[string]struct {
		end   func(w *testState, d *Delegation, s *Session)
		locks nfs4.Status // the status of the locks' stateid
	}{
		"DELEGRETURN": {func(w *testState, d *Delegation, s *Session) {
			id := d.StateID()
			want(w.t, "DELEGRETURN", w.ReturnDelegation(s, &id), nfs4.OK)
		}, nfs4.ErrBadStateID},
		"recall without return": {func(w *testState, d *Delegation, _ *Session) { w.RevokeDelegation(d) }, nfs4.ErrDelegRevoked},
		"administrator": {func(w *testState, _ *Delegation, _ *Session) {
			w.Revoke(func(file any) bool { return file == "delegated" })
		}, nfs4.ErrAdminRevoked},
		"recall from a silent client": {func(w *testState, d *Delegation, _ *Session) {
			w.advanceClock(testLease + 1)
			want(w.t, "time to return it", w.Recall(d), 0)
		}, nfs4.ErrBadStateID},
		"the client's end": {func(w *testState, _ *Delegation, s *Session) {
			want(w.t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
		}, nfs4.ErrBadStateID},
		"silence, and a process that waits": {func(w *testState, _ *Delegation, _ *Session) {
			w.State.config.LockWaited = func(any, string) (bool, bool) { return true, true }
			w.advanceClock(testLease + 1)
			w.Sweep()
		}, nfs4.ErrBadStateID},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			w, f := newTestState(manyGoroutines{t}), newHost(t)
			s := w.newCallableClient("a")
			d := w.delegateOnly(s, "f", true)
			id := w.mustLock(s, f.setOn(byDelegation(d.StateID(), "f", "l", true, 0, 0)))
			for i := range uint64(manyEntries - 1) {
				at := 2 * (i + 1)
				id = w.mustLock(s, newLock(id, "f", "l", true, at, at).withStateID(id))
			}
			c := s.client
			w.checkSteps(name, func() { tt.end(w, d, s) })
			w.WaitForHostLocks()
			want(t, "the delegation is outstanding", w.IsOutstanding(d), false)
			want(t, "releases of its file", w.releaseCount("delegated"), 1)
			want(t, "locks", c.locks, 0)
			want(t, "owners' locks", c.lockSets, 0)
			want(t, "TEST_STATEID", w.TestStateID(s, &id), tt.locks)
			want(t, "a process's lock", f.hostObject("f").lockLocally(0, 0, locks.Exclusive), true)
		})
	}
}

// TestRevokedLocksOfDelegation checks that nobody gets the bytes of a revoked delegation before the
// journal knows that their owner cannot reclaim them.
func TestRevokedLocksOfDelegation(t *testing.T) {
	g := newRestartingState(t)
	s, other := g.newCallableClient("a"), g.newCallableClient("b")
	d := g.delegateOnly(s, "f", false)
	g.mustLock(s, byDelegation(d.StateID(), "f", "l", false, 0, 0))
	_, open := g.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
	_, own := g.mustOpen(other, "o", "own", nfs4.ShareBoth, 0, nil)
	want(t, "LOCK of another file", g.lockFirstByte(other, own, "own", false), nfs4.OK)
	g.store.failing = true
	g.RevokeDelegation(d)
	g.background.Wait()
	want(t, "LOCK", g.lockFirstByte(other, open, "f", false), nfs4.ErrDelay)
	g.store.failing = false
	g.advanceClock(2 * retryEvery)
	g.Sweep()
	g.background.Wait()
	want(t, "LOCK", g.lockFirstByte(other, open, "f", false), nfs4.OK)
}
