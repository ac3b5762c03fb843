package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// newLock is the arguments of a LOCK through an open.
func newLock(open nfs4.StateID, key, owner string, exclusive bool, start, end uint64) *Lock {
	open.SeqID = 0
	return &Lock{StateID: open, New: true, Owner: []byte(owner), Key: key, Exclusive: exclusive, Range: locks.Range{Start: start, End: end}}
}

// lock is LOCK, which must succeed.
func (w *world) lock(s *Session, a *Lock) nfs4.StateID {
	w.t.Helper()
	id, d, status := w.Lock(s, a)
	if status != nfs4.OK {
		w.t.Fatalf("LOCK is %v by %+v", status, d)
	}
	return id
}

func (w *world) lockStatus(s *Session, a *Lock) nfs4.Status {
	_, _, status := w.Lock(s, a)
	return status
}

// by is the arguments of a LOCK by an existing lock stateid.
func (a Lock) by(id nfs4.StateID) *Lock {
	a.StateID, a.New, a.Owner = id, false, nil
	return &a
}

func (w *world) unlock(s *Session, id nfs4.StateID, key string, start, end uint64) (nfs4.StateID, nfs4.Status) {
	return w.Unlock(s, &Lock{StateID: id, Key: key, Range: locks.Range{Start: start, End: end}})
}

// R8881-8.2.1-1, R8881-8.2.2-1, R8881-8.2.4-2, R8881-9.4-1, R8881-18.10.3-3,
// R8881-18.10.3-4, R8881-18.12.3-1: the life of a lock stateid.
func TestLockStateID(t *testing.T) {
	w := newWorld(t)
	s := w.client("c")
	o, open := w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
	a := newLock(open, "f", "l", false, 10, 19)
	id := w.lock(s, a)
	want(t, "first seqid", id.SeqID, 1)
	want(t, "the open's stateid", o.StateID(), open)
	again := w.lock(s, a)
	want(t, "stateid of the same owner on the same open", again, nfs4.StateID{SeqID: 2, Other: id.Other})
	want(t, "OLD_STATEID", w.lockStatus(s, a.by(id)), nfs4.ErrOldStateID)
	want(t, "BAD_STATEID", w.lockStatus(s, a.by(nfs4.StateID{SeqID: 3, Other: id.Other})), nfs4.ErrBadStateID)
	id = w.lock(s, newLock(open, "f", "", true, 12, 12).by(again))
	want(t, "seqid after an upgrade", id, nfs4.StateID{SeqID: 3, Other: id.Other})
	want(t, "locks", w.used[lockRanges], 3)
	held, status := w.Open(s, &id)
	want(t, "Open of a lock stateid", status, nfs4.OK)
	want(t, "Open of a lock stateid", held, o)
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.OK)
	want(t, "FREE_STATEID with locks", w.FreeStateID(s, &id), nfs4.ErrLocksHeld)
	want(t, "FREE_STATEID of an open", w.FreeStateID(s, &open), nfs4.ErrLocksHeld)
	id, status = w.unlock(s, id, "f", 0, locks.ToEnd)
	want(t, "LOCKU", status, nfs4.OK)
	want(t, "seqid after LOCKU", id.SeqID, 4)
	want(t, "locks", w.used[lockRanges], 0)
	id, status = w.unlock(s, id, "f", 0, 0)
	want(t, "LOCKU of what is not locked", status, nfs4.OK)
	want(t, "its seqid", id.SeqID, 5)
	id = w.lock(s, a.by(id))
	want(t, "LOCK again", id, nfs4.StateID{SeqID: 6, Other: again.Other})
	id, _ = w.unlock(s, id, "f", 10, 19)
	old := nfs4.StateID{SeqID: 1, Other: id.Other}
	want(t, "FREE_STATEID of an old one", w.FreeStateID(s, &old), nfs4.ErrOldStateID)
	want(t, "FREE_STATEID", w.FreeStateID(s, &id), nfs4.OK)
	want(t, "FREE_STATEID again", w.FreeStateID(s, &id), nfs4.ErrBadStateID)
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrBadStateID)
	fresh := w.lock(s, a)
	want(t, "the same stateid after FREE_STATEID", fresh.Other == id.Other, false)
	want(t, "seqid", fresh.SeqID, 1)
	want(t, "CLOSE", w.Close(s, &open), nfs4.OK)
	want(t, "the lock stateid after CLOSE", w.TestStateID(s, &fresh), nfs4.ErrBadStateID)
	want(t, "locks", w.used[lockRanges]+w.lockSets(), 0)
}

// R8881-8.2-1, R8881-8.2-3, R8881-8.2.3-8, R8881-8.2.4-5: stateids of another
// client, object or type.
func TestLockWrongStateID(t *testing.T) {
	w := newWorld(t)
	s, other := w.client("c"), w.client("other")
	_, open := w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
	a := newLock(open, "f", "l", true, 0, 0)
	old := w.lock(s, a)
	id := w.lock(s, a)
	id.SeqID = 0
	asOpen, asLock := newLock(id, "f", "l", true, 0, 0), a.by(open)
	for name, status := range map[string]nfs4.Status{
		"LOCK by another client's open":             w.lockStatus(other, a),
		"LOCK by another client's locks":            w.lockStatus(other, a.by(id)),
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
		_, status := w.unlock(args.s, args.id, args.key, 0, 0)
		want(t, "LOCKU "+name, status, nfs4.ErrBadStateID)
	}
	want(t, "locks", w.used[lockRanges], 1)
}

// R8881-18.10.4-1, R8881-9.1.2-5: locks need the access of the open; reclaims
// have no grace period (R8881-8.4.2.1-8), and other locks come after RECLAIM_COMPLETE.
//
// R8881-18.10.4-3.
func TestLockRefused(t *testing.T) {
	w := newWorld(t)
	s := w.client("c")
	for access := nfs4.ShareRead; access <= nfs4.ShareBoth; access++ {
		key := fmt.Sprint(access)
		_, open := w.open(s, "o", key, access, 0, nil)
		for _, exclusive := range []bool{false, true} {
			expected := nfs4.ErrOpenMode
			if access == nfs4.ShareBoth || exclusive == (access == nfs4.ShareWrite) {
				expected = nfs4.OK
			}
			want(t, fmt.Sprint("LOCK of an open for ", access, ", exclusive ", exclusive),
				w.lockStatus(s, newLock(open, key, "l", exclusive, 0, 0)), expected)
		}
	}
	_, open := w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
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
	w := newWorld(t)
	a, b := w.client("a"), w.client("b")
	_, openA := w.open(a, "o", "f", nfs4.ShareBoth, 0, nil)
	_, openB := w.open(b, "o", "f", nfs4.ShareBoth, 0, nil)
	idA := w.lock(a, newLock(openA, "f", "o", false, 10, 19))
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
	want(t, "LOCKT of what nobody has open", status, nfs4.OK)

	idB := w.lock(b, newLock(openB, "f", "o", false, 15, 15))
	_, d, status := w.Lock(a, whole.by(idA))
	want(t, "upgrade", status, nfs4.ErrDenied)
	want(t, "LOCK4denied", d, Denied{locks.Range{Start: 15, End: 15}, false, b.ClientID(), "o", false})
	want(t, "the stateid after DENIED", w.TestStateID(a, &idA), nfs4.OK)
	_, status = w.TestLock(b, newLock(openB, "f", "x", true, 19, 19))
	want(t, "LOCKT of what was not upgraded", status, nfs4.ErrDenied)
	_, status = w.unlock(b, idB, "f", 15, 15)
	want(t, "LOCKU", status, nfs4.OK)
	idA = w.lock(a, whole.by(idA))
	_, d, _ = w.Lock(b, newLock(openB, "f", "o", false, 3, 3))
	want(t, "LOCK4denied", d, Denied{locks.Range{Start: 0, End: locks.ToEnd}, true, a.ClientID(), "o", false})
	w.lock(a, newLock(openA, "f", "", false, 0, locks.ToEnd).by(idA))
	w.lock(b, newLock(openB, "f", "o", false, 3, 3))
}

// R8881-9.5-1, R8881-9.8-2, R8881-18.2.3-3: one lock-owner through two opens. A
// byte belongs to the open through which it was locked last.
func TestLocksThroughTwoOpens(t *testing.T) {
	w := newWorld(t)
	s, other := w.client("c"), w.client("other")
	_, open1 := w.open(s, "o1", "f", nfs4.ShareBoth, 0, nil)
	_, open2 := w.open(s, "o2", "f", nfs4.ShareBoth, 0, nil)
	_, openOther := w.open(other, "o", "f", nfs4.ShareBoth, 0, nil)
	id1 := w.lock(s, newLock(open1, "f", "l", true, 0, 99))
	id2 := w.lock(s, newLock(open2, "f", "l", false, 50, 149))
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
	_, status := w.unlock(s, id1, "f", 140, 149)
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

// R8881-8.4.3-1: locks of a silent client give way at the conflict, and not
// before; R8881-2.4-2: those of an old incarnation end with it.
func TestSilentLockers(t *testing.T) {
	for name, asks := range map[string]func(w *world, s *Session, a *Lock) nfs4.Status{
		"LOCK":  (*world).lockStatus,
		"LOCKT": func(w *world, s *Session, a *Lock) nfs4.Status { _, status := w.TestLock(s, a); return status },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			silent, s := w.client("silent"), w.client("c")
			_, open := w.open(silent, "o", "f", nfs4.ShareBoth, 0, "file")
			id := w.lock(silent, newLock(open, "f", "l", true, 0, 9))
			_, mine := w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
			w.sleep(testLease)
			want(t, "within the lease", asks(w, s, newLock(mine, "f", "l", true, 5, 5)), nfs4.ErrDenied)
			w.sleep(1)
			want(t, "bytes beside", asks(w, s, newLock(mine, "f", "l", true, 10, 19)), nfs4.OK)
			want(t, "the stateid when nobody needs it", w.TestStateID(silent, &id), nfs4.OK)
			want(t, "SEQUENCE", w.next(silent, 0).New, true)
			want(t, "while a call runs", asks(w, s, newLock(mine, "f", "l", true, 5, 5)), nfs4.ErrDenied)
			silent.End(0, nil, false, false)
			w.sleep(testLease + 1)
			want(t, "after the lease", asks(w, s, newLock(mine, "f", "l", true, 5, 5)), nfs4.OK)
			want(t, "the stateid", w.TestStateID(silent, &id), nfs4.ErrBadStateID)
			want(t, "SEQUENCE", w.next(silent, 0).Status, nfs4.ErrBadSession)
			want(t, "releases", w.releases("file"), 1)
		})
	}
	w := newWorld(t)
	old, s := w.client("a"), w.client("c")
	_, open := w.open(old, "o", "f", nfs4.ShareBoth, 0, nil)
	w.lock(old, newLock(open, "f", "l", true, 0, 9))
	_, mine := w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
	id, sequence, _ := w.exchange(exchange("a", 2, 0))
	want(t, "before the new incarnation is confirmed", w.lockStatus(s, newLock(mine, "f", "l", true, 5, 5)), nfs4.ErrDenied)
	w.create(create(id, sequence, 0))
	want(t, "after that", w.lockStatus(s, newLock(mine, "f", "l", true, 5, 5)), nfs4.OK)
	w.sleep(2 * testLease)
	_, status := w.TestLock(s, newLock(mine, "f", "other", true, 5, 5))
	want(t, "a silent client's own conflict", status, nfs4.ErrDenied)
}

// R8881-21-5: locks and lock stateids are bounded, and unlocking always goes on
// that does not split a lock.
func TestManyLocks(t *testing.T) {
	w := newWorld(t)
	s, other := w.client("c"), w.client("other")
	_, open := w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
	id := w.lock(s, newLock(open, "f", "l", true, 0, 0))
	id.SeqID = 0
	for i := range uint64(maxLocks - 2) {
		w.lock(s, newLock(open, "f", "l", true, 2*i+2, 2*i+2).by(id))
	}
	want(t, "LOCK", w.lockStatus(s, newLock(open, "f", "l", true, 1<<40, 1<<41).by(id)), nfs4.ErrServerFault)
	_, status := w.unlock(s, id, "f", 1<<16, locks.ToEnd)
	want(t, "LOCKU", status, nfs4.OK)
	_, open2 := w.open(other, "o", "g", nfs4.ShareBoth, 0, nil)
	want(t, "LOCK of another client", w.lockStatus(other, newLock(open2, "g", "l", true, 0, 0)), nfs4.OK)

	_, open3 := w.open(s, "o", "h", nfs4.ShareBoth, 0, nil)
	id3 := w.lock(s, newLock(open3, "h", "l", true, 0, locks.ToEnd))
	id3.SeqID = 0
	for i := uint64(1); status == nfs4.OK; i += 2 {
		if i > 8*maxLocks {
			t.Fatal("unlocking makes locks without end")
		}
		_, status = w.unlock(s, id3, "h", i, i)
	}
	want(t, "LOCKU that splits", status, nfs4.ErrDelay)
	want(t, "locks of the client", s.client.locks, 2*maxLocks)
	_, status = w.unlock(s, id3, "h", 0, 0)
	want(t, "LOCKU", status, nfs4.OK)
	_, status = w.unlock(s, id3, "h", 0, locks.ToEnd)
	want(t, "LOCKU of all", status, nfs4.OK)
	w.Close(s, &open3)

	w.used[lockRanges] += maxAllLocks - 4
	want(t, "LOCK without room for all", w.lockStatus(other, newLock(open2, "g", "l", true, 0, 9)), nfs4.ErrDelay)
	w.sleep(testLease + 1)
	w.call(other)
	id2 := w.lock(other, newLock(open2, "g", "l", true, 0, 9)) // a silent client has made room
	w.used[lockRanges] += maxAllLocks + 3
	_, status = w.unlock(other, id2, "g", 5, 5)
	want(t, "LOCKU that splits, without room for all", status, nfs4.ErrDelay)
	_, status = w.unlock(other, id2, "g", 0, 5)
	want(t, "LOCKU that does not", status, nfs4.OK)
	w.used[lockRanges] -= 2*maxAllLocks - 1

	s = w.client("c")
	_, open = w.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
	for i := range maxLockSets {
		a := newLock(open, "f", fmt.Sprint(i), false, 0, 0)
		freed := w.lock(s, a)
		w.unlock(s, freed, "f", 0, 0)
	}
	want(t, "LOCK of one more owner", w.lockStatus(s, newLock(open, "f", "x", false, 0, 0)), nfs4.ErrServerFault)
	want(t, "LOCK of an owner", w.lockStatus(s, newLock(open, "f", "7", false, 0, 0)), nfs4.OK)
	w.sleep(2 * defaultCourtesy)
	w.Sweep()
	w.empty()
}
