package nfs4state

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// machine begins a call of a Machine, which lasts until the end of the test.
func (w *world) machine(name string) *Session {
	w.t.Helper()
	s, status := w.EnterMachine(Machine{Addr: netip.MustParseAddr("192.0.2.1"), Name: name}, fairshare.Name{})
	want(w.t, "status", status, nfs4.OK)
	return s
}

func machineLock(exclusive bool) *Lock {
	return &Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: 0, End: 9}, Exclusive: exclusive}
}

// TestTurnOfMachine checks that the bytes are kept for a Machine whose turn it is, from others that are willing to
// wait: it is granted the lock without asking again.
func TestTurnOfMachine(t *testing.T) {
	q := newQueue(t)
	a, b, c := q.machine("a"), q.machine("b"), q.machine("c")
	four, id := q.opens("four")
	want(t, "LOCK", q.lockStatus(a, machineLock(true)), nfs4.OK)
	want(t, "LOCK", q.lockStatus(b, q.willing(machineLock(true))), nfs4.ErrDenied)
	want(t, "Release", q.Release(a, machineLock(true)), nfs4.OK)
	q.tells("o")
	want(t, "LOCK of a Machine", q.lockStatus(c, q.willing(machineLock(false))), nfs4.ErrDenied)
	want(t, "LOCK of version 4", q.lockStatus(four, q.willing(newLock(id, "f", "v4", true, 5, 5))), nfs4.ErrDenied)
	want(t, "LOCK of other bytes", q.lockStatus(c, q.willing(&Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{Start: 10, End: 10}})), nfs4.OK)
	q.sleep(testLease)
	q.tells()
	want(t, "LOCK", q.lockStatus(b, q.willing(machineLock(true))), nfs4.OK)
	want(t, "Release", q.Release(b, machineLock(true)), nfs4.OK)
	q.tells("o") // c, which was first
}

// TestMachineEnds checks that nothing is left of Machines.
func TestMachineEnds(t *testing.T) {
	w := newWorld(t)
	a, b := w.machine("a"), w.machine("b")
	want(t, "LOCK", w.lockStatus(a, machineLock(true)), nfs4.OK)
	want(t, "SHARE", w.Share(b, &Share{Owner: []byte("o"), Key: "f", Access: nfs4.ShareRead, Deny: nfs4.ShareWrite}), nfs4.OK)
	all := func(string) bool { return true }
	want(t, "EndMachines while a call runs", w.EndMachines(netip.MustParseAddr("192.0.2.1"), all), false)
	a.Leave()
	b.Leave()
	want(t, "EndMachines", w.EndMachines(netip.MustParseAddr("192.0.2.1"), all), true)
	want(t, "Enter", a.Enter(), false)
	w.empty()
}
