package nfs4state

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// enterTestMachine begins a call of a Machine, which lasts until the end of the test.
func (w *testState) enterTestMachine(name string) *Session {
	w.t.Helper()
	s, status := w.EnterMachine(Machine{Addr: netip.MustParseAddr("192.0.2.1"), Name: name}, fairshare.Name{})
	want(w.t, "status", status, nfs4.OK)
	return s
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
	want(t, "LOCK", q.lockStatus(a, machineLock(true)), nfs4.OK)
	want(t, "LOCK", q.lockStatus(b, q.withTell(machineLock(true))), nfs4.ErrDenied)
	want(t, "Release", q.Release(a, machineLock(true)), nfs4.OK)
	q.checkNotified("o")
	want(t, "LOCK of a Machine", q.lockStatus(c, q.withTell(machineLock(false))), nfs4.ErrDenied)
	want(t, "LOCK of version 4", q.lockStatus(four, q.withTell(newLock(id, "f", "v4", true, 5, 5))), nfs4.ErrDenied)
	want(t, "LOCK of other bytes", q.lockStatus(c, q.withTell(&Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: 10, End: 10}})), nfs4.OK)
	q.advanceClock(testLease)
	q.checkNotified()
	want(t, "LOCK", q.lockStatus(b, q.withTell(machineLock(true))), nfs4.OK)
	want(t, "Release", q.Release(b, machineLock(true)), nfs4.OK)
	q.checkNotified("o") // c, which was first
}

// TestMachineEnds checks that nothing is left of Machines. One with running calls is removed after
// the last of them, and no call begins until then.
func TestMachineEnds(t *testing.T) {
	w := newTestState(t)
	a, b := w.enterTestMachine("a"), w.enterTestMachine("b")
	want(t, "LOCK", w.lockStatus(a, machineLock(true)), nfs4.OK)
	want(t, "SHARE", w.Share(b, &Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead, Deny: nfs4.ShareWrite}), nfs4.OK)
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
	want(t, "LOCK", w.lockStatus(again, machineLock(true)), nfs4.OK)
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

// TestKeyOf checks that an object is found by each filehandle for as long as anything of it is open by that filehandle.
func TestKeyOf(t *testing.T) {
	w := newTestState(t)
	m := w.enterTestMachine("m")
	key := func(handle string) string {
		key, _ := w.MachineKey(m, []byte(handle))
		return key
	}
	keys := func() []string { return []string{key("1"), key("2"), key("3"), key("4")} }
	share := &Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead}
	lock, other := machineLock(true), machineLock(true)
	other.Key, other.Handle = "g", []byte("4")
	for _, handle := range []string{"1", "2", "2"} {
		lock.Handle = []byte(handle)
		want(t, "LOCK", w.lockStatus(m, lock), nfs4.OK)
	}
	for _, handle := range []string{"2", "3"} {
		share.Handle = []byte(handle)
		want(t, "SHARE", w.Share(m, share), nfs4.OK)
	}
	want(t, "LOCK", w.lockStatus(m, other), nfs4.OK)
	assert.Equal(t, []string{"f", "f", "f", "g"}, keys())
	want(t, "Release", w.Release(m, lock), nfs4.OK)
	assert.Equal(t, []string{"", "f", "f", "g"}, keys())
	w.Unshare(m, share)
	assert.Equal(t, []string{"", "", "", "g"}, keys())
	want(t, "Release", w.Release(m, other), nfs4.OK)
	assert.Empty(t, m.client.namedObjects)
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
		want(t, "LOCK", w.lockStatus(a, asks()), nfs4.OK)
		want(t, "LOCK", w.lockStatus(b, asks()), nfs4.ErrDenied)
		asking.Go(func() { w.lockStatus(b, asks()) })
		want(t, "Release", w.Release(a, machineLock(true)), nfs4.OK)
		asking.Wait()
		want(t, "LOCK", w.lockStatus(b, asks()), nfs4.OK)
		want(t, "Release", w.Release(b, machineLock(true)), nfs4.OK)
	}
	host.hostObject("f").local[5] = locks.Exclusive
	for range 200 {
		want(t, "LOCK", w.lockStatus(b, asks()), nfs4.ErrDenied)
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
		return w.Share(m, &Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead, Deny: deny})
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
