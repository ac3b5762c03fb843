package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// hostBytes is the number of bytes in an object that a fakeHost locks.
const hostBytes = 16

type hostKinds [hostBytes]locks.Kind

// A fakeHost is a host with processes that lock bytes of objects too.
type fakeHost struct {
	t testing.TB

	mu      sync.Mutex
	objects map[string]*fakeObject
}

// A fakeObject is an object on the host.
type fakeObject struct {
	host          *fakeHost
	open, busy    bool
	opens         int
	server, local hostKinds

	refuses nfs4.Status   // the status of Lock.Host
	fails   nfs4.Status   // the status of SetLock for a weaker lock
	asked   []string      // calls of SetLock
	before  func()        // called by SetLock before all else
	hangs   chan struct{} // SetLock waits for the channel
	hanging chan struct{} // SetLock says that it waits
}

func newHost(t testing.TB) *fakeHost { return &fakeHost{t: t, objects: make(map[string]*fakeObject)} }

func (f *fakeHost) hostObject(key string) *fakeObject {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.objects[key]
	if o == nil {
		o = &fakeObject{host: f}
		f.objects[key] = o
	}
	return o
}

// setOn makes a lock use an object on the host.
func (f *fakeHost) setOn(a *Lock) *Lock {
	o := f.hostObject(a.Key)
	a.Storage = f
	a.Host = func() (HostLocks, nfs4.Status) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if o.refuses != nfs4.OK {
			return nil, o.refuses
		}
		if o.open {
			f.t.Error("two holders of the host's locks are open")
		}
		o.open = true
		o.opens++
		return o, nfs4.OK
	}
	return a
}

// enterCall begins a call, and end ends it: one at a time.
func (o *fakeObject) enterCall() (end func()) {
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	if o.busy || !o.open {
		o.host.t.Error("a call during another, or of closed locks")
	}
	o.busy = true
	return func() {
		o.host.mu.Lock()
		defer o.host.mu.Unlock()
		o.busy = false
	}
}

func (o *fakeObject) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	defer o.enterCall()()
	if o.before != nil {
		o.before()
	}
	if o.hangs != nil {
		o.hanging <- struct{}{}
		<-o.hangs
	}
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	o.asked = append(o.asked, fmt.Sprint(r.Start, "-", min(r.End, hostBytes-1), ":", kind))
	if o.refuses == nfs4.ErrNotSupp {
		return o.refuses
	}
	if kind != locks.None {
		if _, found := o.findBlocked(r, kind); found != locks.None {
			return nfs4.ErrDenied
		}
	}
	for i := r.Start; i <= min(r.End, hostBytes-1); i++ {
		if o.fails != nfs4.OK && kind < o.server[i] {
			return o.fails
		}
	}
	for i := r.Start; i <= min(r.End, hostBytes-1); i++ {
		o.server[i] = kind
	}
	return nfs4.OK
}

func (o *fakeObject) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	defer o.enterCall()()
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	if o.refuses == nfs4.ErrNotSupp {
		return locks.Range{}, locks.None, o.refuses
	}
	at, found := o.findBlocked(r, kind)
	return at, found, nfs4.OK
}

// findBlocked returns the first byte of r that a host process keeps from being
// locked.
func (o *fakeObject) findBlocked(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind) {
	for i := r.Start; i <= min(r.End, hostBytes-1); i++ {
		if has := o.local[i]; has == locks.Exclusive || has == locks.Shared && kind == locks.Exclusive {
			return locks.Range{Start: i, End: i}, has
		}
	}
	return locks.Range{}, locks.None
}

func (o *fakeObject) Close() {
	defer o.enterCall()()
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	o.open, o.server = false, hostKinds{}
}

// lockLocally locks bytes for a host process, and reports whether it may.
func (o *fakeObject) lockLocally(start, end int, kind locks.Kind) bool {
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	for i := start; i <= end && kind != locks.None; i++ {
		if has := o.server[i]; has == locks.Exclusive || has == locks.Shared && kind == locks.Exclusive {
			return false
		}
	}
	for i := start; i <= end; i++ {
		o.local[i] = kind
	}
	return true
}

// serverKinds returns the locks that the host holds for the server.
func (o *fakeObject) serverKinds() hostKinds {
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	return o.server
}

// unionKinds returns the union of all clients' locks of an object.
func (w *testState) unionKinds(key string) (kinds hostKinds) {
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	f := w.fileOf(key)
	if f == nil {
		return kinds
	}
	f.locks.Union(locks.Range{End: hostBytes - 1}, func(r locks.Range, exclusive bool) bool {
		for i := r.Start; i <= r.End; i++ {
			kinds[i] = locks.KindOf(exclusive)
		}
		return true
	})
	return kinds
}

// formatTable returns all lock stateids with their locks. With the union this is the
// whole table: bytes with several owners are shared.
func (w *testState) formatTable() string {
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	var lines []string
	for key, f := range w.allFiles() {
		for _, o := range f.opens {
			for _, set := range o.locks {
				lines = append(lines, fmt.Sprint(key, set.StateID(), slices.Collect(set.part.Ranges)))
			}
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(strings.Join(lines, "\n"), w.usage.all())
}

// checkHostLocks checks that the host holds the union of all clients' locks, and
// nothing in an unlocked object.
func (w *testState) checkHostLocks(f *fakeHost) {
	w.t.Helper()
	w.WaitForHostLocks()
	for key, o := range f.objects {
		want(w.t, "the host's locks of "+key, o.serverKinds(), w.unionKinds(key))
		want(w.t, key+" is open on the host", o.open, w.unionKinds(key) != hostKinds{})
	}
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	for key, h := range w.allHostFiles() {
		want(w.t, "calls of "+key, h.users, 0)
		want(w.t, key+" is open", h.locks != nil, true)
	}
	want(w.t, "releasers", len(w.releasers), 0)
}

var denied0 = uint64(testEpoch) << 32 // the client ID of host processes

// R8881-18.10.3-6: every pair of kinds, by a client and a host process, each
// first. LOCK4denied then names no client.
func TestHostPairs(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s := w.newTestClient("c")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	o := f.hostObject("f")
	for _, exclusive := range []bool{false, true} {
		for theirs := locks.None; theirs <= locks.Exclusive; theirs++ {
			meet := theirs == locks.None || theirs == locks.Shared && !exclusive
			a := f.setOn(newLock(open, "f", "l", exclusive, 3, 9))
			id := w.mustLock(s, a)
			want(t, "a process's lock", o.lockLocally(5, 5, theirs), meet)
			o.lockLocally(5, 5, locks.None)
			_, status := w.unlockBytes(s, id, "f", 0, locks.ToEnd)
			want(t, "LOCKU", status, nfs4.OK)
			want(t, "a process's lock after LOCKU", o.lockLocally(5, 5, theirs), true)
			expected, d := nfs4.OK, Denied{}
			if !meet {
				expected, d = nfs4.ErrDenied, Denied{locks.Range{Start: 5, End: 5}, theirs == locks.Exclusive, denied0, "host", false}
			}
			tested, status := w.TestLock(s, a)
			want(t, "LOCKT", status, expected)
			want(t, "LOCK4denied of LOCKT", tested, d)
			before := w.formatTable()
			id, got, status := w.Lock(s, a)
			want(t, "LOCK", status, expected)
			want(t, "LOCK4denied", got, d)
			want(t, "the table is unchanged", before == w.formatTable(), !meet)
			o.lockLocally(5, 5, locks.None)
			if meet {
				w.unlockBytes(s, id, "f", 0, locks.ToEnd)
			}
			w.checkHostLocks(f)
		}
	}
	_, status := w.TestLock(s, f.setOn(newLock(open, "never opened", "l", true, 0, 0)))
	want(t, "LOCKT of an object that is not open", status, nfs4.OK)
	w.checkHostLocks(f)
}

// TestHostAgainstTable makes random calls of several clients, and locks of host
// processes. After each the host has the union of the clients' locks, and a call
// that failed has changed nothing.
func TestHostAgainstTable(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runHostSchedule(t, rand.New(rand.NewPCG(seed, 5))) })
	}
}

func runHostSchedule(t *testing.T, r *rand.Rand) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	var sessions [3]*Session
	opens := make(map[[3]int]nfs4.StateID)   // by client, open-owner and object
	lockIDs := make(map[[4]int]nfs4.StateID) // by client, lock-owner, object and open-owner
	for i := range sessions {
		sessions[i] = w.newTestClient(fmt.Sprint(i))
	}
	for range 300 {
		c, owner, file, through := r.IntN(3), r.IntN(2), r.IntN(2), r.IntN(2)
		s, key, openKey, setKey := sessions[c], fmt.Sprint("f", file), [3]int{c, through, file}, [4]int{c, owner, file, through}
		o := f.hostObject(key)
		open := opens[openKey]
		if w.TestStateID(s, &open) != nfs4.OK {
			_, open = w.mustOpen(s, fmt.Sprint(through), key, nfs4.ShareBoth, 0, fmt.Sprint(c, through, file))
			open.SeqID = 0
			opens[openKey] = open
		}
		start := r.IntN(hostBytes)
		end := start + r.IntN(hostBytes-start)
		exclusive := r.IntN(2) == 0
		a := newLock(open, key, fmt.Sprint(owner), exclusive, uint64(start), uint64(end))
		before := w.formatTable()
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			d, expected := w.TestLock(s, a)
			at, found := o.findBlocked(a.Range, locks.KindOf(exclusive))
			if expected == nfs4.OK && found != locks.None {
				d, expected = Denied{at, found == locks.Exclusive, denied0, "host", false}, nfs4.ErrDenied
			}
			tested, status := w.TestLock(s, f.setOn(a))
			want(t, "LOCKT", status, expected)
			want(t, "LOCK4denied of LOCKT", tested, d)
			id, known := lockIDs[setKey]
			if known && w.TestStateID(s, &id) == nfs4.OK && r.IntN(2) == 0 {
				a = a.withStateID(id)
			}
			id, got, status := w.Lock(s, a)
			want(t, "LOCK", status, expected)
			want(t, "LOCK4denied", got, d)
			if status != nfs4.OK {
				want(t, "the table after a LOCK that failed", w.formatTable(), before)
				break
			}
			id.SeqID = 0
			lockIDs[setKey] = id
		case 4, 5:
			id := lockIDs[setKey]
			if w.TestStateID(s, &id) == nfs4.OK {
				_, status := w.Unlock(s, f.setOn(a).withStateID(id))
				want(t, "LOCKU", status, nfs4.OK)
			}
		case 6:
			want(t, "CLOSE", w.Close(s, &open), nfs4.OK)
		case 7:
			id := lockIDs[setKey]
			w.FreeStateID(s, &id)
		case 8, 9:
			o.lockLocally(start, end, locks.Kind(r.IntN(3)))
		case 10:
			if r.IntN(4) == 0 { // a new incarnation
				id, sequence, _ := w.mustExchange(exchangeArgs(fmt.Sprint(c), r.IntN(200), 0))
				sessions[c] = w.mustCreateSession(createArgs(id, sequence, 0))
				want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(sessions[c]) == nfs4.ErrBadSession, false)
			}
		case 11:
			gone := fmt.Sprint(c, through, file)
			w.Revoke(func(file any) bool { return file == gone })
		}
		w.checkHostLocks(f)
	}
	for _, o := range f.objects {
		o.lockLocally(0, hostBytes-1, locks.None)
	}
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	w.checkHostLocks(f)
	w.checkEmpty()
	want(t, "objects on the host", len(w.allHostFiles()), 0)
}

// TestHostRacing has clients lock and unlock the same objects at the same time,
// and a host process too. A lock is on the host when the client hears of it.
func TestHostRacing(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 6))
			s := w.newTestClient(fmt.Sprint(worker))
			for range 60 {
				key := fmt.Sprint("f", r.IntN(2))
				_, open := w.mustOpen(s, "o", key, nfs4.ShareBoth, 0, worker)
				open.SeqID = 0
				var calls sync.WaitGroup
				for owner := range 2 {
					seed := r.Uint64()
					calls.Go(func() {
						r := rand.New(rand.NewPCG(seed, 7))
						for range 10 {
							start := r.IntN(hostBytes)
							a := f.setOn(newLock(open, key, fmt.Sprint(owner), r.IntN(3) == 0, uint64(start), uint64(start+r.IntN(hostBytes-start))))
							w.TestLock(s, a)
							id, _, status := w.Lock(s, a)
							if status != nfs4.OK {
								continue
							}
							kinds := f.hostObject(key).serverKinds()
							for i := a.Range.Start; i <= a.Range.End; i++ {
								if kinds[i] < locks.KindOf(a.Exclusive) {
									t.Error("a lock was granted before the host had it")
								}
							}
							if r.IntN(3) > 0 {
								w.unlockBytes(s, id, key, uint64(r.IntN(hostBytes)), locks.ToEnd)
							}
						}
					})
				}
				if r.IntN(3) > 0 { // not while owners check their locks
					calls.Wait()
				}
				if r.IntN(4) > 0 {
					calls.Wait()
					w.Close(s, &open)
				}
				calls.Wait()
			}
		})
	}
	group.Go(func() {
		r := rand.New(rand.NewPCG(1, 8))
		for range 2000 {
			o, start := f.hostObject(fmt.Sprint("f", r.IntN(2))), r.IntN(hostBytes)
			if o.lockLocally(start, start, locks.Kind(r.IntN(3))) {
				o.lockLocally(0, hostBytes-1, locks.None)
			}
			w.Sweep()
		}
	})
	group.Wait()
	w.checkHostLocks(f)
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	w.checkHostLocks(f)
	w.checkEmpty()
}

// TestHostStateEnds removes the state of a LOCK during the call to the host:
// the LOCK fails, and the host keeps no lock.
func TestHostStateEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(w *testState, s *Session, open nfs4.StateID)
		status nfs4.Status
	}{
		"CLOSE":      {func(w *testState, s *Session, open nfs4.StateID) { w.Close(s, &open) }, nfs4.ErrBadStateID},
		"revocation": {func(w *testState, _ *Session, _ nfs4.StateID) { w.Revoke(func(file any) bool { return true }) }, nfs4.ErrAdminRevoked},
		"the client's end": {func(w *testState, _ *Session, _ nfs4.StateID) {
			w.advanceClock(defaultCourtesy + 1)
			w.Sweep()
		}, nfs4.ErrBadSession},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newTestState(manyGoroutines{t}), newHost(t)
			s, other := w.newTestClient("c"), w.newTestClient("other")
			_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
			_, second := w.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
			open.SeqID = 0
			if name == "CLOSE" {
				w.mustLock(other, f.setOn(newLock(second, "f", "l", false, 8, 9)))
			}
			w.mustLock(s, f.setOn(newLock(open, "f", "l", true, 0, 3)))
			o := f.hostObject("f")
			var ended chan struct{}
			o.before = func() {
				if ended == nil {
					ended = make(chan struct{})
					go func() {
						defer close(ended)
						tt.end(w, s, open)
					}()
					for w.TestStateID(s, &open) == nfs4.OK {
						time.Sleep(time.Millisecond)
					}
				}
			}
			_, _, status := w.Lock(s, f.setOn(newLock(open, "f", "l", true, 2, 5)))
			want(t, "LOCK", status, tt.status)
			<-ended
			w.checkHostLocks(f)
		})
	}
}

// TestHostHangs checks that an object whose host hangs delays only calls that
// lock that object.
func TestHostHangs(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s, silent := w.newTestClient("c"), w.newTestClient("silent")
	hung := f.hostObject("hung")
	for _, key := range []string{"hung", "f"} {
		_, open := w.mustOpen(silent, "o", key, nfs4.ShareBoth, 0, key)
		w.mustLock(silent, f.setOn(newLock(open, key, "l", true, 0, 1)))
	}
	_, open := w.mustOpen(s, "o", "hung", nfs4.ShareBoth, 0, nil)
	hung.hangs, hung.hanging = make(chan struct{}), make(chan struct{}, 100)
	done := make(chan nfs4.Status)
	go func() { done <- w.lockStatus(s, f.setOn(newLock(open, "hung", "l", true, 4, 5))) }()
	<-hung.hanging

	_, open = w.mustOpen(s, "o", "g", nfs4.ShareBoth, 0, nil)
	id := w.mustLock(s, f.setOn(newLock(open, "g", "l", true, 0, 1)))
	_, status := w.unlockBytes(s, id, "g", 0, 0)
	want(t, "LOCKU", status, nfs4.OK)
	w.advanceClock(2*testLease + 1)
	w.renewByCall(s)
	w.Sweep() // ends the silent client
	want(t, "SEQUENCE", w.beginNextCall(silent, 0).Status, nfs4.ErrBadSession)
	w.Revoke(func(file any) bool { return file == "nothing" })
	for until := time.Now().Add(10 * time.Second); !f.hostObject("f").lockLocally(0, 1, locks.Exclusive); {
		if time.Now().After(until) {
			t.Fatal("another object of the silent client stays locked")
		}
		time.Sleep(time.Millisecond)
	}
	f.hostObject("f").lockLocally(0, 1, locks.None)
	close(hung.hangs)
	want(t, "LOCK", <-done, nfs4.OK)
	w.checkHostLocks(f)
	want(t, "what is left on the host", hung.serverKinds(), hostKinds{4: locks.Exclusive, 5: locks.Exclusive})
}

// TestHostFailsToUnlock checks that unlocking succeeds when the host fails, and
// that the host is called again.
func TestHostFailsToUnlock(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s := w.newTestClient("c")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	o := f.hostObject("f")
	id := w.mustLock(s, f.setOn(newLock(open, "f", "l", true, 0, 9)))
	o.fails = nfs4.ErrDelay
	id, status := w.unlockBytes(s, id, "f", 3, 4)
	want(t, "LOCKU", status, nfs4.OK)
	id = w.mustLock(s, f.setOn(newLock(open, "f", "", false, 8, 9).withStateID(id)))
	for range 2 * maxDirty {
		id, _ = w.unlockBytes(s, id, "f", 3, 4)
	}
	want(t, "ranges to be unlocked are bounded", len(w.shardOf("f").hostFiles["f"].dirty) <= maxDirty, true)
	w.Sweep()
	w.WaitForHostLocks()
	want(t, "a process's lock", o.lockLocally(3, 3, locks.Shared), false)
	o.fails = nfs4.OK
	w.Sweep()
	w.checkHostLocks(f)
	want(t, "a process's lock", o.lockLocally(3, 3, locks.Exclusive), true)
	want(t, "a process's shared lock", o.lockLocally(9, 9, locks.Shared), true)
	o.fails = nfs4.ErrDelay
	want(t, "CLOSE", w.Close(s, &open), nfs4.OK)
	w.checkHostLocks(f)
}

// TestHostLockVanishes checks a process's lock that is gone when the server looks
// for it.
func TestHostLockVanishes(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s := w.newTestClient("c")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	o := f.hostObject("f")
	for often, expected := range map[int]nfs4.Status{1: nfs4.OK, 2: nfs4.ErrDenied} {
		calls := 0
		a := newLock(open, "f", "l", true, 2, 5)
		host := f.setOn(a).Host
		a.Host = func() (HostLocks, nfs4.Status) {
			l, status := host()
			return &fakeVanishingLocks{l, &calls, often}, status
		}
		id, d, status := w.Lock(s, a)
		want(t, "LOCK", status, expected)
		want(t, "calls of SetLock", calls, 2)
		if status == nfs4.ErrDenied {
			want(t, "LOCK4denied", d, Denied{a.Range, true, denied0, "host", false})
		} else {
			w.unlockBytes(s, id, "f", 0, locks.ToEnd)
		}
		want(t, "open on the host", o.open, false)
	}
}

// A fakeVanishingLocks has a lock that conflicts with the first calls of SetLock, and is
// released before TestLock looks for it.
type fakeVanishingLocks struct {
	HostLocks
	calls *int
	often int
}

func (v *fakeVanishingLocks) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	if kind != locks.None {
		if *v.calls++; *v.calls <= v.often {
			return nfs4.ErrDenied
		}
	}
	return v.HostLocks.SetLock(r, kind)
}

// TestHostRefuses checks a host that cannot lock, for which only the table
// applies, and one that has reached a limit.
func TestHostRefuses(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s, other := w.newTestClient("c"), w.newTestClient("other")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	o := f.hostObject("f")
	a := f.setOn(newLock(open, "f", "l", true, 0, 9))
	o.refuses = nfs4.ErrDelay
	want(t, "LOCK", w.lockStatus(s, a), nfs4.ErrDelay)
	_, status := w.TestLock(s, a)
	want(t, "LOCKT", status, nfs4.ErrDelay)
	want(t, "lock stateids", w.lockSets(), 0)
	for _, afterOpen := range []bool{false, true} {
		o.refuses = nfs4.ErrNotSupp
		if afterOpen {
			o.refuses = nfs4.OK
			o.before = func() { o.refuses = nfs4.ErrNotSupp }
		}
		id := w.mustLock(s, a)
		want(t, "the host's locks", o.serverKinds(), hostKinds{})
		_, status = w.TestLock(other, f.setOn(newLock(open, "f", "l", false, 9, 9)))
		want(t, "LOCKT by another client", status, nfs4.ErrDenied)
		_, status = w.TestLock(other, f.setOn(newLock(open, "f", "l", false, 10, 10)))
		want(t, "LOCKT of other bytes", status, nfs4.OK)
		want(t, "objects that the host has locked for the client", len(slices.Collect(w.hostFilesOf(s.client))), 0)
		_, status = w.unlockBytes(s, id, "f", 0, locks.ToEnd)
		want(t, "LOCKU", status, nfs4.OK)
		want(t, "objects on the host", len(w.allHostFiles()), 0)
	}
}

// TestHostCalls checks that the host is called no more than necessary: an upgrade
// and a downgrade are one call each, and bytes of the owner's exclusive locks are
// not given up before the table has the weaker lock.
func TestHostCalls(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	s := w.newTestClient("c")
	_, open := w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	o := f.hostObject("f")
	calls := func(what, expected string) {
		t.Helper()
		want(t, what, strings.Join(o.asked, " "), expected)
		o.asked = nil
	}
	id := w.mustLock(s, f.setOn(newLock(open, "f", "l", true, 4, 7)))
	calls("LOCK", "4-7:2")
	id = w.mustLock(s, f.setOn(newLock(open, "f", "", false, 2, 9).withStateID(id)))
	calls("LOCK around a stronger one", "2-3:1 8-9:1 2-9:1")
	id = w.mustLock(s, f.setOn(newLock(open, "f", "", true, 0, locks.ToEnd).withStateID(id)))
	calls("upgrade", "0-15:2")
	o.lockLocally(0, 0, locks.Shared)
	id = w.mustLock(s, f.setOn(newLock(open, "f", "", false, 0, locks.ToEnd).withStateID(id)))
	calls("downgrade", "0-15:1")
	id, _ = w.unlockBytes(s, id, "f", 3, 4)
	calls("LOCKU", "3-4:0")
	_, _, status := w.Lock(s, f.setOn(newLock(open, "f", "", true, 2, 5).withStateID(id)))
	want(t, "upgrade", status, nfs4.OK)
	w.unlockBytes(s, id, "f", 0, 0)
	want(t, "opens", o.opens, 1)
	w.Close(s, &open)
	want(t, "open after CLOSE", o.open, false)
}

// TestHostManyParts checks that a range with many locks is synchronized in
// several steps, whose parts cover the whole range.
func TestHostManyParts(t *testing.T) {
	var f file
	p := f.locks.NewOwner(nil).NewPart()
	const n = 3 * maxParts
	for i := range uint64(n) {
		p.Lock(locks.Range{Start: 3 * i, End: 3 * i}, i%2 == 0)
	}
	h := hostFile{dirty: []locks.Range{{End: locks.ToEnd}}}
	var at uint64
	for i := range 2*n + 1 {
		parts, _ := h.takeDirty(&f)
		want(t, "parts of a step are bounded", len(parts) <= maxParts+1, true)
		if len(parts) == 0 {
			want(t, "steps", i > n/maxParts, true)
			break
		}
		for _, part := range parts {
			want(t, "start of a part", part.Start, at)
			expected := locks.None
			if at%3 == 0 && at < 3*n {
				expected = locks.KindOf(at%2 == 0)
			}
			want(t, fmt.Sprint("kind of part ", part.Range), part.kind, expected)
			at = part.End + 1
		}
	}
	want(t, "end of the last part", at-1, locks.ToEnd)
}

// TestHostReclaim checks the status of a reclaim of bytes that a host process
// has locked meanwhile.
func TestHostReclaim(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	f.hostObject("f").lockLocally(3, 3, locks.Shared)
	a := f.setOn(&Lock{Key: "f", Range: locks.Range{End: 9}, Exclusive: true, Reclaim: true})
	h := w.acquireHostFile(a)
	_, _, status := w.strengthenHost(h, a, []locks.Range{a.Range})
	want(t, "reclaim", status, nfs4.ErrReclaimConflict)
	w.releaseHostFile(h)
	w.checkHostLocks(f)
}

// TestSweepWaitedLocks: a client with locks on the host that is silent keeps them as long as
// any other, unless a host process waits for one of them.
func TestSweepWaitedLocks(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	waited := ""
	w.State.config.LockWaited = func(_ any, key string) (bool, bool) { return key == waited, true }
	silent := w.newTestClient("silent")
	for _, key := range []string{"f", "g"} {
		_, open := w.mustOpen(silent, "o", key, nfs4.ShareBoth, 0, nil)
		w.mustLock(silent, f.setOn(newLock(open, key, "l", true, 0, 9)))
	}
	w.advanceClock(defaultCourtesy)
	w.Sweep()
	want(t, "SEQUENCE", w.beginNextCall(silent, 0).New, true)
	silent.End(0, nil, false, false)
	waited = "g"
	w.advanceClock(testLease)
	w.Sweep()
	want(t, "a process's lock after a lease", f.hostObject("g").lockLocally(0, 0, locks.Shared), false)
	w.advanceClock(1)
	w.Sweep()
	w.WaitForHostLocks()
	want(t, "a process's lock after more than a lease", f.hostObject("g").lockLocally(0, 0, locks.Shared), true)
	want(t, "SEQUENCE", w.beginNextCall(silent, 0).Status, nfs4.ErrBadSession)
}

// TestSweepHostLocks: a client with locks on the host is silent for two leases at most if it
// is unknown whether a process waits, unless it has only opens, or locks that the host does
// not hold.
func TestSweepHostLocks(t *testing.T) {
	w, f := newTestState(manyGoroutines{t}), newHost(t)
	f.hostObject("alone").refuses = nfs4.ErrNotSupp
	lock := func(s *Session, key string) {
		_, open := w.mustOpen(s, "o", key, nfs4.ShareBoth, 0, nil)
		w.mustLock(s, f.setOn(newLock(open, key, "l", true, 0, 9)))
	}
	held, freed, alone := w.newTestClient("held"), w.newTestClient("freed"), w.newTestClient("alone")
	lock(held, "f")
	lock(alone, "alone")
	_, open := w.mustOpen(freed, "o", "g", nfs4.ShareBoth, 0, nil)
	id := w.mustLock(freed, f.setOn(newLock(open, "g", "l", true, 0, 0)))
	w.unlockBytes(freed, id, "g", 0, 0)
	w.advanceClock(2 * testLease)
	w.Sweep()
	want(t, "a process's lock after two leases", f.hostObject("f").lockLocally(0, 0, locks.Shared), false)
	w.advanceClock(1)
	want(t, "SEQUENCE", w.beginNextCall(held, 0).New, true)
	w.Sweep()
	want(t, "a process's lock while a call runs", f.hostObject("f").lockLocally(0, 0, locks.Shared), false)
	held.End(0, nil, false, false)
	w.advanceClock(2*testLease + 1)
	w.Sweep()
	w.WaitForHostLocks()
	want(t, "a process's lock after more than two leases", f.hostObject("f").lockLocally(0, 0, locks.Shared), true)
	want(t, "SEQUENCE", w.beginNextCall(held, 0).Status, nfs4.ErrBadSession)
	want(t, "SEQUENCE of a client without locks", w.beginNextCall(freed, 0).New, true)
	want(t, "SEQUENCE of a client with locks in the table alone", w.beginNextCall(alone, 0).New, true)
}
