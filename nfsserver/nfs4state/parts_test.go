package nfs4state

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// checkOnlyPart checks that do does not lock State.mu, which would close the holder's part.
func (w *testState) checkOnlyPart(by interface{ lockHolder() *holder }, what string, do func()) {
	w.t.Helper()
	part := by.lockHolder().part
	w.State.mu.lockPart(part).unlock() // opens it
	do()
	if !w.State.mu.parts[part].open {
		w.t.Errorf("%s locks the whole State", what)
	}
}

// TestCallsLockParts checks that the usual calls of a client do not lock the whole State,
// also with a journal, with locks on the host, and if another client's state conflicts.
func TestCallsLockParts(t *testing.T) {
	for name, host := range map[string]*fakeHost{"server": nil, "host": newHost(t)} {
		t.Run(name, func(t *testing.T) {
			w := newRestartingState(t).testState
			s, other := w.newCallableClient("a"), w.newTestClient("b")
			_, theirs := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
			on := func(a *Lock) *Lock {
				if host != nil {
					return host.setOn(a)
				}
				return a
			}
			w.mustLock(other, on(newLock(theirs, "f", "l", true, 50, 59)))
			_, first := w.mustOpen(s, "first", "g", nfs4.ShareBoth, 0, nil)
			w.mustLock(s, on(newLock(first, "g", "l", true, 0, 0))) // its record says that it has locks
			w.mustOpen(s, "first", "r", nfs4.ShareRead, 0, nil)
			w.mustDelegate(s, "r", nil)

			var o *Open
			var open, lock nfs4.StateID
			w.checkOnlyPart(s, "OPEN", func() { o, open = w.mustOpen(s, "o", "f", nfs4.ShareRead, 0, nil) })
			w.checkOnlyPart(s, "MAY_NOTIFY", func() { w.MayNotify(o) })
			w.checkOnlyPart(s, "a second OPEN", func() { _, open = w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil) })
			w.checkOnlyPart(s, "OPEN that is reverted", func() {
				trial := new(Trial)
				a := &OpenFile{Owner: []byte("p"), Key: "f", Access: nfs4.ShareRead, Trial: trial}
				want(t, "MayOpen", w.MayOpen(s, a), nfs4.OK)
				want(t, "MayShare", w.MayShare(s, a), nfs4.OK)
				_, _, status := w.OpenFile(s, a, nil)
				want(t, "OPEN", status, nfs4.OK)
				w.RevertTrial(trial)
			})
			w.checkOnlyPart(s, "OPEN that is denied", func() {
				want(t, "OPEN", w.openStatus(s, "d", "f", nfs4.ShareRead, nfs4.ShareWrite), nfs4.ErrShareDenied)
			})
			w.checkOnlyPart(s, "the search for opens", func() { w.EachOpen(s, []byte("f"), func(*Open) bool { return true }) })
			w.checkOnlyPart(s, "LOCK", func() { lock = w.mustLock(s, on(newLock(open, "f", "l", true, 0, 9))) })
			w.checkOnlyPart(s, "LOCK of more", func() { lock = w.mustLock(s, on(newLock(open, "f", "", false, 5, 19).withStateID(lock))) })
			w.checkOnlyPart(s, "LOCK that is denied", func() {
				want(t, "LOCK", w.lockStatus(s, on(newLock(open, "f", "l", true, 0, locks.ToEnd))), nfs4.ErrDenied)
			})
			w.checkOnlyPart(s, "LOCKT", func() { w.TestLock(s, on(newLock(open, "f", "x", true, 50, 50))) })
			w.checkOnlyPart(s, "LOCKU", func() { lock, _ = w.unlockBytes(s, lock, "f", 0, locks.ToEnd) })
			w.checkOnlyPart(s, "FREE_STATEID", func() { want(t, "FREE_STATEID", w.FreeStateID(s, &lock), nfs4.OK) })
			w.checkOnlyPart(s, "OPEN_DOWNGRADE", func() {
				var status nfs4.Status
				open, status = w.Downgrade(s, &open, nfs4.ShareRead, 0)
				want(t, "OPEN_DOWNGRADE", status, nfs4.OK)
			})
			w.checkOnlyPart(s, "CLOSE", func() { want(t, "CLOSE", w.Close(s, &open), nfs4.OK) })
			w.mustOpen(s, "first", "d", nfs4.ShareRead, 0, nil)
			w.checkOnlyPart(s, "a delegation", func() {
				want(t, "MayDelegate", w.MayDelegate(s, "d", false), nfs4.OK)
				id := w.mustDelegate(s, "d", nil).StateID()
				want(t, "the type", w.DelegationType(s, "d"), nfs4.DelegateRead)
				want(t, "DELEGRETURN", w.ReturnDelegation(s, &id), nfs4.OK)
			})
		})
	}
}

// TestMachineCallsLockParts checks that the usual calls of a Machine do not lock the whole State,
// also if others' state conflicts.
func TestMachineCallsLockParts(t *testing.T) {
	for name, host := range map[string]*fakeHost{"server": nil, "host": newHost(t)} {
		t.Run(name, func(t *testing.T) {
			w := newRestartingState(t).testState
			s, other, m := w.newTestClient("a"), w.enterTestMachine("other"), w.enterTestMachine("m")
			on := func(key string, exclusive bool, start, end uint64) *Lock {
				a := &Lock{Owner: []byte("o"), Key: key, Handle: []byte(key), Range: locks.Range{Start: start, End: end}, Exclusive: exclusive}
				if host != nil {
					return host.setOn(a)
				}
				return a
			}
			_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
			newOn := on("f", true, 50, 59)
			newOn.StateID, newOn.New = open, true
			w.mustLock(s, newOn)
			want(t, "LOCK of the other", other.lockStatus(on("f", true, 60, 69)), nfs4.OK)
			want(t, "LOCK", m.lockStatus(on("g", true, 0, 0)), nfs4.OK) // its record says that it has locks
			share := &Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead}
			w.checkOnlyPart(m, "another call", func() { w.enterTestMachine("m").Leave() })
			w.checkOnlyPart(m, "InGrace", func() { want(t, "InGrace", m.InGrace(), false) })
			w.checkOnlyPart(m, "LOCK", func() { want(t, "LOCK", m.lockStatus(on("f", true, 0, 9)), nfs4.OK) })
			w.checkOnlyPart(m, "LOCK of more", func() { want(t, "LOCK", m.lockStatus(on("f", false, 5, 19)), nfs4.OK) })
			w.checkOnlyPart(m, "LOCK that a client denies", func() { want(t, "LOCK", m.lockStatus(on("f", true, 50, 50)), nfs4.ErrDenied) })
			w.checkOnlyPart(m, "LOCK that a Machine denies", func() { want(t, "LOCK", m.lockStatus(on("f", true, 60, 60)), nfs4.ErrDenied) })
			w.checkOnlyPart(s, "LOCK of the client that a Machine denies", func() {
				a := on("f", true, 60, 60)
				a.StateID, a.New, a.Owner = open, true, []byte("x")
				want(t, "LOCK", w.lockStatus(s, a), nfs4.ErrDenied)
			})
			w.checkOnlyPart(m, "TEST", func() { m.TestLock(on("f", true, 50, 50)) })
			w.checkOnlyPart(m, "FindKey", func() {
				key, _ := m.FindKey([]byte("f"))
				want(t, "the key", key, "f")
			})
			w.checkOnlyPart(m, "UNLOCK", func() { want(t, "UNLOCK", m.Unlock(on("f", false, 0, locks.ToEnd)), nfs4.OK) })
			w.checkOnlyPart(m, "SHARE", func() { want(t, "SHARE", m.Share(share), nfs4.OK) })
			w.checkOnlyPart(m, "SHARE that is denied", func() {
				denied := *share
				denied.Owner, denied.Deny = []byte("p"), nfs4.ShareRead
				want(t, "SHARE", m.Share(&denied), nfs4.ErrShareDenied)
			})
			w.checkOnlyPart(m, "UNSHARE", func() { m.Unshare(share) })
			want(t, "files", len(m.files), 1)
		})
	}
}

// TestPartsAtLimit checks that concurrent calls of many clients do not exceed a limit: only
// calls that lock the whole State come near it.
func TestPartsAtLimit(t *testing.T) {
	w := newTestState(manyGoroutines{t})
	const left = quotaReserve + 2*stateParts
	w.usage[stateIDs].Add(maxHoldings - left)
	var group sync.WaitGroup
	for i := range 8 {
		s := w.newTestClient(fmt.Sprint(i))
		group.Go(func() {
			for n := range left {
				if status := w.openStatus(s, "o", fmt.Sprint(i, "/", n), nfs4.ShareRead, 0); status == nfs4.ErrDelay {
					return
				}
			}
		})
	}
	group.Wait()
	want(t, "the limit is kept", w.usage.get(stateIDs), maxHoldings-left/2) // a group gets half of what is left
}

// TestQuotaInPart checks that a call that has locked only a part removes no silent client, also
// if others have used up the reserve since needsStateFor: its part does not guard that client.
func TestQuotaInPart(t *testing.T) {
	w := newTestState(t)
	w.newTestClient("silent")
	w.advanceClock(2 * testLease)
	c := w.newTestClient("a").client
	var d deferredWork
	w.lockClient(c, &d.hold, false)
	defer w.unlock(&d.hold)
	want(t, "it needs the State", w.needsStateFor(c.group, lockRanges, 2, &d.hold), false)
	w.usage[lockRanges].Add(maxAllLocks)
	got := w.ensureQuota(c.group, lockRanges, 2, &d)
	want(t, "clients", len(w.clients), 2)
	want(t, "it gets two", got, true)
}

// TestSlabIndexes checks that a slab gives an index that a client in another part has used
// when no other one is left.
func TestSlabIndexes(t *testing.T) {
	var s slab[int]
	for range slabSize {
		s.put(s.takeIndex(0), new(int))
	}
	s.remove(77, 5)
	want(t, "the index", s.takeIndex(9), 77)
}
