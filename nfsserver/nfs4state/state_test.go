package nfs4state

import (
	"fmt"
	"maps"
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

// A testState is a State with a clock, and remembers the Files that were released.
type testState struct {
	*State
	t     testing.TB
	clock atomic.Int64

	mu       sync.Mutex
	released map[any]int
}

func newTestState(t testing.TB) *testState {
	w := &testState{t: t, released: make(map[any]int)}
	w.clock.Store(int64(time.Hour))
	w.State = New(Config{
		Now: func() time.Duration { return time.Duration(w.clock.Load()) }, Epoch: testEpoch, Lease: testLease,
		Release: func(file any) {
			if w.isSingleGoroutine() {
				if w.State.isLocked() {
					t.Error("Release is called while the State is locked")
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.released[file]++
		},
	})
	return w
}

// isLocked reports whether State.mu, a part or a shard is locked.
func (s *State) isLocked() bool {
	if !s.mu.whole.TryLock() {
		return true
	}
	s.mu.whole.Unlock()
	for i := range s.mu.parts {
		if p := &s.mu.parts[i]; !p.mu.TryLock() {
			return true
		} else {
			p.mu.Unlock()
		}
	}
	return false
}

// isSingleGoroutine reports whether the test uses one goroutine, so that a lock that is
// held is held by the caller.
func (w *testState) isSingleGoroutine() bool { _, many := w.t.(manyGoroutines); return !many }

// manyGoroutines marks a test that uses a testState from several goroutines.
type manyGoroutines struct{ testing.TB }

func (w *testState) advanceClock(d time.Duration) { w.clock.Add(int64(d)) }

func (w *testState) releaseCount(file any) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.released[file]
}

func exchangeArgs(owner string, verifier, uid int) *Exchange {
	return &Exchange{Principal: Principal{Flavor: 1, UID: uint32(uid)}, Owner: []byte(owner), Verifier: nfs4.Verifier{byte(verifier)}}
}

// mustExchange sends EXCHANGE_ID, which must succeed.
func (w *testState) mustExchange(x *Exchange) (id uint64, sequence uint32, confirmed bool) {
	w.t.Helper()
	id, sequence, confirmed, status := w.ExchangeID(x)
	want(w.t, "EXCHANGE_ID", status, nfs4.OK)
	return id, sequence, confirmed
}

func createArgs(id uint64, sequence uint32, uid int) *Create {
	return &Create{
		Principal: Principal{Flavor: 1, UID: uint32(uid)}, ClientID: id, Sequence: sequence, Conn: "first",
		Fore: nfs4.ChannelAttrs{MaxRequests: 8, MaxResponseSizeCached: 4096},
	}
}

// mustCreateSession sends CREATE_SESSION, which must succeed.
func (w *testState) mustCreateSession(c *Create) *Session {
	w.t.Helper()
	res := w.CreateSession(c)
	want(w.t, "CREATE_SESSION", res.Status, nfs4.OK)
	s := w.Session(res.Session)
	if s == nil || s.ClientID() != c.ClientID {
		w.t.Fatalf("Session of a new session ID is %v", s)
	}
	return s
}

// newTestClient creates a client with uid 0 and one session, which has nothing
// to reclaim.
func (w *testState) newTestClient(owner string) *Session {
	w.t.Helper()
	id, sequence, _ := w.mustExchange(exchangeArgs(owner, 1, 0))
	s := w.mustCreateSession(createArgs(id, sequence, 0))
	want(w.t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	return s
}

// mustOpen sends OPEN, which must succeed.
func (w *testState) mustOpen(s *Session, owner, key string, access, deny uint32, file any) (*Open, nfs4.StateID) {
	w.t.Helper()
	o, id, status := w.OpenFile(s, &OpenFile{Owner: []byte(owner), Key: key, Access: access, Deny: deny}, file)
	want(w.t, "OPEN", status, nfs4.OK)
	return o, id
}

func (w *testState) openStatus(s *Session, owner, key string, access, deny uint32) nfs4.Status {
	_, _, status := w.OpenFile(s, &OpenFile{Owner: []byte(owner), Key: key, Access: access, Deny: deny}, nil)
	return status
}

// beginNextCall begins a call in a slot with the next sequence ID.
func (w *testState) beginNextCall(s *Session, slot uint32) sequenceOutcome {
	return w.Begin(s, &Sequenced{Slot: slot, Sequence: s.slots[slot].sequence + 1, Highest: slot, Conn: "first"})
}

// renewByCall renews the lease by a whole call.
func (w *testState) renewByCall(s *Session) {
	w.t.Helper()
	if o := w.beginNextCall(s, 0); !o.New {
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

// all returns the use of all resources.
func (u *resourceUsage) all() (n [resources]int) {
	for r := range resources {
		n[r] = u.get(r)
	}
	return n
}

// allFiles returns the files in all shards.
func (s *State) allFiles() map[string]*file {
	all := make(map[string]*file)
	for i := range s.shards {
		maps.Copy(all, s.shards[i].files)
	}
	return all
}

// allHostFiles returns the objects on the host.
func (s *State) allHostFiles() map[string]*hostFile {
	all := make(map[string]*hostFile)
	for i := range s.shards {
		maps.Copy(all, s.shards[i].hostFiles)
	}
	return all
}

// checkEmpty checks that nothing is left of any client.
func (w *testState) checkEmpty() {
	w.t.Helper()
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	got := fmt.Sprint(len(w.owners), len(w.clients)+len(w.machines), w.unconfirmed.Len(), len(w.allFiles()), len(w.groups), w.denyingOpens.Load(), w.usage.all())
	want(w.t, "what is left", got, "0 0 0 0 0 0 [0 0 0 0 0 0 0 0 0]")
	for i := range w.holdings.next.Load() {
		if w.holdings.get(i) != nil {
			w.t.Fatalf("stateid %d is left", i)
		}
	}
	for i := range w.sessions.next.Load() {
		if w.sessions.get(i) != nil {
			w.t.Fatalf("session %d is left", i)
		}
	}
}

// R8881-2.4.2-3, R8881-2.10.12-1, R8881-18.35.4-7: unconfirmed records go after a lease, silent
// clients after Config.Courtesy.
func TestSweep(t *testing.T) {
	w := newTestState(t)
	id, sequence, _ := w.mustExchange(exchangeArgs("never confirmed", 1, 0))
	busy := w.newTestClient("busy")
	silent := w.newTestClient("silent")
	_, stateid := w.mustOpen(silent, "o", "f", 1, 0, "file")
	w.advanceClock(testLease)
	w.Sweep()
	want(t, "unconfirmed record after a lease", w.clients[id] != nil, true)
	w.advanceClock(1)
	w.Sweep()
	want(t, "CREATE_SESSION after a lease", w.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrStaleClientID)
	want(t, "SEQUENCE of a silent client", w.beginNextCall(silent, 0).New, true) // R8881-8.3-2
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	want(t, "stateid while a call runs", w.TestStateID(silent, &stateid), nfs4.OK)
	want(t, "session of a client that was silent", w.Session(busy.ID), nil)
	silent.End(0, nil, false, false)
	w.advanceClock(defaultCourtesy)
	w.Sweep()
	want(t, "stateid after a day", w.TestStateID(silent, &stateid), nfs4.OK)
	w.advanceClock(1)
	w.Sweep()
	want(t, "stateid after more than a day", w.TestStateID(silent, &stateid), nfs4.ErrBadStateID)
	want(t, "releases", w.releaseCount("file"), 1)
	w.checkEmpty()
}

// Many goroutines use clients of few owners, so that incarnations replace each
// other, sessions end and opens conflict, all at once. Every File is released
// once, and nothing is left.
func TestManyGoroutines(t *testing.T) {
	w := newTestState(manyGoroutines{t})
	var files atomic.Int64
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 60 {
				w.runIncarnation(r, &files)
			}
		})
	}
	group.Go(func() {
		for range 200 {
			w.advanceClock(testLease / 8)
			w.Sweep()
			w.Denied("f0", nfs4.ShareRead)
			w.Revoke(func(file any) bool { n, ok := file.(int64); return ok && n%11 == 0 })
			w.checkLockCounts()
		}
	})
	group.Wait()
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	w.checkEmpty()
	for file := range files.Load() {
		want(t, fmt.Sprintf("releases of %d", file+1), w.releaseCount(file+1), 1)
	}
}

// lockSets returns the number of lock stateids.
func (w *testState) lockSets() (n int) {
	for _, c := range w.clients {
		n += c.lockSets
	}
	return n
}

// checkLockCounts checks the groups' counts against their clients.
func (w *testState) checkLockCounts() {
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	have := make(map[*clientGroup][resources]int)
	for _, c := range w.clients {
		n := have[c.group]
		n[clientRecords]++
		if !c.confirmed {
			n[unconfirmedRecords]++
		}
		n[liveSessions] += len(c.sessions)
		for _, s := range c.sessions {
			n[replyBytes] += s.replyCost
		}
		n[stateIDs] += len(c.opens) + c.lockSets + len(c.revoked)
		n[lockRanges] += c.locks
		have[c.group] = n
	}
	for _, m := range w.machines {
		n := have[m.group]
		n[clientRecords]++
		n[machineRecords]++
		n[stateIDs] += len(m.files) + m.lockSets + m.shareCount
		n[lockRanges] += m.locks
		for _, f := range m.files {
			n[waitingOwners] += len(f.waits)
		}
		have[m.group] = n
	}
	var all [resources]int
	for _, p := range w.groups {
		want(w.t, "what "+p.name.String()+" has", p.usage.all(), have[p])
		for r, n := range p.usage.all() {
			all[r] += n
		}
	}
	want(w.t, "what all parties have", w.usage.all(), all)
}

// runIncarnation runs one client incarnation from start to end.
func (w *testState) runIncarnation(r *rand.Rand, files *atomic.Int64) {
	x := exchangeArgs(fmt.Sprint(r.IntN(4)), r.IntN(100), 0)
	x.Verifier[1] = byte(r.IntN(100))
	id, sequence, _, _ := w.ExchangeID(x)
	res := w.CreateSession(createArgs(id, sequence, 0))
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
						w.unlockBytes(s, lock, key, r.Uint64N(10), 9)
					}
				}
				if status == nfs4.OK && r.IntN(2) == 0 {
					stateid.SeqID = 0
					w.Downgrade(s, &stateid, o.Access(), 0)
					w.Close(s, &stateid)
				}
				w.SequenceFlags(s)
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
	w := newTestState(t)
	s := w.newTestClient("c")
	_, stateid := w.mustOpen(s, "o", "f", 1, 0, nil)
	reply := make([]byte, uncachedLimit)
	conn := any(new(int))
	var sequence uint32
	n := testing.AllocsPerRun(100, func() {
		sequence++
		session := w.Session(s.ID)
		o := w.Begin(session, &Sequenced{Sequence: sequence, Conn: conn})
		w.SequenceFlags(session)
		_, status := w.Open(session, &stateid)
		if !o.New || status != nfs4.OK || w.Denied("f", 1) != nfs4.OK {
			t.Error("a call failed")
		}
		session.End(0, reply[:200+sequence%300], false, false)
	})
	want(t, "allocations of a call", n, 0)
}
