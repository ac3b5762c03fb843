package nfs4state

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// maxSteps is the maximum number of entries that a call may visit while
// State.mu is held.
const maxSteps = 2 * maxEntriesPerHold

// checkSteps checks that no call of do visits more than maxSteps entries while State.mu is
// held, even if clients are at their limits.
func (w *testState) checkSteps(what string, do func()) {
	w.t.Helper()
	w.takeMaxEntries()
	do()
	if n := w.takeMaxEntries(); n > maxSteps {
		w.t.Errorf("%s looks at %d entries with the State locked", what, n)
	}
}

// takeMaxEntries returns the maximum number of entries visited since its last call.
func (w *testState) takeMaxEntries() (n int) {
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	m := &w.State.mu
	n, m.maxEntries = m.maxEntries, 0
	for i := range m.parts { // which Lock has closed
		n, m.parts[i].maxEntries = max(n, m.parts[i].maxEntries), 0
	}
	return n
}

// manyWaiters is the maximum number of owners that may wait for a file's locks.
const manyWaiters = maxWaiting / 2

// A fullClient is a client with as many opens and locks as it may have.
type fullClient struct {
	*waitingTest
	session *Session
	opens   []nfs4.StateID
	locks   []nfs4.StateID
	keys    []string
}

// shapes are the ways in which a client can have very much state.
var shapes = map[string]func(b *fullClient, n int){
	"one file, an owner of locks": func(b *fullClient, n int) {
		for i := range n {
			b.addOpen(fmt.Sprint(i), "f")
			b.addLock("one", i, uint64(2*i))
		}
	},
	"one file, owners of locks": func(b *fullClient, n int) {
		for i := range n {
			b.addOpen(fmt.Sprint(i), "f")
			b.addLock(fmt.Sprint(i), i, uint64(2*i))
		}
	},
	"files": func(b *fullClient, n int) {
		for i := range n {
			b.addOpen("o", fmt.Sprint("f", i))
			b.addLock("one", i, 0)
		}
	},
	"one open, owners of locks": func(b *fullClient, n int) {
		b.addOpen("o", "f")
		for i := range n {
			b.addLock(fmt.Sprint(i), 0, uint64(2*i))
		}
	},
	"one open, one owner of locks": func(b *fullClient, n int) {
		b.addOpen("o", "f")
		for i := range n {
			b.addLock("one", 0, uint64(2*i))
		}
	},
}

// manyEntries is how many opens, locks or owners a client has in the tests below: as many as
// it may have, but for two, or under the race detector enough to notice a walk over all.
var manyEntries = racetest.Of(maxLocks-2, maxLocks/8)

// newFullClient creates the client, and others whose owners wait for its locks of the
// object of its first open.
func newFullClient(t *testing.T, shape func(*fullClient, int)) *fullClient {
	b := &fullClient{waitingTest: newWaitingTest(t)}
	b.session = b.newCallableClient("bounded")
	shape(b, manyEntries)
	waiter := b.newCallableClient("waiter")
	o, id := b.mustOpen(waiter, "waits", b.keys[0], nfs4.ShareBoth, 0, nil)
	want(t, "MAY_NOTIFY", b.MayNotify(o), true)
	for i := range manyWaiters {
		a := newLock(id, b.keys[0], fmt.Sprint(i), i%2 == 0, 0, uint64(i))
		want(t, "LOCK", b.lockStatus(waiter, b.withTell(a)), nfs4.ErrDenied)
	}
	want(t, "owners that wait", b.usage.get(waitingOwners), manyWaiters)
	return b
}

func (b *fullClient) addOpen(owner, key string) {
	_, id := b.mustOpen(b.session, owner, key, nfs4.ShareBoth, 0, nil)
	id.SeqID = 0
	b.opens, b.keys = append(b.opens, id), append(b.keys, key)
}

func (b *fullClient) addLock(owner string, open int, at uint64) {
	id := b.mustLock(b.session, newLock(b.opens[open], b.keys[open], owner, true, at, at))
	id.SeqID = 0
	b.locks = append(b.locks, id)
}

// TestStepsOfEnd checks every way in which a client ends that has as much as it may have.
func TestStepsOfEnd(t *testing.T) {
	ends := map[string]func(b *fullClient, other *Session){
		"reboot": func(b *fullClient, _ *Session) {
			id, sequence, _ := b.mustExchange(exchangeArgs("bounded", 2, 0))
			b.mustCreateSession(createArgs(id, sequence, 0))
		},
		"administrator": func(b *fullClient, _ *Session) {
			want(b.t, "Expire", b.Expire(b.session.ClientID()), nfs4.OK)
		},
		"DESTROY_CLIENTID": func(b *fullClient, _ *Session) {
			b.Revoke(func(any) bool { return true })
			want(b.t, "DESTROY_SESSION", b.DestroySession(b.session.ID, nil), nfs4.OK)
			want(b.t, "DESTROY_CLIENTID", b.DestroyClientID(b.session.ClientID()), nfs4.OK)
		},
		"silence": func(b *fullClient, _ *Session) {
			b.advanceClock(2 * defaultCourtesy)
			b.Sweep()
		},
		"OPEN that denies": func(b *fullClient, other *Session) {
			b.silenceOthers(other)
			want(b.t, "OPEN", b.openStatus(other, "o", b.keys[0], nfs4.ShareRead, nfs4.ShareBoth), nfs4.OK)
		},
		"LOCK": func(b *fullClient, other *Session) {
			_, id := b.mustOpen(other, "other", b.keys[0], nfs4.ShareBoth, 0, nil)
			b.silenceOthers(other)
			b.mustLock(other, newLock(id, b.keys[0], "o", true, 0, locks.ToEnd))
		},
		"LOCKT": func(b *fullClient, other *Session) {
			b.silenceOthers(other)
			_, status := b.TestLock(other, newLock(nfs4.StateID{}, b.keys[0], "o", true, 0, locks.ToEnd))
			want(b.t, "LOCKT", status, nfs4.OK)
		},
		"READ by a special stateid": func(b *fullClient, other *Session) {
			b.mustOpen(b.session, "denies", "g", nfs4.ShareRead, nfs4.ShareRead, nil)
			b.silenceOthers(other)
			want(b.t, "READ", b.Denied("g", nfs4.ShareRead), nfs4.OK)
		},
	}
	for shape, fill := range shapes {
		for end, do := range ends {
			if shape != "one file, an owner of locks" && end != "administrator" {
				continue // the rest is the same for all
			}
			t.Run(shape+"/"+end, func(t *testing.T) {
				t.Parallel()
				b := newFullClient(t, fill)
				other := b.newTestClient("other")
				b.checkSteps(end, func() { do(b, other) })
				want(t, "the client was removed", b.session.client.ended, true)
				want(t, "clients that end", len(b.endingHolders), 0)
				want(t, "its opens", len(b.session.client.opens), 0)
				want(t, "its locks", b.session.client.locks, 0)
			})
		}
	}
}

// silenceOthers lets the leases of all clients except one expire. Their owners no longer
// poll.
func (b *fullClient) silenceOthers(other *Session) {
	b.advanceClock(testLease + 1)
	b.renewByCall(other)
}

// TestStepsAtTheBounds checks single calls, of a client that has as much as it may have
// and of others.
func TestStepsAtTheBounds(t *testing.T) {
	for shape, fill := range shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			b := newFullClient(t, fill)
			s, key, last := b.session, b.keys[0], len(b.opens)-1
			other := b.newTestClient("other")
			_, id := b.mustOpen(other, "other", key, nfs4.ShareBoth, 0, nil)
			b.checkSteps("OPEN", func() { b.openStatus(s, "one more", key, nfs4.ShareRead, 0) })
			b.checkSteps("OPEN that denies", func() {
				want(t, "OPEN", b.openStatus(other, "o", key, nfs4.ShareRead, nfs4.ShareWrite), nfs4.ErrShareDenied)
			})
			b.checkSteps("LOCK", func() {
				want(t, "LOCK", b.lockStatus(other, newLock(id, key, "o", true, 0, locks.ToEnd)), nfs4.ErrDenied)
				want(t, "LOCK", b.lockStatus(other, b.withTell(newLock(id, key, "o", true, 0, locks.ToEnd))), nfs4.ErrDenied)
				b.mustLock(other, newLock(id, key, "o", true, 1, 1))
			})
			b.checkSteps("LOCKT", func() { b.TestLock(other, newLock(nfs4.StateID{}, key, "x", true, 0, locks.ToEnd)) })
			b.checkSteps("LOCKU", func() {
				_, status := b.unlockBytes(s, b.locks[0], key, 0, 0)
				want(t, "LOCKU", status, nfs4.OK)
			})
			b.checkSteps("look for locks that are free", func() { b.PollLocks() })
			b.checkSteps("LOCKU of all", func() {
				_, status := b.unlockBytes(s, b.locks[len(b.locks)-1], b.keys[last], 0, locks.ToEnd)
				want(t, "LOCKU", status, nfs4.OK)
			})
			b.checkSteps("CLOSE of the last open", func() { want(t, "CLOSE", b.Close(s, &b.opens[last]), nfs4.OK) })
			b.checkSteps("CLOSE", func() {
				for i := range min(last, 100) {
					want(t, "CLOSE", b.Close(s, &b.opens[i]), nfs4.OK)
				}
			})
			b.checkSteps("lists", func() {
				b.Counts()
				b.Clients(100)
				b.Sweep()
			})
			b.checkSteps("Revoke", func() { b.Revoke(func(any) bool { return true }) })
		})
	}
}

// TestStepsOfPlainClient checks the ends of an NFSv4.0 client, with as many owners as it
// may have.
func TestStepsOfPlainClient(t *testing.T) {
	ends := map[string]func(w *testState, s *Session){
		"administrator": func(w *testState, s *Session) { want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK) },
		"reboot": func(w *testState, _ *Session) {
			id, confirm := w.mustSetClientID(setClientIDArgs("x", 2, 0))
			want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, Principal{Flavor: 1}, Host{}, id, confirm), nfs4.OK)
			want(t, "Expire", w.Expire(id), nfs4.OK)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) { checkStepsOfPlainClient(t, end) })
	}
}

func checkStepsOfPlainClient(t *testing.T, end func(w *testState, s *Session)) {
	w := newTestState(t)
	s := w.newClient40("x")
	var id nfs4.StateID
	for i := range maxOwners - 1 {
		id = w.openNewOwner(s, fmt.Sprint(i), "f", nil)
	}
	w.mustTurn(s, &Turn{Op: nfs4.OpLock, New: true, StateID: id, Owner: []byte("l"), SeqID: 3, LockSeqID: 1}, func() {
		w.mustLock(s, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: "f"})
	})
	w.checkSteps("RENEW", func() {
		w.Renew(s, Principal{Flavor: 1, UID: 7})
		want(t, "owners by principal", len(s.client.v40.openers), 1)
	})
	s.Leave()
	w.checkSteps("the end", func() { end(w, s) })
	w.checkEmpty()
}

// TestStepsOfMachine checks the end of a Machine, and a release of all its locks.
func TestStepsOfMachine(t *testing.T) {
	w := newTestState(t)
	m := w.enterTestMachine("a")
	lock := func(i int) *Lock {
		return &Lock{Owner: []byte("o"), Key: "f", Exclusive: true, Range: locks.Range{Start: uint64(2 * i), End: uint64(2 * i)}}
	}
	all := &Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{End: locks.ToEnd}}
	fill := func() {
		for i := range manyEntries {
			want(t, "LOCK", m.lockStatus(lock(i)), nfs4.OK)
		}
	}
	fill()
	w.checkSteps("NLM_UNLOCK of all", func() { want(t, "Unlock", m.Unlock(all), nfs4.OK) })
	want(t, "locks", m.locks, 0)
	for i := range manyEntries {
		a := lock(i)
		a.Owner = fmt.Append(nil, i)
		want(t, "LOCK", m.lockStatus(a), nfs4.OK)
	}
	w.checkSteps("NLM_UNLOCK of an owner among many", func() {
		a := lock(5)
		a.Owner = []byte("5")
		want(t, "Unlock", m.Unlock(a), nfs4.OK)
		want(t, "locks", m.locks, manyEntries-1)
		want(t, "lock stateids", m.lockSets, manyEntries-1)
	})
	m.Leave()
	w.checkSteps("NLM_FREE_ALL", func() {
		w.EndMachines(netip.MustParseAddr("192.0.2.1"), func(string, bool, int32) bool { return true })
	})
	w.checkEmpty()
}

// TestStepsOnHost checks locks on the host: the parts that a LOCK must lock there too, and
// those that are given up.
func TestStepsOnHost(t *testing.T) {
	w := newTestState(t)
	host := newHost(t)
	s, other := w.newTestClient("a"), w.newTestClient("b")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	_, open2 := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
	at := func(owner string, exclusive bool, start, end uint64) *Lock {
		return host.setOn(newLock(open, "f", owner, exclusive, hostBytes+start, hostBytes+end))
	}
	n := uint64(manyEntries) / 2
	for i := range n - 2 {
		w.mustLock(s, at(fmt.Sprint(i), false, i, i)) // neighbours of different owners
		w.mustLock(s, at("x", true, n+2*i, n+2*i))
	}
	w.checkSteps("LOCK of all bytes of others", func() {
		a := host.setOn(newLock(open2, "f", "y", false, hostBytes, hostBytes+n-3))
		w.mustLock(other, a)
	})
	w.checkSteps("LOCKT", func() { w.TestLock(other, host.setOn(newLock(open2, "f", "z", false, 0, locks.ToEnd))) })
	w.advanceClock(testLease + 1)
	w.checkSteps("Sweep", w.Sweep)
	w.checkSteps("CLOSE", func() { want(t, "CLOSE", w.Close(s, &open), nfs4.OK) })
	w.checkSteps("the end", func() { want(t, "Expire", w.Expire(other.ClientID()), nfs4.OK) })
	w.WaitForHostLocks()
	w.checkHostLocks(host)
}

// TestStepsOfWake checks that bytes that become free are a matter of those owners alone who
// wait for them, and that others come in between if these are very many.
func TestStepsOfWake(t *testing.T) {
	q := newWaitingTest(t)
	s, id := q.openAsWaiter("a")
	b, bid := q.openAsWaiter("b")
	high := q.mustLock(s, newLock(id, "f", "high", true, 1000, 1<<40))
	low := q.mustLock(s, newLock(id, "f", "low", true, 0, 9))
	one := q.mustLock(s, newLock(id, "f", "one", true, 500, 500))
	for i := range uint64(512) {
		q.mustWait(b, bid, fmt.Sprint("r", i), false, 0, 9)
	}
	for i := range uint64(256) {
		q.mustWait(s, id, fmt.Sprint("x", i), true, 1000+i, 1000+i)
		q.mustWait(b, bid, fmt.Sprint("all", i), false, 100, 1<<50)
		q.mustWait(s, id, fmt.Sprint("w", i), true, 100, 1<<50)
	}
	_, status := q.unlockBytes(s, low, "f", 0, 9)
	want(t, "LOCKU", status, nfs4.OK)
	want(t, "notified readers", len(q.notified), 512)
	q.takeMaxEntries()
	spare := q.mustLock(s, newLock(id, "f", "spare", true, 50, 50))
	_, status = q.unlockBytes(s, spare, "f", 50, 50)
	want(t, "LOCKU of bytes that no owner waits for", status, nfs4.OK)
	want(t, "entries", q.takeMaxEntries() < 5, true)
	q.checkSteps("LOCKU", func() { q.unlockBytes(s, one, "f", 500, 500) })
	q.checkSteps("LOCKU of what all wait for", func() { q.unlockBytes(s, high, "f", 0, locks.ToEnd) })
	q.advanceClock(testLease / 2)
	q.checkSteps("owners that have not come", func() { q.PollLocks() })
	q.checkSteps("CLOSE of what they wait through", func() { want(t, "CLOSE", q.Close(b, &bid), nfs4.OK) })
	q.checkSteps("the end of both", func() {
		q.Expire(s.ClientID())
		q.Expire(b.ClientID())
	})
	q.checkEmpty()
}

// TestStepsOfLockOfAll checks a LOCK that replaces all locks of its owner: others see the
// old locks or the new one, and nothing in between.
func TestStepsOfLockOfAll(t *testing.T) {
	for _, host := range []*fakeHost{nil, newHost(t)} {
		w := newTestState(manyGoroutines{t})
		s, other := w.newTestClient("a"), w.newTestClient("other")
		_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
		_, open2 := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
		on := func(a *Lock) *Lock {
			if host != nil {
				return host.setOn(a)
			}
			return a
		}
		n := uint64(manyEntries)
		id := w.mustLock(s, on(newLock(open, "f", "one", true, 2, 2)))
		id.SeqID = 0
		for i := uint64(2); i <= n; i++ {
			w.mustLock(s, on(newLock(open, "f", "one", true, 2*i, 2*i)))
		}
		all := on(newLock(open, "f", "", true, 0, 2*n).withStateID(id))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() { // another owner comes into the gaps
			defer close(stopped)
			for i := uint64(1); ; i = (i + 1000) % n {
				select {
				case <-stop:
					return
				default:
				}
				if held, _, status := w.Lock(other, on(newLock(open2, "f", "gap", true, 2*i+1, 2*i+1))); status == nfs4.OK {
					w.State.mu.Lock()
					if w.steppedLock != nil {
						t.Error("a LOCK is granted between two steps of another")
					}
					w.State.mu.Unlock()
					w.Unlock(other, &Lock{StateID: held, Key: "f", Range: locks.Range{Start: 2*i + 1, End: 2*i + 1}})
				}
			}
		}()
		w.checkSteps("LOCK of all", func() {
			for {
				if _, d, status := w.Lock(s, all); status == nfs4.OK {
					break
				} else if status != nfs4.ErrDenied || d.Owner != "gap" {
					t.Errorf("LOCK is %v by %v", status, d)
					break
				}
			}
		})
		close(stop)
		<-stopped
		want(t, "locks", s.client.locks, 1)
		want(t, "locks of the other", other.client.locks, 0)
		_, d, status := w.Lock(other, on(newLock(open2, "f", "gap", true, 0, 0)))
		want(t, "LOCK", status, nfs4.ErrDenied)
		want(t, "the conflicting lock", d.Range, locks.Range{End: 2 * n})
	}
}

// TestCallsDuringEnd checks that a client's state conflicts with no other client's after its
// removal, although the state is removed in steps.
func TestCallsDuringEnd(t *testing.T) {
	calls := map[string]func(w *testState, s *Session, open nfs4.StateID) nfs4.Status{
		"LOCK": func(w *testState, s *Session, open nfs4.StateID) nfs4.Status {
			return w.lockStatus(s, newLock(open, "f", "o", true, 0, locks.ToEnd))
		},
		"LOCKT": func(w *testState, s *Session, _ nfs4.StateID) nfs4.Status {
			_, status := w.TestLock(s, newLock(nfs4.StateID{}, "f", "o", true, 0, locks.ToEnd))
			return status
		},
		"OPEN that denies": func(w *testState, s *Session, _ nfs4.StateID) nfs4.Status {
			return w.openStatus(s, "p", "g", nfs4.ShareRead, nfs4.ShareBoth)
		},
		"READ by a special stateid": func(w *testState, _ *Session, _ nfs4.StateID) nfs4.Status {
			return w.Denied("h", nfs4.ShareRead)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			w := newTestState(manyGoroutines{t})
			s, other := w.newTestClient("ends"), w.newTestClient("other")
			_, open := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
			for i := range uint64(1 << 13) {
				_, id := w.mustOpen(s, fmt.Sprint(i), "f", nfs4.ShareBoth, 0, nil)
				w.mustLock(s, newLock(id, "f", "one", true, 2*i, 2*i))
				w.mustOpen(s, fmt.Sprint(i), "g", nfs4.ShareBoth, 0, nil)
			}
			w.mustOpen(s, "denies", "h", nfs4.ShareRead, nfs4.ShareRead, nil)
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.Expire(s.ClientID())
			}()
			for {
				w.State.mu.Lock()
				ended := s.client.ended
				w.State.mu.Unlock()
				status := call(w, other, open)
				if status == nfs4.OK {
					break
				}
				if ended {
					t.Fatalf("the status is %v, and the client has ended", status)
				}
			}
			<-done
		})
	}
}

// TestCloseDuringRevoke checks that a CLOSE does not close an open that Revoke removes in steps:
// its stateid would count as revoked from then on, although the client has closed it.
func TestCloseDuringRevoke(t *testing.T) {
	w := newTestState(manyGoroutines{t})
	s := w.newTestClient("a")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	for i := range uint64(manyEntries) {
		w.mustLock(s, newLock(open, "f", "one", true, 2*i, 2*i))
	}
	open.SeqID = 0
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		first := true
		w.Revoke(func(any) bool {
			if first {
				close(begun)
			}
			first = false
			return true
		})
	}()
	<-begun
	want(t, "CLOSE", w.Close(s, &open), nfs4.ErrAdminRevoked)
	<-done
	want(t, "TEST_STATEID", w.TestStateID(s, &open), nfs4.ErrAdminRevoked)
}
