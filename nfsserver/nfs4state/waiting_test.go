package nfs4state

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A waitingTest has clients that wait for locks on the file "f".
type waitingTest struct {
	*testState
	notified []string // the names of owners
}

func newWaitingTest(t *testing.T) *waitingTest { return &waitingTest{testState: newTestState(t)} }

// openAsWaiter creates a client that can be notified, and opens the file.
func (q *waitingTest) openAsWaiter(owner string) (*Session, nfs4.StateID) {
	s := q.newCallableClient(owner)
	o, id := q.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	want(q.t, "MAY_NOTIFY", q.MayNotify(o), true)
	return s, id
}

// withTell sets a lock's Tell function, so that its owner waits.
func (q *waitingTest) withTell(a *Lock) *Lock {
	a.Tell = func(w *Waiting) { q.notified = append(q.notified, w.Owner()) }
	return a
}

// mustWait requests a lock that must be denied.
func (q *waitingTest) mustWait(s *Session, id nfs4.StateID, owner string, exclusive bool, start, end uint64) {
	q.t.Helper()
	want(q.t, "LOCK", q.lockStatus(s, q.withTell(newLock(id, "f", owner, exclusive, start, end))), nfs4.ErrDenied)
}

// checkNotified checks which owners were notified since its last call.
func (q *waitingTest) checkNotified(owners ...string) {
	q.t.Helper()
	assert.Equal(q.t, owners, q.notified)
	q.notified = nil
}

// TestWaiting checks which owners are notified when a lock becomes free, and when:
// the first whose bytes are free, with all others whose locks do not conflict with
// it.
func TestWaiting(t *testing.T) {
	q := newWaitingTest(t)
	a, aid := q.openAsWaiter("a")
	b, bid := q.openAsWaiter("b")
	held := q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9))
	for _, w := range []struct {
		name      string
		exclusive bool
		at        uint64
	}{{"reader 1", false, 0}, {"writer 1", true, 0}, {"reader 2", false, 0}, {"writer 2", true, 5}, {"writer 3", true, 5}} {
		q.mustWait(b, bid, w.name, w.exclusive, w.at, w.at+1)
	}
	q.checkNotified()
	held, _ = q.unlockBytes(a, held, "f", 6, 9)
	q.checkNotified() // their other byte is locked
	held, _ = q.unlockBytes(a, held, "f", 5, 5)
	q.checkNotified("writer 2")
	held, status := q.unlockBytes(a, held, "f", 0, 4)
	want(t, "LOCKU", status, nfs4.OK)
	q.checkNotified("reader 1", "reader 2")
	q.advanceClock(testLease/4 - 1)
	q.renewByCall(a)
	assert.True(t, q.PollLocks())
	q.checkNotified()

	// Each has a quarter of a lease to come.
	one := q.mustLock(b, q.withTell(newLock(bid, "f", "reader 1", false, 0, 1)))
	q.advanceClock(1)
	q.PollLocks()
	q.checkNotified("writer 3") // writer 2 and reader 2 have not come
	_, status = q.unlockBytes(b, one, "f", 0, 1)
	want(t, "LOCKU", status, nfs4.OK)
	q.checkNotified("writer 1")
	q.advanceClock(testLease / 4)
	assert.False(t, q.PollLocks())
	q.checkNotified()
	want(t, "owners that wait", q.usage.get(waitingOwners), 0)
	_ = held
}

// TestWaitingAgain checks that an owner that polls keeps its place, also if it missed
// its turn, and that an owner that does not poll for long loses it.
func TestWaitingAgain(t *testing.T) {
	q := newWaitingTest(t)
	a, aid := q.openAsWaiter("a")
	held := q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9))
	q.mustWait(a, aid, "1", true, 0, 0)
	q.mustWait(a, aid, "2", true, 0, 0)
	q.mustWait(a, aid, "1", true, 0, 0)
	held, _ = q.unlockBytes(a, held, "f", 0, 9)
	q.checkNotified("1")
	held = q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9).withStateID(held))
	q.mustWait(a, aid, "1", true, 0, 0)
	held, _ = q.unlockBytes(a, held, "f", 0, 9)
	q.checkNotified("1")
	held = q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9).withStateID(held))
	q.mustWait(a, aid, "1", true, 0, 0)
	for range 3 {
		q.advanceClock(testLease)
		q.renewByCall(a)
		q.mustWait(a, aid, "2", true, 0, 0)
	}
	q.unlockBytes(a, held, "f", 0, 9)
	q.checkNotified("2")
}

// TestWaitingEnds checks every way in which bytes become free, and that owners wait no
// longer than their opens.
func TestWaitingEnds(t *testing.T) {
	for name, free := range map[string]func(q *waitingTest, s *Session, open, lock nfs4.StateID){
		"LOCKU": func(q *waitingTest, s *Session, _, lock nfs4.StateID) { q.unlockBytes(s, lock, "f", 0, 9) },
		"CLOSE": func(q *waitingTest, s *Session, open, _ nfs4.StateID) { open.SeqID = 0; q.Close(s, &open) },
		"downgrade": func(q *waitingTest, s *Session, _, lock nfs4.StateID) {
			q.mustLock(s, newLock(lock, "f", "", false, 0, 9).withStateID(lock))
		},
		"the administrator": func(q *waitingTest, s *Session, _, _ nfs4.StateID) {
			want(q.t, "status", q.Expire(s.ClientID()), nfs4.OK)
		},
		"a new incarnation": func(q *waitingTest, _ *Session, _, _ nfs4.StateID) {
			id, sequence, _ := q.mustExchange(exchangeArgs("a", 2, 0))
			q.mustCreateSession(createArgs(id, sequence, 0))
		},
		"expiry": func(q *waitingTest, _ *Session, _, _ nfs4.StateID) {
			q.advanceClock(testLease + time.Second)
			q.PollLocks()
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newWaitingTest(t)
			a, aid := q.openAsWaiter("a")
			lock := q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9))
			b, bid := q.openAsWaiter("b")
			q.mustWait(b, bid, "reader", false, 3, 4)
			bid.SeqID = 0
			_, other := q.mustOpen(b, "other", "f", nfs4.ShareBoth, 0, nil)
			o, _ := q.Open(b, &other)
			q.MayNotify(o)
			q.mustWait(b, other, "gone", false, 3, 4)
			want(t, "CLOSE", q.Close(b, &other), nfs4.OK)
			q.checkNotified()
			free(q, a, aid, lock)
			q.checkNotified("reader")
			want(t, "CLOSE", q.Close(b, &bid), nfs4.OK)
			want(t, "owners that wait", q.usage.get(waitingOwners), 0)
			assert.False(t, q.HasLockWaiters())
		})
	}
}

// TestWaitingGivesUp checks that the next owner is told at once when the one whose turn it
// is closes its file, and that an owner goes on waiting who gets another kind of lock.
func TestWaitingGivesUp(t *testing.T) {
	q := newWaitingTest(t)
	a, aid := q.openAsWaiter("a")
	b, bid := q.openAsWaiter("b")
	c, cid := q.openAsWaiter("c")
	held := q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9))
	q.mustWait(b, bid, "1", true, 0, 9)
	q.mustWait(c, cid, "2", true, 0, 9)
	held, _ = q.unlockBytes(a, held, "f", 0, 9)
	q.checkNotified("1")
	want(t, "CLOSE", q.Close(b, &bid), nfs4.OK)
	q.checkNotified("2")

	held = q.mustLock(a, newLock(aid, "f", "holder", false, 0, 9).withStateID(held))
	q.mustWait(c, cid, "2", true, 0, 9)
	want(t, "LOCK", q.lockStatus(c, q.withTell(newLock(cid, "f", "2", false, 0, 9))), nfs4.OK)
	q.unlockBytes(a, held, "f", 0, 9)
	q.checkNotified("2")

	held = q.mustLock(a, newLock(aid, "f", "another", true, 20, 29))
	q.mustWait(c, cid, "3", true, 20, 20)
	q.mustWait(c, cid, "3", true, 20, 29) // an owner is not in its own way
	q.unlockBytes(a, held, "f", 20, 29)
	q.checkNotified("3", "3")
}

// TestWaitingOnHost checks that locks of host processes are polled, and that hanging
// storage delays no other.
func TestWaitingOnHost(t *testing.T) {
	q := newWaitingTest(t)
	f := newHost(t)
	a, aid := q.openAsWaiter("a")
	o := f.hostObject("f")
	o.local[3] = locks.Exclusive
	want(t, "LOCK", q.lockStatus(a, f.setOn(q.withTell(newLock(aid, "f", "1", true, 0, 9)))), nfs4.ErrDenied)
	look := func() {
		assert.True(t, q.PollLocks())
		q.WaitForHostLocks()
	}
	look()
	q.checkNotified()
	f.mu.Lock()
	o.local[3] = locks.None
	f.mu.Unlock()
	look()
	q.checkNotified("1")
	look()
	q.checkNotified()
	want(t, "LOCK", q.lockStatus(a, f.setOn(q.withTell(newLock(aid, "f", "1", true, 0, 9)))), nfs4.OK)
	assert.False(t, q.PollLocks())
	q.checkHostLocks(f)
}

// TestWaitingBounds checks that the waiting owners of files and groups are limited,
// that a client that cannot be notified does not wait, and that the owner of a file
// with a full queue is denied like any other.
func TestWaitingBounds(t *testing.T) {
	q := newWaitingTest(t)
	a, aid := q.openAsWaiter("a")
	held := q.mustLock(a, newLock(aid, "f", "holder", true, 0, 9))
	deaf := q.newTestClient("deaf")
	_, did := q.mustOpen(deaf, "o", "f", nfs4.ShareBoth, 0, nil)
	q.mustWait(deaf, did, "deaf", true, 0, 0)
	want(t, "the client that cannot be notified", q.usage.get(waitingOwners), 0)
	for i := range 2 * maxWaiting {
		q.mustWait(a, aid, fmt.Sprint(i), true, 0, 0)
	}
	want(t, "of a client", q.usage.get(waitingOwners), maxWaiting/2)
	b, bid := q.openAsWaiter("b")
	q.mustWait(b, bid, "b", true, 1, 1)
	want(t, "of all", q.usage.get(waitingOwners), maxWaiting/2+1)
	q.usage[waitingOwners].Add(maxAllWaiting)
	q.mustWait(b, bid, "b2", true, 1, 1)
	q.usage[waitingOwners].Add(-maxAllWaiting)
	q.unlockBytes(a, held, "f", 0, 9)
	q.checkNotified("0", "b")
}

// TestWaitForFreedLock checks that a LOCK that is denied is granted or notified if the lock is
// freed before the owner is in the queue, without a poll.
func TestWaitForFreedLock(t *testing.T) {
	q := newWaitingTest(t)
	q.t = manyGoroutines{t}
	a, aid := q.openAsWaiter("a")
	b, bid := q.openAsWaiter("b")
	for range 5000 {
		held := q.mustLock(a, newLock(aid, "f", "holder", true, 0, 0))
		var notified atomic.Bool
		lock := newLock(bid, "f", "waits", true, 0, 0)
		lock.Tell = func(*Waiting) { notified.Store(true) }
		var group sync.WaitGroup
		group.Go(func() { q.unlockBytes(a, held, "f", 0, 0) })
		got, _, status := q.Lock(b, lock)
		group.Wait()
		if status == nfs4.ErrDenied {
			want(t, "notified", notified.Load(), true)
			got = q.mustLock(b, lock)
		}
		q.unlockBytes(b, got, "f", 0, 0)
	}
}
