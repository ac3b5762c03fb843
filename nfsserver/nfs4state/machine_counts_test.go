package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestMachineCounts checks that the counts are right after any calls of Machines, whatever ends their
// state in between, and that nothing is left when all have ended.
func TestMachineCounts(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newTestState(t)
		addr := netip.MustParseAddr("192.0.2.1")
		var turns []*Waiting
		for range 300 {
			m, status := w.EnterMachine(Machine{Addr: addr, Name: fmt.Sprint(r.IntN(3))}, fairshare.Name{})
			want(t, "EnterMachine", status, nfs4.OK)
			start := r.Uint64N(8)
			a := &Lock{
				Owner: []byte{byte(r.IntN(2))}, Key: fmt.Sprint("f", r.IntN(2)), Range: locks.Range{Start: start, End: start + r.Uint64N(8)},
				Exclusive: r.IntN(2) == 0, Handle: []byte{byte(r.IntN(3))}, Mark: r.IntN(2), Tell: func(w *Waiting) { turns = append(turns, w) },
			}
			a.Handle = append(a.Handle, a.Key...)
			share := &Share{Owner: a.Owner, Key: a.Key, Access: nfs4.ShareRead, Deny: uint32(r.IntN(2)), Handle: a.Handle, Mark: a.Mark}
			switch r.IntN(14) {
			case 0, 1, 2, 3, 4:
				m.Lock(a)
			case 5, 6:
				m.Unlock(a)
			case 7:
				m.Share(share)
			case 8:
				m.Unshare(share)
			case 9:
				m.StopWaiting(a)
			case 10:
				w.Revoke(func(mark any) bool { return mark == a.Mark })
			case 11:
				w.StopWaitingAt(addr, netip.Addr{})
			case 12:
				w.EndMachines(addr, func(name string, _ bool, _ int32) bool { return name == m.Name })
			case 13:
				w.advanceClock(testLease)
				w.Sweep()
				w.PollLocks()
			}
			m.Leave()
			w.lockInTurn(r, &turns)
			w.checkLockCounts()
		}
		w.EndMachines(addr, func(string, bool, int32) bool { return true })
		w.checkEmpty()
		want(t, "owners that wait", len(w.waitingFiles)+len(w.lockWaiters)+len(w.endingHolders), 0)
	}
}

// lockInTurn locks the bytes for the owners that were notified, and reverts some of these locks.
func (w *testState) lockInTurn(r *rand.Rand, turns *[]*Waiting) {
	for len(*turns) > 0 {
		x := (*turns)[0]
		*turns = (*turns)[1:]
		m := x.holder.machine
		if !m.Enter() {
			continue
		}
		a := x.lock
		a.Owner, a.For = []byte(x.name), x
		if m.lockStatus(&a) == nfs4.OK && r.IntN(2) == 0 {
			m.RevertLock(&a)
		}
		m.Leave()
	}
}
