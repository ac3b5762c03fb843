package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestStepsOfManySessions checks calls that visit the sessions and connections of clients which
// have as many as they may have.
func TestStepsOfManySessions(t *testing.T) {
	w := newTestState(t)
	const clients = 16
	for i := range clients {
		id, sequence, _ := w.mustExchange(exchangeArgs(fmt.Sprint(i), 1, 0))
		for n := range uint32(maxSessions) {
			s := w.mustCreateSession(createArgs(id, sequence+n, 0))
			for conn := range maxConns - 1 {
				if i > 0 {
					break
				}
				_, status := s.Bind(conn, nfs4.BindBoth)
				want(t, "BIND_CONN_TO_SESSION", status, nfs4.OK)
			}
			if n == 0 {
				want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
				w.mustOpen(s, "o", "f", nfs4.ShareRead, 0, nil)
			}
		}
	}
	other := w.newTestClient("other")
	w.checkSteps("lists", func() {
		w.Counts()
		list, all := w.Clients(100)
		want(t, "clients", all, clients+1)
		want(t, "connections", len(list[0].Sessions[0].Conns), maxConns)
	})
	w.checkSteps("TrimSlots", func() { w.TrimSlots(100) })
	w.advanceClock(testLease + 1)
	w.renewByCall(other)
	w.checkSteps("Sweep", w.Sweep)
	w.checkSteps("OPEN that denies", func() {
		want(t, "OPEN", w.openStatus(other, "o", "f", nfs4.ShareRead, nfs4.ShareRead), nfs4.OK)
	})
	want(t, "clients", len(w.clients), 1)
}

// TestStepsOfJournal checks calls that visit all records of the journal.
func TestStepsOfJournal(t *testing.T) {
	w := newRestartingState(t)
	for i := range 2 * maxSteps {
		w.mustOpen(w.newTestClient(fmt.Sprint(i)), "o", fmt.Sprint(i), nfs4.ShareRead, 0, nil)
	}
	w.checkSteps("replacement of the journal", func() { w.replaceJournal() })
	w.checkSteps("RECLAIM_COMPLETE", func() {
		id, sequence, _ := w.mustExchange(exchangeArgs("new", 1, 0))
		want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(w.mustCreateSession(createArgs(id, sequence, 0))), nfs4.OK)
	})
	w.checkSteps("StopRecording", w.StopRecording)
}

// TestStepsOfRevertedOpen checks an OPEN that fails after its client has locked very much through
// it.
func TestStepsOfRevertedOpen(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("a")
	trial := new(Trial)
	_, id, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: nfs4.ShareBoth, Trial: trial}, nil)
	want(t, "OPEN", status, nfs4.OK)
	for i := range uint64(manyEntries) {
		w.mustLock(s, newLock(id, "f", "l", true, 2*i, 2*i))
	}
	w.checkSteps("the end of the OPEN", func() { w.RevertTrial(trial) })
	want(t, "locks", s.client.locks, 0)
	want(t, "opens", len(s.client.opens), 0)
}

// TestStepsOfSearch checks the search for a file's opens.
func TestStepsOfSearch(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("a")
	for i := range manyEntries {
		w.mustOpen(s, fmt.Sprint(i), "f", nfs4.ShareRead, 0, nil)
	}
	w.checkSteps("the search", func() { w.EachOpen(nil, []byte("f"), func(*Open) bool { return true }) })
}

// TestStepsHoldGrants checks that bytes of a removed client with very many locks are granted only
// when the record of its end is stable, also if only some of the locks are released so far.
func TestStepsHoldGrants(t *testing.T) {
	for _, at := range []uint64{0, maxEntriesPerHold, 2 * (maxEntriesPerHold - 1)} {
		g := newRestartingState(t)
		s, other := g.newTestClient("a"), g.newTestClient("b")
		_, open := g.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
		for i := range uint64(maxEntriesPerHold) {
			g.mustLock(s, newLock(open, "f", "l", true, 2*i, 2*i))
		}
		_, open = g.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, nil)
		g.mustLock(other, newLock(open, "f", "l", true, 1, 1))
		g.advanceClock(testLease + 1)
		g.renewByCall(other)
		g.store.failing = true
		want(t, "LOCK before the record is stable", g.lockStatus(other, newLock(open, "f", "l", true, at, at)), nfs4.ErrDelay)
		g.store.failing = false
		g.advanceClock(retryEvery)
		want(t, "LOCK", g.lockStatus(other, newLock(open, "f", "l", true, at, at)), nfs4.OK)
	}
}
