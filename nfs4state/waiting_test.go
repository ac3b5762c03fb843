package nfs4state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A queue is clients that wait for locks of the file "f".
type queue struct {
	*world
	told []string // the names of owners
}

func newQueue(t *testing.T) *queue { return &queue{world: newWorld(t)} }

// opens makes a client that can be told, and opens the file.
func (q *queue) opens(owner string) (*Session, nfs4.StateID) {
	s := q.callable(owner)
	o, id := q.open(s, "o", "f", nfs4.ShareBoth, 0, nil)
	want(q.t, "MAY_NOTIFY", q.MayNotify(o), true)
	return s, id
}

// willing makes a lock one for which its owner is willing to wait.
func (q *queue) willing(a *Lock) *Lock {
	a.Tell = func(w *Waiting) { q.told = append(q.told, w.Owner()) }
	return a
}

// waits asks for a lock that is denied.
func (q *queue) waits(s *Session, id nfs4.StateID, owner string, exclusive bool, start, end uint64) {
	q.t.Helper()
	want(q.t, "LOCK", q.lockStatus(s, q.willing(newLock(id, "f", owner, exclusive, start, end))), nfs4.ErrDenied)
}

// tells checks which owners have been told since it was called last.
func (q *queue) tells(owners ...string) {
	q.t.Helper()
	assert.Equal(q.t, owners, q.told)
	q.told = nil
}

// TestWaiting checks who hears of a lock that becomes free, and when: the first whose
// bytes are free, with all others who can have their locks beside the first.
func TestWaiting(t *testing.T) {
	q := newQueue(t)
	a, aid := q.opens("a")
	b, bid := q.opens("b")
	held := q.lock(a, newLock(aid, "f", "holder", true, 0, 9))
	for _, w := range []struct {
		name      string
		exclusive bool
		at        uint64
	}{{"reader 1", false, 0}, {"writer 1", true, 0}, {"reader 2", false, 0}, {"writer 2", true, 5}, {"writer 3", true, 5}} {
		q.waits(b, bid, w.name, w.exclusive, w.at, w.at+1)
	}
	q.tells()
	held, _ = q.unlock(a, held, "f", 6, 9)
	q.tells() // their other byte is locked
	held, _ = q.unlock(a, held, "f", 5, 5)
	q.tells("writer 2")
	held, status := q.unlock(a, held, "f", 0, 4)
	want(t, "LOCKU", status, nfs4.OK)
	q.tells("reader 1", "reader 2")
	q.sleep(testLease/4 - 1)
	q.call(a)
	assert.True(t, q.LooksAgain())
	q.tells()

	// Each has a quarter of a lease to come.
	one := q.lock(b, q.willing(newLock(bid, "f", "reader 1", false, 0, 1)))
	q.sleep(1)
	q.LooksAgain()
	q.tells("writer 3") // writer 2 and reader 2 have not come
	_, status = q.unlock(b, one, "f", 0, 1)
	want(t, "LOCKU", status, nfs4.OK)
	q.tells("writer 1")
	q.sleep(testLease / 4)
	assert.False(t, q.LooksAgain())
	q.tells()
	want(t, "owners that wait", q.used[waitingOwners], 0)
	_ = held
}

// TestWaitingAgain checks that an owner who asks again keeps its place, also if it was
// told and came too late, and that an owner who does not ask for long loses it.
func TestWaitingAgain(t *testing.T) {
	q := newQueue(t)
	a, aid := q.opens("a")
	held := q.lock(a, newLock(aid, "f", "holder", true, 0, 9))
	q.waits(a, aid, "1", true, 0, 0)
	q.waits(a, aid, "2", true, 0, 0)
	q.waits(a, aid, "1", true, 0, 0)
	held, _ = q.unlock(a, held, "f", 0, 9)
	q.tells("1")
	held = q.lock(a, newLock(aid, "f", "holder", true, 0, 9).by(held))
	q.waits(a, aid, "1", true, 0, 0)
	held, _ = q.unlock(a, held, "f", 0, 9)
	q.tells("1")
	held = q.lock(a, newLock(aid, "f", "holder", true, 0, 9).by(held))
	q.waits(a, aid, "1", true, 0, 0)
	for range 3 {
		q.sleep(testLease)
		q.call(a)
		q.waits(a, aid, "2", true, 0, 0)
	}
	q.unlock(a, held, "f", 0, 9)
	q.tells("2")
}

// TestWaitingEnds checks every way in which bytes become free, and that owners wait no
// longer than their opens.
func TestWaitingEnds(t *testing.T) {
	for name, free := range map[string]func(q *queue, s *Session, open, lock nfs4.StateID){
		"LOCKU": func(q *queue, s *Session, _, lock nfs4.StateID) { q.unlock(s, lock, "f", 0, 9) },
		"CLOSE": func(q *queue, s *Session, open, _ nfs4.StateID) { open.SeqID = 0; q.Close(s, &open) },
		"downgrade": func(q *queue, s *Session, _, lock nfs4.StateID) {
			q.lock(s, newLock(lock, "f", "", false, 0, 9).by(lock))
		},
		"the administrator": func(q *queue, s *Session, _, _ nfs4.StateID) {
			want(q.t, "status", q.Expire(s.ClientID()), nfs4.OK)
		},
		"a new incarnation": func(q *queue, _ *Session, _, _ nfs4.StateID) {
			id, sequence, _ := q.exchange(exchange("a", 2, 0))
			q.create(create(id, sequence, 0))
		},
		"expiry": func(q *queue, _ *Session, _, _ nfs4.StateID) {
			q.sleep(testLease + time.Second)
			q.LooksAgain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			a, aid := q.opens("a")
			lock := q.lock(a, newLock(aid, "f", "holder", true, 0, 9))
			b, bid := q.opens("b")
			q.waits(b, bid, "reader", false, 3, 4)
			bid.SeqID = 0
			_, other := q.open(b, "other", "f", nfs4.ShareBoth, 0, nil)
			o, _ := q.Open(b, &other)
			q.MayNotify(o)
			q.waits(b, other, "gone", false, 3, 4)
			want(t, "CLOSE", q.Close(b, &other), nfs4.OK)
			q.tells()
			free(q, a, aid, lock)
			q.tells("reader")
			want(t, "CLOSE", q.Close(b, &bid), nfs4.OK)
			want(t, "owners that wait", q.used[waitingOwners], 0)
			assert.False(t, q.Waits())
		})
	}
}

// TestWaitingGivesUp checks that the next owner is told at once when the one whose turn it
// is closes its file, and that an owner goes on waiting who gets another kind of lock.
func TestWaitingGivesUp(t *testing.T) {
	q := newQueue(t)
	a, aid := q.opens("a")
	b, bid := q.opens("b")
	c, cid := q.opens("c")
	held := q.lock(a, newLock(aid, "f", "holder", true, 0, 9))
	q.waits(b, bid, "1", true, 0, 9)
	q.waits(c, cid, "2", true, 0, 9)
	held, _ = q.unlock(a, held, "f", 0, 9)
	q.tells("1")
	want(t, "CLOSE", q.Close(b, &bid), nfs4.OK)
	q.tells("2")

	held = q.lock(a, newLock(aid, "f", "holder", false, 0, 9).by(held))
	q.waits(c, cid, "2", true, 0, 9)
	want(t, "LOCK", q.lockStatus(c, q.willing(newLock(cid, "f", "2", false, 0, 9))), nfs4.OK)
	q.unlock(a, held, "f", 0, 9)
	q.tells("2")

	held = q.lock(a, newLock(aid, "f", "another", true, 20, 29))
	q.waits(c, cid, "3", true, 20, 20)
	q.waits(c, cid, "3", true, 20, 29) // an owner is not in its own way
	q.unlock(a, held, "f", 20, 29)
	q.tells("3", "3")
}

// TestWaitingOnHost checks that processes of the host who are in the way are looked at
// again, and that a hanging storage holds up no other.
func TestWaitingOnHost(t *testing.T) {
	q := newQueue(t)
	f := newHost(t)
	a, aid := q.opens("a")
	o := f.object("f")
	o.local[3] = locks.Exclusive
	want(t, "LOCK", q.lockStatus(a, f.on(q.willing(newLock(aid, "f", "1", true, 0, 9)))), nfs4.ErrDenied)
	look := func() {
		assert.True(t, q.LooksAgain())
		q.WaitHost()
	}
	look()
	q.tells()
	f.mu.Lock()
	o.local[3] = locks.None
	f.mu.Unlock()
	look()
	q.tells("1")
	look()
	q.tells()
	want(t, "LOCK", q.lockStatus(a, f.on(q.willing(newLock(aid, "f", "1", true, 0, 9)))), nfs4.OK)
	assert.False(t, q.LooksAgain())
	q.hostAgrees(f)
}

// TestWaitingBounds checks that no file and no party has owners without end, that a
// client that cannot be told does not wait, and that the owner of a file with a full
// queue is denied like any other.
func TestWaitingBounds(t *testing.T) {
	q := newQueue(t)
	a, aid := q.opens("a")
	held := q.lock(a, newLock(aid, "f", "holder", true, 0, 9))
	deaf := q.client("deaf")
	_, did := q.open(deaf, "o", "f", nfs4.ShareBoth, 0, nil)
	q.waits(deaf, did, "deaf", true, 0, 0)
	want(t, "the client that cannot be told", q.used[waitingOwners], 0)
	for i := range 2 * maxWaiting {
		q.waits(a, aid, fmt.Sprint(i), true, 0, 0)
	}
	want(t, "of a client", q.used[waitingOwners], maxWaiting/2)
	b, bid := q.opens("b")
	q.waits(b, bid, "b", true, 1, 1)
	want(t, "of all", q.used[waitingOwners], maxWaiting/2+1)
	q.used[waitingOwners] += maxAllWaiting
	q.waits(b, bid, "b2", true, 1, 1)
	q.used[waitingOwners] -= maxAllWaiting
	q.unlock(a, held, "f", 0, 9)
	q.tells("0", "b")
}
