package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

const (
	testEpoch = 7
	testLease = 40 * time.Second
)

// A world is a State with a clock, and remembers the Files that were released.
type world struct {
	*State
	t     testing.TB
	clock atomic.Int64

	mu       sync.Mutex
	released map[any]int
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, released: make(map[any]int)}
	w.clock.Store(int64(time.Hour))
	w.State = New(Config{
		Now: func() time.Duration { return time.Duration(w.clock.Load()) }, Epoch: testEpoch, Lease: testLease,
		Release: func(file any) {
			if w.single() {
				if w.State.mu.TryLock() {
					w.State.mu.Unlock()
				} else {
					t.Error("Release is called under State.mu")
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.released[file]++
		},
	})
	return w
}

// single reports whether the test uses one goroutine, so that a lock that is
// held is held by the caller.
func (w *world) single() bool { _, many := w.t.(manyGoroutines); return !many }

// manyGoroutines marks a test that calls a world from several goroutines.
type manyGoroutines struct{ testing.TB }

func (w *world) sleep(d time.Duration) { w.clock.Add(int64(d)) }

func (w *world) releases(file any) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.released[file]
}

func exchange(owner string, verifier, uid int) *Exchange {
	return &Exchange{Principal: Principal{Flavor: 1, UID: uint32(uid)}, Owner: []byte(owner), Verifier: nfs4.Verifier{byte(verifier)}}
}

// exchange is EXCHANGE_ID, which must succeed.
func (w *world) exchange(x *Exchange) (id uint64, sequence uint32, confirmed bool) {
	w.t.Helper()
	id, sequence, confirmed, status := w.ExchangeID(x)
	want(w.t, "EXCHANGE_ID", status, nfs4.OK)
	return id, sequence, confirmed
}

func create(id uint64, sequence uint32, uid int) *Create {
	return &Create{
		Principal: Principal{Flavor: 1, UID: uint32(uid)}, ClientID: id, Sequence: sequence, Conn: "first",
		Fore: nfs4.ChannelAttrs{MaxRequests: 8, MaxResponseSizeCached: 4096},
	}
}

// create is CREATE_SESSION, which must succeed.
func (w *world) create(c *Create) *Session {
	w.t.Helper()
	res := w.CreateSession(c)
	want(w.t, "CREATE_SESSION", res.Status, nfs4.OK)
	s := w.Session(res.Session)
	if s == nil || s.ClientID() != c.ClientID {
		w.t.Fatalf("Session of a new session ID is %v", s)
	}
	return s
}

// client makes a client of uid 0 with one session, which has nothing to reclaim.
func (w *world) client(owner string) *Session {
	w.t.Helper()
	id, sequence, _ := w.exchange(exchange(owner, 1, 0))
	s := w.create(create(id, sequence, 0))
	want(w.t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	return s
}

// open is OPEN, which must succeed.
func (w *world) open(s *Session, owner, key string, access, deny uint32, file any) (*Open, nfs4.StateID) {
	w.t.Helper()
	o, id, status := w.OpenFile(s, &OpenFile{Owner: []byte(owner), Key: key, Access: access, Deny: deny}, file)
	want(w.t, "OPEN", status, nfs4.OK)
	return o, id
}

func (w *world) openStatus(s *Session, owner, key string, access, deny uint32) nfs4.Status {
	_, _, status := w.OpenFile(s, &OpenFile{Owner: []byte(owner), Key: key, Access: access, Deny: deny}, nil)
	return status
}

// next begins a call in a slot with the next sequence ID.
func (w *world) next(s *Session, slot uint32) Outcome {
	return w.Begin(s, &Sequenced{Slot: slot, Sequence: s.slots[slot].sequence + 1, Highest: slot, Conn: "first"})
}

// call renews the lease by a whole call.
func (w *world) call(s *Session) {
	w.t.Helper()
	if o := w.next(s, 0); !o.New {
		w.t.Fatalf("SEQUENCE is %v", o.Status)
	}
	s.End(0, nil, false, false)
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// empty checks that nothing is left of any client.
func (w *world) empty() {
	w.t.Helper()
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	got := fmt.Sprint(len(w.owners), len(w.clients), w.unconfirmed.Len(), len(w.files), len(w.parties), w.denying.Load(), w.used)
	want(w.t, "what is left", got, "0 0 0 0 0 0 [0 0 0 0 0 0 0 0]")
	for i := range w.slab.next {
		if w.slab.get(i) != nil {
			w.t.Fatalf("stateid %d is left", i)
		}
	}
	for i := range w.sessions.next {
		if w.sessions.get(i) != nil {
			w.t.Fatalf("session %d is left", i)
		}
	}
}

// R8881-2.4.2-3, R8881-2.10.12-1, R8881-18.35.4-7: unconfirmed records go after a lease, silent
// clients after Config.Courtesy.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	id, sequence, _ := w.exchange(exchange("never confirmed", 1, 0))
	busy := w.client("busy")
	silent := w.client("silent")
	_, stateid := w.open(silent, "o", "f", 1, 0, "file")
	w.sleep(testLease)
	w.Sweep()
	want(t, "unconfirmed record after a lease", w.clients[id] != nil, true)
	w.sleep(1)
	w.Sweep()
	want(t, "CREATE_SESSION after a lease", w.CreateSession(create(id, sequence, 0)).Status, nfs4.ErrStaleClientID)
	want(t, "SEQUENCE of a silent client", w.next(silent, 0).New, true) // R8881-8.3-2
	w.sleep(2 * defaultCourtesy)
	w.Sweep()
	want(t, "stateid while a call runs", w.TestStateID(silent, &stateid), nfs4.OK)
	want(t, "session of a client that was silent", w.Session(busy.ID), nil)
	silent.End(0, nil, false, false)
	w.sleep(defaultCourtesy)
	w.Sweep()
	want(t, "stateid after a day", w.TestStateID(silent, &stateid), nfs4.OK)
	w.sleep(1)
	w.Sweep()
	want(t, "stateid after more than a day", w.TestStateID(silent, &stateid), nfs4.ErrBadStateID)
	want(t, "releases", w.releases("file"), 1)
	w.empty()
}

// Many goroutines use clients of few owners, so that incarnations replace each
// other, sessions end and opens conflict, all at once. Every File is released
// once, and nothing is left.
func TestManyGoroutines(t *testing.T) {
	w := newWorld(manyGoroutines{t})
	var files atomic.Int64
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 60 {
				w.incarnation(r, &files)
			}
		})
	}
	group.Go(func() {
		for range 200 {
			w.sleep(testLease / 8)
			w.Sweep()
			w.Denied("f0", nfs4.ShareRead)
			w.Revoke(func(file any) bool { n, ok := file.(int64); return ok && n%11 == 0 })
			w.locksAgree()
		}
	})
	group.Wait()
	w.sleep(2 * defaultCourtesy)
	w.Sweep()
	w.empty()
	for file := range files.Load() {
		want(t, fmt.Sprintf("releases of %d", file+1), w.releases(file+1), 1)
	}
}

// lockSets returns the number of lock stateids.
func (w *world) lockSets() (n int) {
	for _, c := range w.clients {
		n += c.lockSets
	}
	return n
}

// locksAgree checks the counts of parties against their clients.
func (w *world) locksAgree() {
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	have := make(map[*party][resources]int)
	for _, c := range w.clients {
		n := have[c.party]
		n[clientRecords]++
		if !c.confirmed {
			n[unconfirmedRecords]++
		}
		n[liveSessions] += len(c.sessions)
		for _, s := range c.sessions {
			n[replyBytes] += s.cost
		}
		n[stateids] += len(c.opens) + c.lockSets + len(c.revoked)
		n[lockRanges] += c.locks
		have[c.party] = n
	}
	var all [resources]int
	for _, p := range w.parties {
		want(w.t, "what "+p.name.String()+" has", p.used, have[p])
		for r, n := range p.used {
			all[r] += n
		}
	}
	want(w.t, "what all parties have", w.used, all)
}

// incarnation is the life of one incarnation of a client.
func (w *world) incarnation(r *rand.Rand, files *atomic.Int64) {
	x := exchange(fmt.Sprint(r.IntN(4)), r.IntN(100), 0)
	x.Verifier[1] = byte(r.IntN(100))
	id, sequence, _, _ := w.ExchangeID(x)
	res := w.CreateSession(create(id, sequence, 0))
	s := w.Session(res.Session)
	if s == nil {
		return
	}
	w.ReclaimComplete(s)
	var calls sync.WaitGroup
	for slot := range uint32(2) {
		seed := r.Uint64()
		calls.Go(func() {
			r := rand.New(rand.NewPCG(seed, 2))
			for n := range uint32(10) {
				a := &Sequenced{Slot: slot, Sequence: n + 1, Conn: slot}
				if o := w.Begin(s, a); !o.New {
					return
				}
				retry := w.Begin(s, a)
				key, owner := fmt.Sprint("f", r.IntN(2)), fmt.Sprint(r.IntN(2))
				o, stateid, status := w.OpenFile(s, &OpenFile{
					Owner: []byte(owner), Key: key, Access: 1 + r.Uint32N(3), Deny: r.Uint32N(2),
				}, files.Add(1))
				if status == nfs4.OK {
					lock, _, status := w.Lock(s, newLock(stateid, key, owner, r.IntN(2) == 0, 0, 9))
					if status == nfs4.OK && r.IntN(2) == 0 {
						w.unlock(s, lock, key, r.Uint64N(10), 9)
					}
				}
				if status == nfs4.OK && r.IntN(2) == 0 {
					stateid.SeqID = 0
					w.Downgrade(s, &stateid, o.Access(), 0)
					w.Close(s, &stateid)
				}
				w.Flags(s)
				s.End(slot, []byte(key), false, false)
				if got, err := retry.Retry.Wait(w.t.Context()); err != nil || string(got.Replay) != key {
					w.t.Errorf("a retry's reply is %q, %v; want %q", got.Replay, err, key)
				}
			}
			s.Unbind(slot)
		})
	}
	calls.Wait()
	if r.IntN(2) == 0 {
		w.DestroySession(s.ID, nil)
		w.DestroyClientID(id)
	}
}

// SEQUENCE, the end of its call, and looking up a session and a stateid
// allocate nothing.
func TestNoAllocation(t *testing.T) {
	w := newWorld(t)
	s := w.client("c")
	_, stateid := w.open(s, "o", "f", 1, 0, nil)
	reply := make([]byte, uncachedLimit)
	conn := any(new(int))
	var sequence uint32
	n := testing.AllocsPerRun(100, func() {
		sequence++
		session := w.Session(s.ID)
		o := w.Begin(session, &Sequenced{Sequence: sequence, Conn: conn})
		w.Flags(session)
		_, status := w.Open(session, &stateid)
		if !o.New || status != nfs4.OK || w.Denied("f", 1) != nfs4.OK {
			t.Error("a call failed")
		}
		session.End(0, reply[:200+sequence%300], false, false)
	})
	want(t, "allocations of a call", n, 0)
}
