package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// newLock returns the arguments for a LOCK through an open.
func newLock(open nfs4.StateID, key, owner string, exclusive bool, start, end uint64) *Lock {
	open.SeqID = 0
	return &Lock{StateID: open, New: true, Owner: []byte(owner), Key: key, Exclusive: exclusive, Range: locks.Range{Start: start, End: end}}
}

// mustLock sends LOCK, which must succeed.
func (w *testState) mustLock(s *Session, a *Lock) nfs4.StateID {
	w.t.Helper()
	id, d, status := w.Lock(s, a)
	if status != nfs4.OK {
		w.t.Fatalf("LOCK is %v by %+v", status, d)
	}
	return id
}

func (w *testState) lockStatus(s *Session, a *Lock) nfs4.Status {
	_, _, status := w.Lock(s, a)
	return status
}

// withStateID returns the arguments for a LOCK with an existing lock stateid.
func (a Lock) withStateID(id nfs4.StateID) *Lock {
	a.StateID, a.New, a.Owner = id, false, nil
	return &a
}

func (w *testState) unlockBytes(s *Session, id nfs4.StateID, key string, start, end uint64) (nfs4.StateID, nfs4.Status) {
	return w.Unlock(s, &Lock{StateID: id, Key: key, Range: locks.Range{Start: start, End: end}})
}

// R8881-8.2.1-1, R8881-8.2.2-1, R8881-8.2.4-2, R8881-9.4-1, R8881-18.10.3-3,
// R8881-18.10.3-4, R8881-18.12.3-1: the life of a lock stateid.
func TestLockStateID(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	o, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	a := newLock(open, "f", "l", false, 10, 19)
	id := w.mustLock(s, a)
	want(t, "first seqid", id.SeqID, 1)
	want(t, "the open's stateid", o.StateID(), open)
	again := w.mustLock(s, a)
	want(t, "stateid of the same owner on the same open", again, nfs4.StateID{SeqID: 2, Other: id.Other})
	want(t, "OLD_STATEID", w.lockStatus(s, a.withStateID(id)), nfs4.ErrOldStateID)
	want(t, "BAD_STATEID", w.lockStatus(s, a.withStateID(nfs4.StateID{SeqID: 3, Other: id.Other})), nfs4.ErrBadStateID)
	id = w.mustLock(s, newLock(open, "f", "", true, 12, 12).withStateID(again))
	want(t, "seqid after an upgrade", id, nfs4.StateID{SeqID: 3, Other: id.Other})
	want(t, "locks", w.usage.get(lockRanges), 3)
	held, status := w.Open(s, &id)
	want(t, "Open of a lock stateid", status, nfs4.OK)
	want(t, "Open of a lock stateid", held, o)
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.OK)
	want(t, "FREE_STATEID with locks", w.FreeStateID(s, &id), nfs4.ErrLocksHeld)
	want(t, "FREE_STATEID of an open", w.FreeStateID(s, &open), nfs4.ErrLocksHeld)
	id, status = w.unlockBytes(s, id, "f", 0, locks.ToEnd)
	want(t, "LOCKU", status, nfs4.OK)
	want(t, "seqid after LOCKU", id.SeqID, 4)
	want(t, "locks", w.usage.get(lockRanges), 0)
	id, status = w.unlockBytes(s, id, "f", 0, 0)
	want(t, "LOCKU of what is not locked", status, nfs4.OK)
	want(t, "its seqid", id.SeqID, 5)
	id = w.mustLock(s, a.withStateID(id))
	want(t, "LOCK again", id, nfs4.StateID{SeqID: 6, Other: again.Other})
	id, _ = w.unlockBytes(s, id, "f", 10, 19)
	old := nfs4.StateID{SeqID: 1, Other: id.Other}
	want(t, "FREE_STATEID of an old one", w.FreeStateID(s, &old), nfs4.ErrOldStateID)
	want(t, "FREE_STATEID", w.FreeStateID(s, &id), nfs4.OK)
	want(t, "FREE_STATEID again", w.FreeStateID(s, &id), nfs4.ErrBadStateID)
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrBadStateID)
	fresh := w.mustLock(s, a)
	want(t, "the same stateid after FREE_STATEID", fresh.Other == id.Other, false)
	want(t, "seqid", fresh.SeqID, 1)
	want(t, "CLOSE", w.Close(s, &open), nfs4.OK)
	want(t, "the lock stateid after CLOSE", w.TestStateID(s, &fresh), nfs4.ErrBadStateID)
	want(t, "locks", w.usage.get(lockRanges)+w.lockSets(), 0)
}

// R8881-8.2-1, R8881-8.2-3, R8881-8.2.3-8, R8881-8.2.4-5: stateids of another
// client, object or type.
func TestLockWrongStateID(t *testing.T) {
	w := newTestState(t)
	s, other := w.newTestClient("c"), w.newTestClient("other")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	a := newLock(open, "f", "l", true, 0, 0)
	old := w.mustLock(s, a)
	id := w.mustLock(s, a)
	id.SeqID = 0
	asOpen, asLock := newLock(id, "f", "l", true, 0, 0), a.withStateID(open)
	for name, status := range map[string]nfs4.Status{
		"LOCK by another client's open":             w.lockStatus(other, a),
		"LOCK by another client's locks":            w.lockStatus(other, a.withStateID(id)),
		"LOCK of another object":                    w.lockStatus(s, newLock(open, "g", "l", true, 0, 0)),
		"LOCK of another object, by an old stateid": w.lockStatus(s, &Lock{StateID: old, Key: "g"}),
		"LOCK by locks as an open":                  w.lockStatus(s, asOpen),
		"LOCK by an open as locks":                  w.lockStatus(s, asLock),
		"LOCK by a special stateid":                 w.lockStatus(s, newLock(nfs4.AnonymousStateID, "f", "l", true, 0, 0)),
		"CLOSE of locks":                            w.Close(s, &id),
		"FREE_STATEID by another client":            w.FreeStateID(other, &id),
	} {
		want(t, name, status, nfs4.ErrBadStateID)
	}
	_, status := w.Downgrade(s, &id, nfs4.ShareRead, 0)
	want(t, "OPEN_DOWNGRADE of locks", status, nfs4.ErrBadStateID)
	for name, args := range map[string]struct {
		s   *Session
		id  nfs4.StateID
		key string
	}{
		"by an open": {s, open, "f"}, "by another client": {other, id, "f"}, "of another object": {s, id, "g"},
		"by a special stateid": {s, nfs4.BypassStateID, "f"},
	} {
		_, status := w.unlockBytes(args.s, args.id, args.key, 0, 0)
		want(t, "LOCKU "+name, status, nfs4.ErrBadStateID)
	}
	want(t, "locks", w.usage.get(lockRanges), 1)
}

// R8881-18.10.4-1, R8881-9.1.2-5: locks need the access of the open; reclaims
// have no grace period (R8881-8.4.2.1-8), and other locks come after RECLAIM_COMPLETE.
//
// R8881-18.10.4-3.
func TestLockRefused(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	for access := nfs4.ShareRead; access <= nfs4.ShareBoth; access++ {
		key := fmt.Sprint(access)
		_, open := w.mustOpen(s, "o", key, access, 0, nil)
		for _, exclusive := range []bool{false, true} {
			expected := nfs4.ErrOpenMode
			if access == nfs4.ShareBoth || exclusive == (access == nfs4.ShareWrite) {
				expected = nfs4.OK
			}
			want(t, fmt.Sprint("LOCK of an open for ", access, ", exclusive ", exclusive),
				w.lockStatus(s, newLock(open, key, "l", exclusive, 0, 0)), expected)
		}
	}
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	a := newLock(open, "f", "l", true, 0, 0)
	a.Reclaim = true
	want(t, "reclaim", w.lockStatus(s, a), nfs4.ErrNoGrace)
	a.Reclaim, s.client.reclaimed = false, false
	want(t, "LOCK before RECLAIM_COMPLETE", w.lockStatus(s, a), nfs4.ErrGrace)
	want(t, "lock stateids", w.lockSets(), 3)
}

// R8881-9.1.1-1, R8881-9.3-1, R8881-18.10.3-6, R8881-18.10.4-2, R8881-18.11.3-1:
// conflicts between owners of one client and of two, and their LOCK4denied.
func TestLockDenied(t *testing.T) {
	w := newTestState(t)
	a, b := w.newTestClient("a"), w.newTestClient("b")
	_, openA := w.mustOpen(a, "o", "f", nfs4.ShareBoth, 0, nil)
	_, openB := w.mustOpen(b, "o", "f", nfs4.ShareBoth, 0, nil)
	idA := w.mustLock(a, newLock(openA, "f", "o", false, 10, 19))
	for _, test := range []struct {
		s     *Session
		owner string
		open  nfs4.StateID
	}{{a, "p", openA}, {b, "o", openB}} {
		for _, r := range []locks.Range{{Start: 19, End: locks.ToEnd}, {Start: 0, End: 10}} {
			args := newLock(test.open, "f", test.owner, true, r.Start, r.End)
			_, d, status := w.Lock(test.s, args)
			want(t, "LOCK", status, nfs4.ErrDenied)
			expected := Denied{locks.Range{Start: 10, End: 19}, false, a.ClientID(), "o", false}
			want(t, "LOCK4denied", d, expected)
			d, status = w.TestLock(test.s, args)
			want(t, "LOCKT", status, nfs4.ErrDenied)
			want(t, "LOCK4denied", d, expected)
			args.Exclusive = false
			_, status = w.TestLock(test.s, args)
			want(t, "LOCKT for a shared lock", status, nfs4.OK)
		}
	}
	want(t, "lock stateids", w.lockSets(), 1)
	whole := newLock(openA, "f", "o", true, 0, locks.ToEnd)
	_, status := w.TestLock(a, whole)
	want(t, "LOCKT of the own range", status, nfs4.OK)
	_, status = w.TestLock(b, newLock(openB, "g", "o", true, 0, 0))
	want(t, "LOCKT of an object that is not open", status, nfs4.OK)

	idB := w.mustLock(b, newLock(openB, "f", "o", false, 15, 15))
	_, d, status := w.Lock(a, whole.withStateID(idA))
	want(t, "upgrade", status, nfs4.ErrDenied)
	want(t, "LOCK4denied", d, Denied{locks.Range{Start: 15, End: 15}, false, b.ClientID(), "o", false})
	want(t, "the stateid after DENIED", w.TestStateID(a, &idA), nfs4.OK)
	_, status = w.TestLock(b, newLock(openB, "f", "x", true, 19, 19))
	want(t, "LOCKT of what was not upgraded", status, nfs4.ErrDenied)
	_, status = w.unlockBytes(b, idB, "f", 15, 15)
	want(t, "LOCKU", status, nfs4.OK)
	idA = w.mustLock(a, whole.withStateID(idA))
	_, d, _ = w.Lock(b, newLock(openB, "f", "o", false, 3, 3))
	want(t, "LOCK4denied", d, Denied{locks.Range{Start: 0, End: locks.ToEnd}, true, a.ClientID(), "o", false})
	w.mustLock(a, newLock(openA, "f", "", false, 0, locks.ToEnd).withStateID(idA))
	w.mustLock(b, newLock(openB, "f", "o", false, 3, 3))
}

// R8881-9.5-1, R8881-9.8-2, R8881-18.2.3-3: one lock-owner through two opens. A
// byte belongs to the open through which it was locked last.
func TestLocksThroughTwoOpens(t *testing.T) {
	w := newTestState(t)
	s, other := w.newTestClient("c"), w.newTestClient("other")
	_, open1 := w.mustOpen(s, "o1", "f", nfs4.ShareBoth, 0, nil)
	_, open2 := w.mustOpen(s, "o2", "f", nfs4.ShareBoth, 0, nil)
	_, openOther := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
	id1 := w.mustLock(s, newLock(open1, "f", "l", true, 0, 99))
	id2 := w.mustLock(s, newLock(open2, "f", "l", false, 50, 149))
	want(t, "one stateid for two opens", id1.Other == id2.Other, false)
	want(t, "seqids", fmt.Sprint(id1.SeqID, id2.SeqID), "1 1")
	want(t, "the first stateid", w.TestStateID(s, &id1), nfs4.OK)
	locked := func(what string, start uint64, exclusive bool, status nfs4.Status) {
		t.Helper()
		_, got := w.TestLock(other, newLock(openOther, "f", "x", exclusive, start, start))
		want(t, what, got, status)
	}
	locked("what the first has exclusively", 49, false, nfs4.ErrDenied)
	locked("what the second made shared", 50, false, nfs4.OK)
	_, status := w.unlockBytes(s, id1, "f", 140, 149)
	want(t, "LOCKU by the first of what the second locked", status, nfs4.OK)
	want(t, "the second stateid", w.TestStateID(s, &id2), nfs4.OK)
	locked("what was unlocked", 140, true, nfs4.OK)
	want(t, "CLOSE", w.Close(s, &open1), nfs4.OK)
	locked("what only the first had", 49, true, nfs4.OK)
	locked("what the second has", 50, true, nfs4.ErrDenied)
	want(t, "CLOSE", w.Close(s, &open2), nfs4.OK)
	locked("what the second had", 50, true, nfs4.OK)
	want(t, "lock stateids", w.lockSets(), 0)
}

// R8881-8.4.3-1: a silent client loses its locks at the conflict, and not
// before; R8881-2.4-2: those of an old incarnation end with it.
func TestSilentLockers(t *testing.T) {
	for name, asks := range map[string]func(w *testState, s *Session, a *Lock) nfs4.Status{
		"LOCK":  (*testState).lockStatus,
		"LOCKT": func(w *testState, s *Session, a *Lock) nfs4.Status { _, status := w.TestLock(s, a); return status },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestState(t)
			silent, s := w.newTestClient("silent"), w.newTestClient("c")
			_, open := w.mustOpen(silent, "o", "f", nfs4.ShareBoth, 0, "file")
			id := w.mustLock(silent, newLock(open, "f", "l", true, 0, 9))
			_, mine := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
			w.advanceClock(testLease)
			want(t, "within the lease", asks(w, s, newLock(mine, "f", "l", true, 5, 5)), nfs4.ErrDenied)
			w.advanceClock(1)
			want(t, "bytes next to it", asks(w, s, newLock(mine, "f", "l", true, 10, 19)), nfs4.OK)
			want(t, "the stateid when no owner needs it", w.TestStateID(silent, &id), nfs4.OK)
			want(t, "SEQUENCE", w.beginNextCall(silent, 0).New, true)
			want(t, "while a call runs", asks(w, s, newLock(mine, "f", "l", true, 5, 5)), nfs4.ErrDenied)
			silent.End(0, nil, false, false)
			w.advanceClock(testLease + 1)
			want(t, "after the lease", asks(w, s, newLock(mine, "f", "l", true, 5, 5)), nfs4.OK)
			want(t, "the stateid", w.TestStateID(silent, &id), nfs4.ErrBadStateID)
			want(t, "SEQUENCE", w.beginNextCall(silent, 0).Status, nfs4.ErrBadSession)
			want(t, "releases", w.releaseCount("file"), 1)
		})
	}
	w := newTestState(t)
	old, s := w.newTestClient("a"), w.newTestClient("c")
	_, open := w.mustOpen(old, "o", "f", nfs4.ShareBoth, 0, nil)
	w.mustLock(old, newLock(open, "f", "l", true, 0, 9))
	_, mine := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	id, sequence, _ := w.mustExchange(exchangeArgs("a", 2, 0))
	want(t, "before the new incarnation is confirmed", w.lockStatus(s, newLock(mine, "f", "l", true, 5, 5)), nfs4.ErrDenied)
	w.mustCreateSession(createArgs(id, sequence, 0))
	want(t, "after that", w.lockStatus(s, newLock(mine, "f", "l", true, 5, 5)), nfs4.OK)
	w.advanceClock(2 * testLease)
	_, status := w.TestLock(s, newLock(mine, "f", "other", true, 5, 5))
	want(t, "a silent client's own conflict", status, nfs4.ErrDenied)
}

// R8881-21-5: locks and lock stateids are bounded, and unlocking always goes on
// that does not split a lock.
func TestManyLocks(t *testing.T) {
	w := newTestState(t)
	s, other := w.newTestClient("c"), w.newTestClient("other")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	id := w.mustLock(s, newLock(open, "f", "l", true, 0, 0))
	id.SeqID = 0
	for i := range uint64(maxLocks - 2) {
		w.mustLock(s, newLock(open, "f", "l", true, 2*i+2, 2*i+2).withStateID(id))
	}
	want(t, "LOCK", w.lockStatus(s, newLock(open, "f", "l", true, 1<<40, 1<<41).withStateID(id)), nfs4.ErrServerFault)
	_, status := w.unlockBytes(s, id, "f", 1<<16, locks.ToEnd)
	want(t, "LOCKU", status, nfs4.OK)
	_, open2 := w.mustOpen(other, "o", "g", nfs4.ShareBoth, 0, nil)
	want(t, "LOCK of another client", w.lockStatus(other, newLock(open2, "g", "l", true, 0, 0)), nfs4.OK)

	_, open3 := w.mustOpen(s, "o", "h", nfs4.ShareBoth, 0, nil)
	id3 := w.mustLock(s, newLock(open3, "h", "l", true, 0, locks.ToEnd))
	id3.SeqID = 0
	for i := uint64(1); status == nfs4.OK; i += 2 {
		if i > 8*maxLocks {
			t.Fatal("unlocking makes locks without limit")
		}
		_, status = w.unlockBytes(s, id3, "h", i, i)
	}
	want(t, "LOCKU that splits", status, nfs4.ErrDelay)
	want(t, "locks of the client", s.client.locks, 2*maxLocks)
	_, status = w.unlockBytes(s, id3, "h", 0, 0)
	want(t, "LOCKU", status, nfs4.OK)
	_, status = w.unlockBytes(s, id3, "h", 0, locks.ToEnd)
	want(t, "LOCKU of all", status, nfs4.OK)
	w.Close(s, &open3)

	w.usage[lockRanges].Add(maxAllLocks - 4)
	want(t, "LOCK without room for all", w.lockStatus(other, newLock(open2, "g", "l", true, 0, 9)), nfs4.ErrDelay)
	w.advanceClock(testLease + 1)
	w.renewByCall(other)
	id2 := w.mustLock(other, newLock(open2, "g", "l", true, 0, 9)) // a silent client was removed
	w.usage[lockRanges].Add(maxAllLocks + 3)
	_, status = w.unlockBytes(other, id2, "g", 5, 5)
	want(t, "LOCKU that splits, without room for all", status, nfs4.ErrDelay)
	_, status = w.unlockBytes(other, id2, "g", 0, 5)
	want(t, "LOCKU that does not", status, nfs4.OK)
	w.usage[lockRanges].Add(-(2*maxAllLocks - 1))

	s = w.newTestClient("c")
	_, open = w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	for i := range maxLockSets {
		a := newLock(open, "f", fmt.Sprint(i), false, 0, 0)
		freed := w.mustLock(s, a)
		w.unlockBytes(s, freed, "f", 0, 0)
	}
	want(t, "LOCK of one more owner", w.lockStatus(s, newLock(open, "f", "x", false, 0, 0)), nfs4.ErrServerFault)
	want(t, "LOCK of an owner", w.lockStatus(s, newLock(open, "f", "7", false, 0, 0)), nfs4.OK)
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	w.checkEmpty()
}
