package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// enterTestMachine begins a call of a Machine, which lasts until the end of the test.
func (w *testState) enterTestMachine(name string) *MachineRecord {
	w.t.Helper()
	s, status := w.EnterMachine(Machine{Addr: netip.MustParseAddr("192.0.2.1"), Name: name}, fairshare.Name{})
	want(w.t, "status", status, nfs4.OK)
	return s
}

// lockStatus returns the status of a LOCK.
func (m *MachineRecord) lockStatus(a *Lock) nfs4.Status {
	_, status := m.Lock(a)
	return status
}

func machineLock(exclusive bool) *Lock {
	return &Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: 0, End: 9}, Exclusive: exclusive}
}

// TestTurnOfMachine checks that the bytes are reserved for a Machine whose turn it is, against
// others that are willing to wait: it gets the lock without a new request.
func TestTurnOfMachine(t *testing.T) {
	q := newWaitingTest(t)
	a, b, c := q.enterTestMachine("a"), q.enterTestMachine("b"), q.enterTestMachine("c")
	four, id := q.openAsWaiter("four")
	want(t, "LOCK", a.lockStatus(machineLock(true)), nfs4.OK)
	want(t, "LOCK", b.lockStatus(q.withTell(machineLock(true))), nfs4.ErrDenied)
	want(t, "Unlock", a.Unlock(machineLock(true)), nfs4.OK)
	q.checkNotified("o")
	want(t, "LOCK of a Machine", c.lockStatus(q.withTell(machineLock(false))), nfs4.ErrDenied)
	want(t, "LOCK of version 4", q.lockStatus(four, q.withTell(newLock(id, "f", "v4", true, 5, 5))), nfs4.ErrDenied)
	want(t, "LOCK of other bytes", c.lockStatus(q.withTell(&Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: 10, End: 10}})), nfs4.OK)
	q.advanceClock(testLease)
	q.checkNotified()
	want(t, "LOCK", b.lockStatus(q.withTell(machineLock(true))), nfs4.OK)
	want(t, "Unlock", b.Unlock(machineLock(true)), nfs4.OK)
	q.checkNotified("o") // c, which was first
}

// TestDeadlockOfWaiter checks that nothing of a file is left of a Machine whose only owner that waits
// for a lock of the file gets NFS4ERR_DEADLOCK when it requests the lock again.
func TestDeadlockOfWaiter(t *testing.T) {
	q := newWaitingTest(t)
	a, b, c := q.enterTestMachine("a"), q.enterTestMachine("b"), q.enterTestMachine("c")
	lock := func(key string, waits bool) *Lock {
		l := machineLock(true)
		if l.Key = key; waits {
			return q.withTell(l)
		}
		return l
	}
	want(t, "LOCK", a.lockStatus(lock("f", false)), nfs4.OK)
	want(t, "LOCK", c.lockStatus(lock("g", false)), nfs4.OK)
	want(t, "LOCK", a.lockStatus(lock("g", true)), nfs4.ErrDenied)
	want(t, "LOCK", b.lockStatus(lock("f", true)), nfs4.ErrDenied)
	want(t, "UNLOCK", c.Unlock(lock("g", false)), nfs4.OK)
	want(t, "LOCK by one that does not wait", b.lockStatus(lock("g", false)), nfs4.OK)
	want(t, "files", len(a.files), 2)
	want(t, "LOCK", a.lockStatus(lock("g", true)), nfs4.ErrDeadlock)
	want(t, "files", len(a.files), 1)
}

// TestMachineEnds checks that nothing is left of Machines. One with running calls is removed after
// the last of them, and no call begins until then.
func TestMachineEnds(t *testing.T) {
	w := newTestState(t)
	a, b := w.enterTestMachine("a"), w.enterTestMachine("b")
	want(t, "LOCK", a.lockStatus(machineLock(true)), nfs4.OK)
	want(t, "SHARE", b.Share(&Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead, Deny: nfs4.ShareWrite}), nfs4.OK)
	at := netip.MustParseAddr("192.0.2.1")
	b.Leave()
	w.EndMachines(at, func(string, bool, int32) bool { return true })
	want(t, "locks", w.Counts().Locks, 1)
	want(t, "clients", w.Counts().Clients, 1)
	want(t, "Enter", a.Enter(), false)
	want(t, "Ended", a.Ended(), true)
	_, status := w.EnterMachine(Machine{Addr: at, Name: "a"}, fairshare.Name{})
	want(t, "a call after the restart", status, nfs4.ErrGrace)
	a.Leave()
	want(t, "locks", w.Counts().Locks, 0)
	again := w.enterTestMachine("a")
	want(t, "LOCK", again.lockStatus(machineLock(true)), nfs4.OK)
	again.Leave()
	want(t, "locks", w.Counts().Locks, 1)
	w.EndMachines(at, func(string, bool, int32) bool { return true })
	w.checkEmpty()
}

// TestStrangers checks that calls of any number of Machines without state leave nothing behind, and
// that concurrent calls of one do not remove it.
func TestStrangers(t *testing.T) {
	w := newTestState(t)
	for i := range 2 * maxClients {
		m := Machine{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), Name: "m"}
		s, status := w.EnterMachine(m, fairshare.PartyOfIP(m.Addr))
		want(t, "status", status, nfs4.OK)
		again, _ := w.EnterMachine(m, fairshare.PartyOfIP(m.Addr))
		again.Leave()
		want(t, "Ended", s.Ended(), false)
		want(t, "clients", w.Counts().Clients, 1)
		s.Leave()
		want(t, "Ended", s.Ended(), true)
	}
	w.checkEmpty()
}

// TestMachineNames checks that a Machine is found by the name of its record, whatever addresses are missing.
func TestMachineNames(t *testing.T) {
	addr := netip.MustParseAddr("fe80::1%eth0")
	for _, m := range []Machine{{Addr: addr, Local: addr, Name: "a b"}, {Addr: addr, Name: " c"}, {Name: "d"}, {}} {
		key := m.ownerKey()
		got, ok := machineOf(key)
		want(t, "Machine", ok, true)
		want(t, "Machine", got, m)
	}
}

// TestFindKey checks that an object is found by each filehandle by which the Machine has locked or
// shared it, for as long as it has a lock or SHARE of the object.
func TestFindKey(t *testing.T) {
	w := newTestState(t)
	m := w.enterTestMachine("m")
	key := func(handle string) string {
		key, _ := m.FindKey([]byte(handle))
		return key
	}
	keys := func() []string { return []string{key("1"), key("2"), key("3"), key("4")} }
	share := &Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead}
	lock, other := machineLock(true), machineLock(true)
	other.Key, other.Handle = "g", []byte("4")
	for _, handle := range []string{"1", "2", "2"} {
		lock.Handle = []byte(handle)
		want(t, "LOCK", m.lockStatus(lock), nfs4.OK)
	}
	for _, handle := range []string{"2", "3"} {
		share.Handle = []byte(handle)
		want(t, "SHARE", m.Share(share), nfs4.OK)
	}
	want(t, "LOCK", m.lockStatus(other), nfs4.OK)
	assert.Equal(t, []string{"f", "f", "f", "g"}, keys())
	want(t, "Unlock", m.Unlock(lock), nfs4.OK)
	assert.Equal(t, []string{"f", "f", "f", "g"}, keys())
	m.Unshare(share)
	assert.Equal(t, []string{"", "", "", "g"}, keys())
	want(t, "Unlock", m.Unlock(other), nfs4.OK)
	assert.Empty(t, m.handles)
}

// TestUnlockMeetsJournalWait checks that a LOCK that waits for the journal has no state of the file
// yet, which another call of the Machine could remove.
func TestUnlockMeetsJournalWait(t *testing.T) {
	g := newRestartingState(manyGoroutines{t})
	m := g.enterTestMachine("m")
	g.EndGrace()
	g.store.hangs = make(chan struct{})
	lock := machineLock(true)
	lock.Mark, lock.Handle = "mark", []byte("h")
	done := make(chan nfs4.Status)
	go func() { done <- m.lockStatus(lock) }()
	for g.Counts().Records == 0 {
		runtime.Gosched()
	}
	_, found := m.FindKey(lock.Handle)
	want(t, "FindKey during the wait", found, false)
	want(t, "UNLOCK", m.Unlock(lock), nfs4.OK)
	close(g.store.hangs)
	want(t, "LOCK", <-done, nfs4.OK)
	g.checkLockCounts()
	want(t, "locks", g.Counts().Locks, 1)
	want(t, "UNLOCK", m.Unlock(lock), nfs4.OK)
	g.checkLockCounts()
	want(t, "releases of the Mark", g.releaseCount("mark"), 0)
}

// TestManyMachines runs calls of Machines and NFSv4.1 clients concurrently: no byte has two holders,
// the counts are right, and nothing is left.
func TestManyMachines(t *testing.T) {
	g := newRestartingState(manyGoroutines{t})
	w := g.testState
	at := netip.MustParseAddr("192.0.2.1")
	var holders [3]atomic.Int32
	var group sync.WaitGroup
	hold := func(file int) { want(t, "holders", holders[file].Add(1), 1) }
	for i := range 4 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 4))
			for range 300 {
				m, status := w.EnterMachine(Machine{Addr: at, Name: fmt.Sprint(i / 2)}, fairshare.Name{})
				if status != nfs4.OK {
					want(t, "EnterMachine", status, nfs4.ErrGrace)
					continue
				}
				file := r.IntN(len(holders))
				a := machineLock(true)
				a.Key, a.Owner, a.Handle, a.Mark = fmt.Sprint("f", file), fmt.Append(nil, i), []byte{byte(file)}, i
				share := &Share{Owner: a.Owner, Key: a.Key, Handle: a.Handle, Access: nfs4.ShareRead, Deny: uint32(r.IntN(8) / 7)}
				if r.IntN(2) == 0 {
					a.Tell = func(*Waiting) {}
				}
				m.Share(share)
				if m.lockStatus(a) == nfs4.OK {
					hold(file)
					holders[file].Add(-1)
				}
				m.FindKey(a.Handle)
				m.TestLock(a)
				want(t, "UNLOCK", m.Unlock(a), nfs4.OK)
				m.Unshare(share)
				m.Leave()
			}
		})
	}
	for i := range 2 {
		s := w.newTestClient(fmt.Sprint("v4", i))
		group.Go(func() {
			for n := range 300 {
				file := n % len(holders)
				_, id, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: fmt.Sprint("f", file), Access: nfs4.ShareBoth}, nil)
				if status != nfs4.OK {
					continue // a SHARE denies it
				}
				if w.lockStatus(s, newLock(id, fmt.Sprint("f", file), "l", true, 5, 6)) == nfs4.OK {
					hold(file)
					holders[file].Add(-1)
				}
				w.Close(s, &id)
			}
		})
	}
	group.Go(func() {
		for range 100 {
			w.Sweep()
			w.PollLocks()
			w.Clients(10)
			w.checkLockCounts()
		}
	})
	group.Wait()
	w.checkLockCounts()
	w.EndMachines(at, func(string, bool, int32) bool { return true })
	for _, c := range w.clients {
		want(t, "Expire", w.Expire(c.id), nfs4.OK)
	}
	w.checkEmpty()
}

// TestAsksMeetTurns lets the race detector see an owner that requests a lock again when its turn
// begins.
func TestAsksMeetTurns(t *testing.T) {
	w := newTestState(manyGoroutines{t})
	host := newHost(t)
	a, b := w.enterTestMachine("a"), w.enterTestMachine("b")
	asks := func() *Lock {
		l := host.setOn(machineLock(true))
		l.Tell = func(*Waiting) {}
		return l
	}
	var asking sync.WaitGroup
	for range 200 {
		want(t, "LOCK", a.lockStatus(asks()), nfs4.OK)
		want(t, "LOCK", b.lockStatus(asks()), nfs4.ErrDenied)
		asking.Go(func() { b.lockStatus(asks()) })
		want(t, "Unlock", a.Unlock(machineLock(true)), nfs4.OK)
		asking.Wait()
		want(t, "LOCK", b.lockStatus(asks()), nfs4.OK)
		want(t, "Unlock", b.Unlock(machineLock(true)), nfs4.OK)
	}
	host.hostObject("f").local[5] = locks.Exclusive
	for range 200 {
		want(t, "LOCK", b.lockStatus(asks()), nfs4.ErrDenied)
		want(t, "PollLocks", w.PollLocks(), true)
	}
	w.WaitForHostLocks()
}

// TestShareMeetsUse checks that a SHARE does not deny what a call with a special stateid, or of
// NFSv3, does now.
func TestShareMeetsUse(t *testing.T) {
	w := newTestState(t)
	m := w.enterTestMachine("m")
	share := func(deny uint32) nfs4.Status {
		return m.Share(&Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead, Deny: deny})
	}
	use, status := w.BeginSpecial([]byte("f"), nfs4.ShareWrite, false)
	want(t, "BeginSpecial", status, nfs4.OK)
	want(t, "SHARE", share(nfs4.ShareWrite), nfs4.ErrDelay)
	want(t, "SHARE of another mode", share(nfs4.ShareRead), nfs4.OK)
	want(t, "SHARE", share(nfs4.ShareWrite), nfs4.ErrDelay)
	_, status = w.BeginSpecial([]byte("f"), nfs4.ShareRead, false)
	want(t, "BeginSpecial, which the earlier SHARE denies", status, nfs4.ErrLocked)
	use.End()
	want(t, "SHARE", share(nfs4.ShareWrite), nfs4.OK)
}

// TestRevertMeetsOther checks that a reverted lock does not conflict with what another owner has
// locked in the meantime.
func TestRevertMeetsOther(t *testing.T) {
	q := newWaitingTest(t)
	a, b, c := q.enterTestMachine("a"), q.enterTestMachine("b"), q.enterTestMachine("c")
	lock := func(start, end uint64, exclusive bool) *Lock {
		return &Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: start, End: end}, Exclusive: exclusive}
	}
	want(t, "LOCK", a.lockStatus(lock(0, 4, true)), nfs4.OK)
	want(t, "LOCK", b.lockStatus(lock(5, 9, true)), nfs4.OK)
	var turn *Waiting
	waits := lock(0, 9, false)
	waits.Tell = func(w *Waiting) { turn = w }
	want(t, "LOCK", a.lockStatus(waits), nfs4.ErrDenied)
	want(t, "UNLOCK", b.Unlock(lock(5, 9, true)), nfs4.OK)
	waits.For = turn
	want(t, "LOCK in turn", a.lockStatus(waits), nfs4.OK)
	want(t, "LOCK by another", c.lockStatus(lock(0, 1, false)), nfs4.OK)
	a.RevertLock(waits)
	f := q.fileOf("f")
	_, conflicts := f.locks.Conflict(f.owners[lockOwnerKey{&c.holder, "o"}].ranges, locks.Range{Start: 0, End: 1}, false)
	want(t, "another owner's lock conflicts", conflicts, false)
	want(t, "LOCK of what is restored", c.lockStatus(lock(2, 4, true)), nfs4.ErrDenied)
	want(t, "LOCK of what the owner did not have", c.lockStatus(lock(5, 9, true)), nfs4.OK)
	q.checkLockCounts()
}

// TestLockByManyHandles checks that each lock can be released by the filehandle by which it was set.
func TestLockByManyHandles(t *testing.T) {
	w := newTestState(t)
	m := w.enterTestMachine("m")
	for i := range 2 * maxHandles {
		a := &Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: uint64(i), End: uint64(i)}, Handle: []byte{byte(i)}}
		if status := m.lockStatus(a); status != nfs4.OK {
			want(t, "LOCK", status, nfs4.ErrDelay)
			want(t, "SHARE", m.Share(&Share{Owner: []byte("s"), Key: "f", Access: nfs4.ShareRead, Handle: a.Handle}), nfs4.ErrDelay)
			continue
		}
		_, found := m.FindKey(a.Handle)
		want(t, "FindKey", found, true)
	}
}

// TestMachineInTwoExports checks that what a Machine has of an object ends when the last export is
// removed through which it has used the object.
func TestMachineInTwoExports(t *testing.T) {
	for _, order := range [][]string{{"x", "y"}, {"y", "x"}} {
		w := newTestState(t)
		m := w.enterTestMachine("m")
		a := machineLock(true)
		a.Mark, a.Handle = "x", []byte("in x")
		want(t, "SHARE", m.Share(&Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead, Mark: "x", Handle: []byte("in x")}), nfs4.OK)
		a.Mark, a.Handle = "y", []byte("in y")
		want(t, "LOCK", m.lockStatus(a), nfs4.OK)
		w.Revoke(func(mark any) bool { return mark == order[0] })
		want(t, "locks", w.Counts().Locks, 1)
		for _, handle := range []string{"in x", "in y"} {
			_, found := m.FindKey([]byte(handle))
			want(t, "FindKey", found, true)
		}
		w.Revoke(func(mark any) bool { return mark == order[1] })
		want(t, "locks", w.Counts().Locks, 0)
		want(t, "files", len(m.files), 0)
		m.Leave()
		w.checkEmpty()
	}
}

// TestMachinesLeaveRoom checks that Machines, whose addresses may be forged, do not keep clients from
// creating records.
func TestMachinesLeaveRoom(t *testing.T) {
	w := newTestState(t)
	for i := range maxClients {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		m, status := w.EnterMachine(Machine{Addr: addr, Name: "m"}, fairshare.PartyOfIP(addr))
		if status != nfs4.OK {
			want(t, "EnterMachine", status, nfs4.ErrDelay)
			break
		}
		want(t, "LOCK", m.lockStatus(lockOf(fmt.Sprint(i), false)), nfs4.OK)
		m.Leave()
	}
	for i := range maxClients / 4 {
		x := exchangeArgs(fmt.Sprint(i), 1, 0)
		x.Party = fairshare.PartyOfIP(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}))
		id, sequence, _ := w.mustExchange(x)
		c := createArgs(id, sequence, 0)
		c.Party = x.Party
		w.mustCreateSession(c)
	}
}
