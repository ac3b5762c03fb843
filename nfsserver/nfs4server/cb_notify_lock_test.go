package nfs4server

import (
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// lockNotices are the CB_NOTIFY_LOCKs that a client gets.
func (b *fakeBackchannel) lockNotices() chan nfs4.CBNotifyLockArgs {
	told := make(chan nfs4.CBNotifyLockArgs, 16)
	b.notify = func(a nfs4.CBNotifyLockArgs) {
		a.Object, a.Owner.Owner = append(nfs4.FH(nil), a.Object...), append([]byte(nil), a.Owner.Owner...)
		told <- a
	}
	return told
}

// lockWaiting sends LOCK for the whole file by a new owner that is willing to wait.
func (g *testServer) lockWaiting(put step, open nfs4.StateID, kind nfs4.LockType, owner string) (nfs4.StateID, nfs4.Status) {
	g.t.Helper()
	var res nfs4.LockRes
	open.SeqID = 0
	st, _ := g.sendSteps(put, step{nfs4.OpLock, &nfs4.LockArgs{
		Type: kind, Length: 1<<64 - 1, New: true, StateID: open, Owner: nfs4.StateOwner{ClientID: 99, Owner: []byte(owner)},
	}, &res})
	return res.StateID, st
}

func (g *testServer) unlockAll(put step, id nfs4.StateID) {
	g.t.Helper()
	st, _ := g.sendSteps(put, step{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: id, Length: 1<<64 - 1}, new(nfs4.StateIDRes)})
	require.Equal(g.t, nfs4.OK, st)
}

// TestNotifyLock checks who is notified of a lock that has become free: only an owner that
// requested to wait, and whose client was told so at its OPEN (R8881-9.6-2, R8881-18.16.3-14),
// with the client's own names for itself and the file (R8881-20.11.3-1); and that the
// notification grants nothing.
func TestNotifyLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		told := back.lockNotices()
		opened, put := g.openFile("f", nfs4.ShareBoth, 0)
		assert.Equal(t, nfs4.OpenMayNotifyLock|nfs4.OpenLocktypePosix, opened.Flags)
		o, otherBack := g.newClientAt("other", "192.0.2.2:700")
		otherTold := otherBack.lockNotices()
		otherOpen, otherPut := o.openFile("f", nfs4.ShareBoth, 0)
		held, st := o.lockWaiting(otherPut, otherOpen.StateID, nfs4.LockWriteWait, "holder")
		require.Equal(t, nfs4.OK, st)
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockWrite, "impatient")
		assert.Equal(t, nfs4.ErrDenied, st)
		assert.False(t, g.s.state.HasLockWaiters())
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockReadWait, "first")
		assert.Equal(t, nfs4.ErrDenied, st)
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, "second")
		assert.Equal(t, nfs4.ErrDenied, st)
		synctest.Wait()
		assert.Empty(t, told)
		o.unlockAll(otherPut, held)
		a := <-told
		assert.Equal(t, "first", string(a.Owner.Owner))
		assert.Equal(t, g.s.state.Session(g.session).ClientID(), a.Owner.ClientID)
		assert.Equal(t, put.args.(*nfs4.HandleArgs).Object, a.Object)
		held, st = o.lockWaiting(otherPut, otherOpen.StateID, nfs4.LockWriteWait, "holder")
		assert.Equal(t, nfs4.OK, st, "the notice keeps no bytes")
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockReadWait, "first")
		assert.Equal(t, nfs4.ErrDenied, st)
		o.unlockAll(otherPut, held)
		assert.Equal(t, "first", string((<-told).Owner.Owner))

		// The first has a quarter of the lease to come, and then the second is notified.
		time.Sleep(recallLease/4 - 2*time.Second)
		assert.Empty(t, told)
		assert.Equal(t, "second", string((<-told).Owner.Owner))
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, "second")
		assert.Equal(t, nfs4.OK, st)
		time.Sleep(recallLease)
		assert.Empty(t, told)
		assert.Empty(t, otherTold)
		assert.False(t, g.s.pollsLocks.Load(), "no client waits")
	})
}

// A fakeHeldFile is a file that a host process has locked.
type fakeHeldFile struct{ held atomic.Bool }

func (f *fakeHeldFile) SetLock(locks.Range, locks.Kind) nfs4.Status {
	if f.held.Load() {
		return nfs4.ErrDenied
	}
	return nfs4.OK
}

func (f *fakeHeldFile) TestLock(r locks.Range, _ locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	if f.held.Load() {
		return r, locks.Exclusive, nfs4.OK
	}
	return r, locks.None, nfs4.OK
}

func (f *fakeHeldFile) Close() {}

// TestPollForMachines checks that a server without any version of NFSv4 still polls for the locks
// that NFSv3 clients wait for, only while one waits, and not after Close.
func TestPollForMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		state := nfs4state.New(WithFiles(nfs4state.Config{Now: func() time.Duration { return time.Since(start) }, Lease: recallLease}))
		s := New(Config{Exports: newTestServer(t).s.exports, State: state, Lease: recallLease, Minors: []uint32{}})
		machine, st := state.EnterMachine(nfs4state.Machine{Name: "m", Addr: netip.MustParseAddr("192.0.2.1")}, fairshare.Name{})
		require.Equal(t, nfs4.OK, st)
		var file fakeHeldFile
		told := make(chan time.Time, 1)
		lock := func() nfs4.Status {
			_, st := machine.Lock(&nfs4state.Lock{
				Owner: []byte("o"), Key: "f", Range: locks.Range{End: 9}, Exclusive: true, Storage: "host",
				Host: func() (nfs4state.HostLocks, nfs4.Status) { return &file, nfs4.OK },
				Tell: func(*nfs4state.Waiting) { told <- time.Now() },
			})
			return st
		}
		for range 2 { // also after an earlier loop has ended
			file.held.Store(true)
			require.Equal(t, nfs4.ErrDenied, lock())
			time.Sleep(5*lockPollInterval + lockPollInterval/2)
			assert.Empty(t, told)
			file.held.Store(false)
			assert.WithinDuration(t, time.Now(), <-told, lockPollInterval)
			assert.Equal(t, nfs4.OK, lock())
			time.Sleep(2 * lockPollInterval)
			assert.False(t, s.pollsLocks.Load(), "no owner waits")
			require.Equal(t, nfs4.OK, machine.Unlock(&nfs4state.Lock{Owner: []byte("o"), Key: "f", Range: locks.Range{End: 9}}))
		}
		file.held.Store(true)
		require.Equal(t, nfs4.ErrDenied, lock())
		machine.Leave()
		s.Close()
		assert.Empty(t, told)
	})
}

// TestNoticeAgain checks that a notice that was lost is sent again while its owner may
// come.
func TestNoticeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		told := back.lockNotices()
		var lost atomic.Bool
		back.answer = func(int) (nfs4.Status, nfs4.Status, error) {
			if lost.CompareAndSwap(false, true) {
				return nfs4.OK, nfs4.OK, syscall.EPIPE
			}
			return nfs4.OK, nfs4.OK, nil
		}
		opened, put := g.openFile("f", nfs4.ShareBoth, 0)
		held, st := g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, "holder")
		require.Equal(t, nfs4.OK, st)
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, "waiter")
		require.Equal(t, nfs4.ErrDenied, st)
		g.unlockAll(put, held)
		assert.Equal(t, "waiter", string((<-told).Owner.Owner))
		assert.Equal(t, "waiter", string((<-told).Owner.Owner))
		time.Sleep(recallLease)
		assert.Empty(t, told)
	})
}

// TestNoticesAndRecalls checks that notifications to a client that does not reply delay none of
// its recalls, and are dropped.
func TestNoticesAndRecalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		g.makeFileStep("delegated")
		d, _ := g.openDelegated("delegated")
		hung, recalled := make(chan struct{}), make(chan nfs4.StateID, 1)
		var asked atomic.Int32
		back.notify = func(nfs4.CBNotifyLockArgs) { asked.Add(1); <-hung }
		back.recalled = func(a *nfs4.CBRecallArgs, _ nfs4.CBSequenceArgs) { recalled <- a.StateID }
		opened, put := g.openFile("f", nfs4.ShareBoth, 0)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		otherOpen, otherPut := o.openFile("f", nfs4.ShareBoth, 0)
		held, st := o.lockWaiting(otherPut, otherOpen.StateID, nfs4.LockWriteWait, "holder")
		require.Equal(t, nfs4.OK, st)
		for i := range 20 {
			_, st = g.lockWaiting(put, opened.StateID, nfs4.LockReadWait, string(rune('a'+i)))
			require.Equal(t, nfs4.ErrDenied, st)
		}
		o.unlockAll(otherPut, held)
		synctest.Wait()
		assert.EqualValues(t, maxHintWorkers, asked.Load())
		g.s.exports.Holders().RecallAll()
		synctest.Wait()
		assert.Equal(t, d.StateID.Other, (<-recalled).Other)
		close(hung)
		time.Sleep(recallLease)
		assert.False(t, g.s.state.HasLockWaiters())
	})
}
