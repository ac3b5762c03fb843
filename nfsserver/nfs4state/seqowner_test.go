package nfs4state

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// mustTurn creates an operation in its turn, which must be new and succeeds.
func (w *testState) mustTurn(s *Session, a *Turn, do func()) {
	w.t.Helper()
	want(w.t, a.Op.String()+" in its turn", w.BeginTurn(w.t.Context(), s, a), nfs4.OK)
	want(w.t, a.Op.String()+" is a retry", a.Reply == nil, true)
	do()
	w.EndTurn(a, nfs4.OK, []byte(fmt.Sprint("reply of ", a.Op)), nil)
}

// confirmOwner confirms an open-owner.
func (w *testState) confirmOwner(s *Session, name string) {
	o := s.client.v40.owners[seqKey{name, false}]
	o.confirmed.Store(true)
	o.stopResting()
}

// openNewOwner sends OPEN and OPEN_CONFIRM for a new owner, with the numbers 1
// and 2.
func (w *testState) openNewOwner(s *Session, owner, key string, file any) nfs4.StateID {
	w.t.Helper()
	var id nfs4.StateID
	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte(owner), SeqID: 1}, func() { _, id = w.mustOpen(s, owner, key, 3, 0, file) })
	w.mustTurn(s, &Turn{Op: nfs4.OpOpenConfirm, StateID: id, SeqID: 2}, func() {
		var status nfs4.Status
		id, status = w.ConfirmOpen(s, &id, []byte(key))
		want(w.t, "OPEN_CONFIRM", status, nfs4.OK)
	})
	return id
}

// TestAdvances: after eight errors, and no other status, the number comes again
// (R7530-9.1.7-7). Else the reply is kept, also that of an error, and the number is
// used up.
func TestAdvances(t *testing.T) {
	again := map[nfs4.Status]bool{
		nfs4.ErrStaleClientID: true, nfs4.ErrStaleStateID: true, nfs4.ErrBadStateID: true, nfs4.ErrBadSeqID: true,
		nfs4.ErrBadXDR: true, nfs4.ErrResource: true, nfs4.ErrNoFileHandle: true, nfs4.ErrMoved: true,
	}
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", nil)
	last := uint32(2)
	begin := func(seqid uint32) (*Turn, nfs4.Status) {
		a := &Turn{Op: nfs4.OpOpenDowngrade, StateID: id, SeqID: seqid}
		return a, w.BeginTurn(t.Context(), s, a)
	}
	for status := nfs4.OK; status <= nfs4.ErrXattr2Big; status++ {
		if status > 100 && status < 10001 {
			continue
		}
		a, st := begin(last + 1)
		want(t, "number after the last", st, nfs4.OK)
		w.EndTurn(a, status, []byte(status.String()), nil)
		if again[status] {
			continue
		}
		last++
		a, st = begin(last)
		want(t, "last number", st, nfs4.OK)
		want(t, "reply", string(a.Reply), status.String())
		w.EndTurn(a, status, a.Reply, nil)
		for _, wrong := range []uint32{last - 1, last + 2, last + 1<<31} {
			_, st = begin(wrong)
			want(t, "wrong number", st, nfs4.ErrBadSeqID)
		}
	}
}

// TestTurnsOfTwoOwners enumerates the numbers of LOCK by a lock-owner that may be
// known, and their last operations (R7530-9.1.9-1, R7530-9.1.9-2, R7530-9.1.9-3,
// R7530-9.1.9-5).
func TestTurnsOfTwoOwners(t *testing.T) {
	for _, known := range []bool{false, true} {
		for open := -1; open <= 2; open++ {
			for lock := -1; lock <= 2; lock++ {
				for _, lastWasLock := range []bool{false, true} {
					w := newTestState(t)
					s := w.newClient40("x")
					f, g := w.openNewOwner(s, "o", "f", nil), w.openNewOwner(s, "p", "g", nil)
					take := func(id nfs4.StateID, key string, seqid, lockSeqID uint32) nfs4.Status {
						a := &Turn{Op: nfs4.OpLock, New: true, StateID: id, Owner: []byte("l"), SeqID: seqid, LockSeqID: lockSeqID}
						if st := w.BeginTurn(t.Context(), s, a); st != nfs4.OK {
							return st
						}
						status, reply := nfs4.OK, []byte("new")
						if a.Reply == nil {
							_, _, status = w.Lock(s, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: key, Range: locks.Range{Start: 0, End: 0}})
						}
						w.EndTurn(a, status, reply, nil)
						if a.Reply != nil {
							return statusNotStored // represents a retry
						}
						return status
					}
					if known {
						want(t, "LOCK of g", take(g, "g", 3, 10), nfs4.OK)
					}
					last, lastLock := uint32(2), uint32(10)
					if lastWasLock {
						lastLock++
						last++
						want(t, "LOCK of f", take(f, "f", last, lastLock), nfs4.OK)
						if !known {
							want(t, "the lock-owner is known now", w.lockSets(), 1)
						}
					}
					expected := nfs4.ErrBadSeqID
					isKnown := known || lastWasLock
					switch {
					case open == 1 && (lock == 1 || !isKnown) && !lastWasLock:
						expected = nfs4.OK
					case open == 0 && lock == 0 && lastWasLock:
						expected = statusNotStored
					} // with lastWasLock the next number is that of a lock-owner which the file knows
					got := take(f, "f", last+uint32(open), lastLock+uint32(lock))
					want(t, fmt.Sprint("LOCK ", known, open, lock, lastWasLock), got, expected)
				}
			}
		}
	}
}

// TestOwnersRest: owners without opens are kept for retries, and forgotten after a
// while (R7530-9.1.8-1, R7530-9.1.10-1, R7530-9.10.1-1); unconfirmed opens are
// closed then (R7530-16.18-4).
func TestOwnersRest(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", "file")
	closed := &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 3}
	w.mustTurn(s, closed, func() { want(t, "CLOSE", w.Close(s, &id), nfs4.OK) })
	want(t, "releases", w.releaseCount("file"), 1)
	retry := &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 3}
	want(t, "CLOSE again", w.BeginTurn(t.Context(), s, retry), nfs4.OK)
	want(t, "reply", string(retry.Reply), "reply of CLOSE")
	w.EndTurn(retry, nfs4.OK, nil, nil)
	_, status := w.Open(s, &id)
	want(t, "stateid after CLOSE", status, nfs4.ErrBadStateID)
	before := w.usage.get(stateIDs)
	for n := range uint32(3) { // the owner's next operation ends the stateid
		var next nfs4.StateID
		w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("o"), SeqID: 4 + 2*n}, func() { _, next = w.mustOpen(s, "o", "f", 3, 0, nil) })
		want(t, "CLOSE of the last open", w.BeginTurn(t.Context(), s, &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 3 + 2*n}), nfs4.ErrBadStateID)
		id = next
		w.mustTurn(s, &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 5 + 2*n}, func() { want(t, "CLOSE", w.Close(s, &id), nfs4.OK) })
		want(t, "stateids", w.usage.get(stateIDs), before)
	}

	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("unconfirmed"), SeqID: 1}, func() { _, id = w.mustOpen(s, "unconfirmed", "g", 3, 0, "second") })
	_, status = w.Open(s, &id)
	want(t, "unconfirmed stateid", status, nfs4.ErrBadStateID)
	held := w.openNewOwner(s, "busy", "h", "third")
	w.advanceClock(testLease + graceSlack)
	w.Sweep()
	want(t, "owners", len(s.client.v40.owners), 3)
	w.advanceClock(1)
	w.Sweep()
	want(t, "owners after a while", len(s.client.v40.owners), 1)
	want(t, "releases", w.releaseCount("second"), 1)
	want(t, "OPEN_CONFIRM after that", w.BeginTurn(t.Context(), s, &Turn{Op: nfs4.OpOpenConfirm, StateID: id, SeqID: 2}), nfs4.ErrBadStateID)
	_, status = w.Open(s, &held)
	want(t, "open of an owner that is in use", status, nfs4.OK)
	s.Leave()
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	want(t, "releases", w.releaseCount("third"), 1)
	w.checkEmpty()
}

// TestOwnersAreBounded: a client's unused owners do not accumulate without
// limit, and nothing is left of any.
func TestOwnersAreBounded(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	for i := range 3 * maxResting {
		name := fmt.Sprint("o", i)
		if i%2 == 0 {
			w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte(name), SeqID: 7}, func() { w.mustOpen(s, name, name, 3, 0, i) })
			continue
		}
		id := w.openNewOwner(s, name, name, i)
		w.mustTurn(s, &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 3}, func() { w.Close(s, &id) })
		failed := &Turn{Op: nfs4.OpOpen, Owner: []byte("failed" + name), SeqID: 7}
		want(t, "OPEN", w.BeginTurn(t.Context(), s, failed), nfs4.OK)
		w.EndTurn(failed, nfs4.ErrNoEnt, []byte("none"), nil)
	}
	want(t, "owners", len(s.client.v40.owners), maxResting)
	want(t, "stateids", w.usage.get(stateIDs) < 4*maxResting, true)
	s.Leave()
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	w.checkEmpty()
}

// TestLockOwners: RELEASE_LOCKOWNER removes the state of a lock-owner without
// locks (R7530-16.37-1, R7530-16.37-2), and a bound of locks is
// NFS4ERR_RESOURCE.
func TestLockOwners(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", nil)
	var held nfs4.StateID
	w.mustTurn(s, &Turn{Op: nfs4.OpLock, New: true, StateID: id, Owner: []byte("l"), SeqID: 3, LockSeqID: 70}, func() {
		var status nfs4.Status
		held, _, status = w.Lock(s, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 9}})
		want(t, "LOCK", status, nfs4.OK)
	})
	want(t, "RELEASE_LOCKOWNER with locks", w.ReleaseLockOwner(s, []byte("l")), nfs4.ErrLocksHeld)
	want(t, "RELEASE_LOCKOWNER of the open-owner's name", w.ReleaseLockOwner(s, []byte("o")), nfs4.OK)
	w.mustTurn(s, &Turn{Op: nfs4.OpLockU, StateID: held, SeqID: 71}, func() {
		var status nfs4.Status
		held, status = w.Unlock(s, &Lock{StateID: held, Key: "f", Range: locks.Range{Start: 0, End: 9}})
		want(t, "LOCKU", status, nfs4.OK)
	})
	s.client.locks = maxLocks
	_, _, status := w.Lock(s, &Lock{StateID: held, Key: "f", Range: locks.Range{Start: 0, End: 9}})
	want(t, "LOCK beyond the bound", status, nfs4.ErrResource)
	s.client.locks = 0
	want(t, "RELEASE_LOCKOWNER", w.ReleaseLockOwner(s, []byte("l")), nfs4.OK)
	want(t, "lock stateids", w.lockSets(), 0)
	_, status = w.Open(s, &held)
	want(t, "lock stateid", status, nfs4.ErrBadStateID)
	s.Leave()
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	w.checkEmpty()
}

// TestReleaseBesideLock: RELEASE_LOCKOWNER is NFS4ERR_LOCKS_HELD while a LOCK of the
// owner runs, also the first one, whose owner has no stateid yet (R7530-16.37-1).
func TestReleaseBesideLock(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", nil)
	a := Lock{StateID: id, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 9}}
	var held nfs4.StateID
	w.mustTurn(s, &Turn{Op: nfs4.OpLock, New: true, StateID: id, Owner: a.Owner, SeqID: 3, LockSeqID: 70}, func() {
		want(t, "RELEASE_LOCKOWNER during the first LOCK", w.ReleaseLockOwner(s, a.Owner), nfs4.ErrLocksHeld)
		var status nfs4.Status
		held, _, status = w.Lock(s, &a)
		want(t, "LOCK", status, nfs4.OK)
	})
	w.mustTurn(s, &Turn{Op: nfs4.OpLockU, StateID: held, SeqID: 71}, func() {
		var status nfs4.Status
		held, status = w.Unlock(s, &Lock{StateID: held, Key: "f", Range: a.Range})
		want(t, "LOCKU", status, nfs4.OK)
		want(t, "RELEASE_LOCKOWNER during LOCKU", w.ReleaseLockOwner(s, a.Owner), nfs4.ErrLocksHeld)
	})
	w.mustTurn(s, &Turn{Op: nfs4.OpLock, StateID: held, SeqID: 72}, func() {
		want(t, "RELEASE_LOCKOWNER during a LOCK", w.ReleaseLockOwner(s, a.Owner), nfs4.ErrLocksHeld)
		_, _, status := w.Lock(s, &Lock{StateID: held, Key: "f", Range: a.Range})
		want(t, "LOCK", status, nfs4.OK)
	})
	s.Leave()
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	w.checkEmpty()
}

// TestConfirmOfAnotherFile: OPEN_CONFIRM of another file than that of the stateid is
// NFS4ERR_BAD_STATEID, and confirms nothing (R7530-9.1.4-1).
func TestConfirmOfAnotherFile(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	var id nfs4.StateID
	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("o"), SeqID: 1}, func() { _, id = w.mustOpen(s, "o", "f", 3, 0, nil) })
	_, status := w.ConfirmOpen(s, &id, []byte("g"))
	want(t, "OPEN_CONFIRM of another file", status, nfs4.ErrBadStateID)
	_, status = w.Open(s, &id)
	want(t, "stateid", status, nfs4.ErrBadStateID)
	_, status = w.ConfirmOpen(s, &id, []byte("f"))
	want(t, "OPEN_CONFIRM", status, nfs4.OK)
}

// A fakeAside counts the operations that wait.
type fakeAside struct{ n int }

func (a *fakeAside) StepAside() { a.n++ }

// TestTurnsWait: of two operations of one owner the second waits, and finds the
// reply of the first if it is a retry (R7530-9.1.7-4). An operation whose
// connection ends gives up.
func TestTurnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestState(manyGoroutines{t})
		s := w.newClient40("x")
		id := w.openNewOwner(s, "o", "f", nil)
		first := &Turn{Op: nfs4.OpOpenDowngrade, StateID: id, SeqID: 3}
		want(t, "first", w.BeginTurn(t.Context(), s, first), nfs4.OK)
		var waits fakeAside
		over, end := context.WithCancel(t.Context())
		answers := make(chan nfs4.Status, 1)
		go func() {
			answers <- w.BeginTurn(over, s, &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 4, Aside: &waits})
		}()
		synctest.Wait()
		end()
		want(t, "operation whose connection was closed", <-answers, nfs4.ErrDelay)
		retry := &Turn{Op: nfs4.OpOpenDowngrade, StateID: id, SeqID: 3, Aside: &waits}
		go func() { answers <- w.BeginTurn(t.Context(), s, retry) }()
		synctest.Wait()
		w.EndTurn(first, nfs4.OK, []byte("done"), nil)
		want(t, "retry", <-answers, nfs4.OK)
		want(t, "reply", string(retry.Reply), "done")
		want(t, "operations that have waited", waits.n, 2)
		w.EndTurn(retry, nfs4.OK, nil, nil)
		s.Leave()
		want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
		w.checkEmpty()
	})
}

// TestTurnsAreBounded: however many operations of an owner come, few wait, and the
// others do not use up the number (R7530-9.1.7-7). The same holds for a lock-owner for
// which the operations of many open-owners wait.
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestState(manyGoroutines{t})
		s := w.newClient40("x")
		id := w.openNewOwner(s, "o", "f", nil)
		first := &Turn{Op: nfs4.OpOpenDowngrade, StateID: id, SeqID: 3}
		want(t, "first", w.BeginTurn(t.Context(), s, first), nfs4.OK)
		const calls = 3 * maxInTurn
		answers := make(chan nfs4.Status, calls)
		begin := func(a *Turn) {
			go func() {
				st := w.BeginTurn(t.Context(), s, a)
				if st == nfs4.OK {
					if st = a.Refused; st == nfs4.OK {
						st = nfs4.ErrDenied
					}
					w.EndTurn(a, st, []byte("reply"), nil)
				}
				answers <- st
			}()
			synctest.Wait()
		}
		for range calls {
			begin(&Turn{Op: nfs4.OpClose, StateID: id, SeqID: 9})
		}
		want(t, "operations that do not wait", len(answers), calls-maxInTurn+1)
		for len(answers) > 0 {
			want(t, "one of them", <-answers, nfs4.ErrResource)
		}
		w.EndTurn(first, nfs4.OK, []byte("done"), nil)
		synctest.Wait()
		want(t, "operations that have waited", len(answers), maxInTurn-1)
		for len(answers) > 0 {
			want(t, "one of them", <-answers, nfs4.ErrBadSeqID)
		}

		lock := func(id nfs4.StateID, seqid uint32) *Turn {
			return &Turn{Op: nfs4.OpLock, New: true, StateID: id, Owner: []byte("l"), SeqID: seqid, LockSeqID: 7}
		}
		first = lock(id, 4)
		want(t, "first", w.BeginTurn(t.Context(), s, first), nfs4.OK)
		var others []nfs4.StateID
		for i := range calls {
			others = append(others, w.openNewOwner(s, fmt.Sprint("o", i), "g", nil))
		}
		for _, id := range others {
			begin(lock(id, 3))
		}
		want(t, "operations that do not wait for the lock-owner", len(answers), calls-maxInTurn+1)
		for len(answers) > 0 {
			want(t, "one of them", <-answers, nfs4.ErrResource)
		}
		w.EndTurn(first, nfs4.ErrDenied, []byte("denied"), nil)
		synctest.Wait()
		want(t, "operations that have waited", len(answers), maxInTurn-1)
		for _, id := range others[maxInTurn-1:] {
			a := lock(id, 3)
			want(t, "the same number again", w.BeginTurn(t.Context(), s, a), nfs4.OK)
			want(t, "a retry", a.Reply == nil, true)
			w.EndTurn(a, nfs4.ErrDenied, []byte("denied"), nil)
		}
		s.Leave()
		want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
		w.checkEmpty()
	})
}

// TestLockOwnerWithoutRoom: LOCK by a new lock-owner that exceeds a limit is
// NFS4ERR_DELAY in the open-owner's turn, whose number is then used up
// (R7530-9.1.7-7).
func TestLockOwnerWithoutRoom(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", nil)
	begin := func(seqid uint32) *Turn {
		a := &Turn{Op: nfs4.OpLock, New: true, StateID: id, Owner: []byte("l"), SeqID: seqid, LockSeqID: 7}
		want(t, fmt.Sprint("LOCK with number ", seqid), w.BeginTurn(t.Context(), s, a), nfs4.OK)
		return a
	}
	w.usage[stateIDs].Add(maxHoldings)
	a := begin(3)
	want(t, "refusal", a.Refused, nfs4.ErrDelay)
	w.EndTurn(a, a.Refused, []byte("later"), nil)
	w.usage[stateIDs].Add(-maxHoldings)
	retry := begin(3)
	want(t, "reply to a retry", string(retry.Reply), "later")
	w.EndTurn(retry, nfs4.ErrDelay, retry.Reply, nil)
	a = begin(4)
	want(t, "refusal", a.Refused, nfs4.OK)
	_, _, status := w.Lock(s, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 9}})
	want(t, "LOCK", status, nfs4.OK)
	w.EndTurn(a, status, []byte("locked"), nil)
	s.Leave()
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	w.checkEmpty()
}

// TestRevoke40: the state of a removed export is NFS4ERR_ADMIN_REVOKED
// (R7530-9.1.4.4-5). The owner's next number still counts, and the first operation
// that gets this status frees the stateid.
func TestRevoke40(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", "file")
	w.Revoke(func(any) bool { return true })
	_, status := w.Open(s, &id)
	want(t, "stateid", status, nfs4.ErrAdminRevoked)
	a := &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 3}
	want(t, "CLOSE in its turn", w.BeginTurn(t.Context(), s, a), nfs4.OK)
	status = w.Close(s, &id)
	want(t, "CLOSE", status, nfs4.ErrAdminRevoked)
	w.EndTurn(a, status, []byte("revoked"), nil)
	want(t, "revoked stateids", len(s.client.revoked), 0)
	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("o"), SeqID: 4}, func() { w.mustOpen(s, "o", "g", 3, 0, nil) })
	s.Leave()
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	w.checkEmpty()
}
