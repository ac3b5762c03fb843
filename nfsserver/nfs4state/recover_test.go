package nfs4state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A fakeStore is an in-memory Journal. Only its records survive a crash.
type fakeStore struct {
	records [][]byte
	failing bool   // every write fails, and leaves the records as they were
	full    bool   // there is no space for a second file
	between func() // called before a Replace gets the records; may be nil
	torn    bool   // after an Append that failed
	writes  int
	hangs   chan struct{} // a write waits for the channel
}

var errShelf = errors.New("the shelf is full")

func (j *fakeStore) Append(records ...[]byte) error {
	if err := j.storeRecords(); err != nil || j.torn {
		j.torn = true
		return errShelf
	}
	j.records = append(j.records, records...)
	return nil
}

func (j *fakeStore) Replace(records func() [][]byte) error {
	if j.between != nil {
		j.between()
	}
	list := records()
	if err := j.storeRecords(); err != nil || j.full {
		return errShelf
	}
	j.records, j.torn = list, false
	return nil
}

func (j *fakeStore) storeRecords() error {
	j.writes++
	if j.hangs != nil {
		<-j.hangs
	}
	if j.failing {
		return errShelf
	}
	return nil
}

func (j *fakeStore) Size() int64 {
	n := 0
	for _, r := range j.records {
		n += len(r)
	}
	return int64(n)
}

// A restartingState is a server that crashes and restarts: each testState gets a
// Past.
type restartingState struct {
	*testState
	store      *fakeStore
	epoch      uint32
	storedErrs []error // errors passed to Config.Stored
}

func newRestartingState(t testing.TB) *restartingState {
	g := &restartingState{store: new(fakeStore), epoch: testEpoch}
	g.testState = newTestState(t)
	g.startState()
	return g
}

// startState starts a State.
func (g *restartingState) startState() {
	g.t.Helper()
	past, err := ReadPast(g.store.records)
	want(g.t, "error of ReadPast", err, nil)
	c := g.config
	c.Epoch, c.Journal, c.Past = g.epoch, g.store, past
	c.Stored = func(err error) { g.storedErrs = append(g.storedErrs, err) }
	g.State = New(c)
}

// crashState drops the State, and starts the next one.
func (g *restartingState) crashState() {
	g.t.Helper()
	g.epoch++
	g.startState()
}

// newArrival creates a client of uid 0 with one session, which may reclaim.
func (g *restartingState) newArrival(owner string) *Session {
	g.t.Helper()
	id, sequence, _ := g.mustExchange(exchangeArgs(owner, 1, 0))
	return g.mustCreateSession(createArgs(id, sequence, 0))
}

func (g *restartingState) completeReclaim(s *Session) {
	g.t.Helper()
	want(g.t, "RECLAIM_COMPLETE", g.ReclaimComplete(s), nfs4.OK)
}

// reclaimOpen sends OPEN with CLAIM_PREVIOUS.
func (g *restartingState) reclaimOpen(s *Session, key string, access, deny uint32) (nfs4.StateID, nfs4.Status) {
	_, id, status := g.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: key, Access: access, Deny: deny, Reclaim: true}, nil)
	return id, status
}

// lockFirstByte locks the first byte of an open file for an owner.
func (g *restartingState) lockFirstByte(s *Session, open nfs4.StateID, key string, reclaim bool) nfs4.Status {
	_, _, status := g.Lock(s, &Lock{
		StateID: open, New: true, Owner: []byte("l"), Key: key, Range: locks.Range{Start: 0, End: 0}, Exclusive: true, Reclaim: reclaim,
	})
	return status
}

// prepareClient creates a client with one open of f, with a deny mode or a lock if
// requested.
func (g *restartingState) prepareClient(owner, key string, deny uint32, locked bool) *Session {
	g.t.Helper()
	s := g.newTestClient(owner)
	_, id := g.mustOpen(s, "o", key, 3, deny, nil)
	if locked {
		want(g.t, "LOCK", g.lockFirstByte(s, id, key, false), nfs4.OK)
	}
	return s
}

// A client with a record reclaims its opens and locks after a restart, until
// RECLAIM_COMPLETE and not after it (R8881-18.16.3-17). Then there is no grace
// period (R8881-8.4.2.1-6).
func TestReclaim(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 2, true)
	for range 3 { // a crash within the grace period changes nothing
		g.crashState()
		want(t, "clients that may reclaim", g.Grace(), Grace{Clients: 1, Left: testLease + graceSlack, Deny: 1, Locks: 1})
		s := g.newArrival("c")
		want(t, "OPEN before RECLAIM_COMPLETE", g.openStatus(s, "o", "f", 1, 0), nfs4.ErrGrace)
		id, status := g.reclaimOpen(s, "f", 3, 2)
		want(t, "reclaim of an open", status, nfs4.OK)
		want(t, "LOCK before RECLAIM_COMPLETE", g.lockFirstByte(s, id, "f", false), nfs4.ErrGrace)
		want(t, "reclaim of a lock", g.lockFirstByte(s, id, "f", true), nfs4.OK)
	}
	s := g.Session(g.sessionOf("c"))
	g.completeReclaim(s)
	want(t, "grace", g.Grace(), Grace{})
	_, status := g.reclaimOpen(s, "g", 1, 0)
	want(t, "reclaim after RECLAIM_COMPLETE", status, nfs4.ErrNoGrace)
	want(t, "RECLAIM_COMPLETE again", g.ReclaimComplete(s), nfs4.ErrCompleteAlready)

	// The record has the reclaimed kinds of state, and nothing else.
	g.crashState()
	s = g.newArrival("c")
	_, status = g.reclaimOpen(s, "g", 1, 0)
	want(t, "reclaim of an open alone", status, nfs4.OK)
	g.completeReclaim(s)
	g.crashState()
	s = g.newArrival("c")
	id, status := g.reclaimOpen(s, "g", 1, 0)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.lockFirstByte(s, id, "g", true), nfs4.ErrOpenMode)
	id, _ = g.reclaimOpen(s, "h", 3, 0)
	want(t, "reclaim of a lock that the client did not have", g.lockFirstByte(s, id, "h", true), nfs4.ErrReclaimBad)
	_, status = g.reclaimOpen(s, "i", 3, 1)
	want(t, "reclaim of a deny mode that the client did not have", status, nfs4.ErrReclaimBad)
}

// sessionOf returns the only session of a client.
func (g *restartingState) sessionOf(owner string) nfs4.SessionID {
	return g.owners[ownerKey{TCP, owner}].confirmed.sessions[0].ID
}

// R8881-8.4.2.1-8: a client without a record reclaims nothing. It had no state, or
// uses the other transport, or was removed by an administrator or because of
// another client's request.
func TestNoReclaim(t *testing.T) {
	g := newRestartingState(t)
	g.newTestClient("idle")
	left := g.prepareClient("left", "f", 0, true)
	want(t, "DESTROY_SESSION", g.DestroySession(left.ID, nil), nfs4.OK)
	want(t, "DESTROY_CLIENTID", g.DestroyClientID(left.ClientID()), nfs4.ErrClientIDBusy)
	want(t, "Expire", g.Expire(left.ClientID()), nfs4.OK)
	want(t, "Expire of an unknown client", g.Expire(left.ClientID()), nfs4.ErrStaleClientID)
	g.prepareClient("silent", "g", 2, true)
	g.advanceClock(testLease + 1)
	g.prepareClient("greedy", "g", 0, true) // takes access that the silent client denies
	g.crashState()
	want(t, "clients that may reclaim", g.Grace().Clients, 1)
	for _, owner := range []string{"idle", "left", "silent", "never seen"} {
		_, status := g.reclaimOpen(g.newArrival(owner), "x", 1, 0)
		want(t, owner, status, nfs4.ErrNoGrace)
	}
	x := exchangeArgs("greedy", 1, 0)
	x.Transport = RDMA
	id, sequence, _ := g.mustExchange(x)
	_, status := g.reclaimOpen(g.mustCreateSession(createArgs(id, sequence, 0)), "g", 3, 0)
	want(t, "over the other transport", status, nfs4.ErrNoGrace)
	_, _, _, status = g.ExchangeID(exchangeArgs("greedy", 1, 1000))
	want(t, "EXCHANGE_ID of another user", status, nfs4.ErrClidInUse)
	_, status = g.reclaimOpen(g.newArrival("greedy"), "g", 3, 0)
	want(t, "the client with the record", status, nfs4.OK)
}

// R8881-8.4.2.1-2, R8881-8.4.2.1-4, R8881-8.4.2.1-7, R8881-18.11.3-3,
// R8881-18.16.3-16, R8881-18.51.3-5: calls that could conflict with a client that
// may still reclaim must wait, and no others. The grace period ends when no such
// client is left, and after the lease at the latest.
func TestGrace(t *testing.T) {
	for _, had := range []struct {
		name                          string
		deny                          uint32
		locked                        bool
		open, openDeny, lock, special nfs4.Status
	}{
		{"opens", 0, false, nfs4.OK, nfs4.ErrGrace, nfs4.OK, nfs4.OK},
		{"locks", 0, true, nfs4.OK, nfs4.ErrGrace, nfs4.ErrGrace, nfs4.OK},
		{"deny modes", 1, false, nfs4.ErrGrace, nfs4.ErrGrace, nfs4.OK, nfs4.ErrGrace},
	} {
		t.Run(had.name, func(t *testing.T) {
			for _, end := range []string{"time", "sweep", "administrator", "RECLAIM_COMPLETE", "new incarnation"} {
				g := newRestartingState(t)
				g.prepareClient("c", "f", had.deny, had.locked)
				g.prepareClient("d", "own", 0, false)
				g.crashState()
				d := g.newArrival("d")
				id, status := g.reclaimOpen(d, "own", 3, 0)
				want(t, "reclaim", status, nfs4.OK)
				g.completeReclaim(d)

				check := func(open, openDeny, lock, special nfs4.Status) {
					t.Helper()
					want(t, "OPEN", g.openStatus(d, "p", "f", 3, 0), open)
					want(t, "OPEN of another file", g.openStatus(d, "p", "other", 3, 0), open)
					want(t, "OPEN with a deny mode", g.openStatus(d, "p", "new", 3, 2), openDeny)
					want(t, "LOCK", g.lockFirstByte(d, id, "own", false), lock)
					_, status := g.TestLock(d, &Lock{Owner: []byte("m"), Key: "f", Range: locks.Range{Start: 0, End: 9}})
					want(t, "LOCKT", status, lock)
					want(t, "REMOVE", g.Denied("f", 2), special)
					use, status := g.BeginSpecial([]byte("f"), 2, false)
					use.End()
					want(t, "WRITE with a special stateid", status, special)
					_, status = g.Open(d, &id)
					want(t, "WRITE with an open", status, nfs4.OK)
				}
				check(had.open, had.openDeny, had.lock, had.special)
				switch end {
				case "time":
					g.advanceClock(testLease + graceSlack)
				case "sweep":
					g.advanceClock(testLease + graceSlack)
					g.renewByCall(d)
					g.Sweep()
				case "administrator":
					want(t, "EndGrace", g.EndGrace(), true)
				case "RECLAIM_COMPLETE":
					g.completeReclaim(g.newArrival("c"))
				case "new incarnation":
					c := g.newArrival("c")
					_, status := g.reclaimOpen(c, "f", 3, had.deny)
					want(t, "reclaim", status, nfs4.OK)
					xid, sequence, _ := g.mustExchange(exchangeArgs("c", 2, 0))
					g.mustCreateSession(createArgs(xid, sequence, 0))
				}
				g.renewByCall(d)
				check(nfs4.OK, nfs4.OK, nfs4.OK, nfs4.OK)
				_, status = g.reclaimOpen(g.newArrival("c"), "f", 1, 0)
				want(t, "late reclaim", status, nfs4.ErrNoGrace)
				g.crashState()
				_, status = g.reclaimOpen(g.newArrival("c"), "f", 1, 0)
				want(t, "late reclaim after another restart", status, nfs4.ErrNoGrace)
			}
		})
	}
}

// R8881-8.4.2.1-1: the grace period is as long as the lease that clients know,
// if that is longer than the new one.
func TestGraceLease(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 0, false)
	g.config.Lease = testLease / 4
	g.crashState()
	want(t, "time left", g.Grace().Left, testLease+graceSlack)
	g.completeReclaim(g.prepareAgain("c", "f"))
	g.crashState()
	want(t, "time left", g.Grace().Left, testLease/4+graceSlack)
}

func (g *restartingState) prepareAgain(owner, key string) *Session {
	g.t.Helper()
	s := g.newArrival(owner)
	_, status := g.reclaimOpen(s, key, 3, 0)
	want(g.t, "reclaim", status, nfs4.OK)
	return s
}

// R8881-8.4.3-4: a client that reclaims in time, and sends RECLAIM_COMPLETE after
// grace, keeps its state, over another restart too.
func TestLateComplete(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 2, false)
	g.crashState()
	s := g.newArrival("c")
	_, status := g.reclaimOpen(s, "f", 3, 2)
	want(t, "reclaim", status, nfs4.OK)
	g.advanceClock(testLease)
	g.renewByCall(s)
	g.advanceClock(graceSlack)
	want(t, "grace", g.Grace().Clients, 0)
	_, status = g.reclaimOpen(s, "g", 3, 0)
	want(t, "reclaim after grace", status, nfs4.ErrNoGrace)
	g.completeReclaim(s)
	want(t, "OPEN that conflicts", g.openStatus(g.newTestClient("d"), "o", "f", 2, 0), nfs4.ErrShareDenied)
	g.crashState()
	_, status = g.reclaimOpen(g.newArrival("c"), "f", 3, 2)
	want(t, "reclaim after another restart", status, nfs4.OK)
}

// R8881-8.4.3-3: the two edge conditions. In the first, a client loses its lock
// to another while it is disconnected, the server restarts, and the client
// reconnects first. In the second, the client misses a whole grace period.
func TestEdgeConditions(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("cut off", "f", 0, true)
	g.advanceClock(testLease + 1)
	other := g.prepareClient("other", "f", 0, true)
	want(t, "Expire", g.Expire(other.ClientID()), nfs4.OK) // its lock is gone too
	g.crashState()
	_, status := g.reclaimOpen(g.newArrival("cut off"), "f", 3, 0)
	want(t, "first edge condition", status, nfs4.ErrNoGrace)

	g = newRestartingState(t)
	g.prepareClient("cut off", "f", 0, true)
	g.crashState()
	g.advanceClock(testLease + graceSlack)
	other = g.prepareClient("other", "f", 0, true)
	want(t, "Expire", g.Expire(other.ClientID()), nfs4.OK)
	g.crashState()
	_, status = g.reclaimOpen(g.newArrival("cut off"), "f", 3, 0)
	want(t, "second edge condition", status, nfs4.ErrNoGrace)
}

// R8881-8.4.2.1.1-1, R8881-15.1.9.4-1, R8881-18.10.4-3: reclaims that conflict with another
// client's reclaim, because one of the two lies.
func TestReclaimConflict(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 0, true)
	g.prepareClient("d", "g", 2, true)
	g.crashState()
	c, d := g.newArrival("c"), g.newArrival("d")
	idC, status := g.reclaimOpen(c, "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.lockFirstByte(c, idC, "f", true), nfs4.OK)
	idD, status := g.reclaimOpen(d, "f", 3, 0)
	want(t, "reclaim of the other's file", status, nfs4.OK)
	want(t, "reclaim of the other's lock", g.lockFirstByte(d, idD, "f", true), nfs4.ErrReclaimConflict)
	_, status = g.reclaimOpen(d, "f", 3, 2)
	want(t, "reclaim of a deny mode", status, nfs4.ErrReclaimConflict)
}

// R8881-8.4.2.1-5: nothing is granted before a record is stored by which the
// client can reclaim it. One record covers all grants of its kind.
func TestAheadOfGrants(t *testing.T) {
	type grant = func(g *restartingState, s *Session) nfs4.Status
	open := func(key string, access, deny uint32) grant {
		return func(g *restartingState, s *Session) nfs4.Status { return g.openStatus(s, "o", key, access, deny) }
	}
	for _, c := range []struct {
		name   string
		before grant // succeeds
		grant  grant
		had    stateKinds
	}{
		{"MayOpen", nil, func(g *restartingState, s *Session) nfs4.Status { return g.MayOpen(s, &OpenFile{Access: 1}) }, 0},
		{"OPEN", nil, open("f", 3, 0), 0},
		{"first OPEN with a deny mode", open("f", 3, 0), open("g", 1, 2), hadDeny},
		{"first LOCK", open("f", 3, 0), func(g *restartingState, s *Session) nfs4.Status {
			for _, o := range s.client.opens {
				return g.lockFirstByte(s, o.StateID(), "f", false)
			}
			return nfs4.ErrServerFault
		}, hadLocks},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRestartingState(t)
			s := g.newTestClient("c")
			if c.before != nil {
				want(t, "grant before", c.before(g, s), nfs4.OK)
			}
			g.store.failing = true
			counts, records := g.Counts(), len(g.store.records)
			want(t, "grant without a record", c.grant(g, s), nfs4.ErrDelay)
			counts.Records, counts.Failing = 1, true
			want(t, "counts", g.Counts(), counts)
			want(t, "records", len(g.store.records), records)
			writes := g.store.writes
			want(t, "grant at once again", c.grant(g, s), nfs4.ErrDelay)
			want(t, "writes of a journal that fails", g.store.writes, writes)

			g.store.failing = false
			g.advanceClock(retryEvery)
			want(t, "grant", c.grant(g, s), nfs4.OK)
			past, err := ReadPast(g.store.records)
			want(t, "error", err, nil)
			r, ok := past.clients[ownerKey{TCP, "c"}]
			want(t, "record", ok, true)
			want(t, "kinds of state", r.kinds, c.had)
			want(t, "messages", len(g.storedErrs), 2)
			want(t, "first message", g.storedErrs[0], errShelf)
			want(t, "second message", g.storedErrs[1], nil)
			writes = g.store.writes
			want(t, "grant again", c.grant(g, s), nfs4.OK)
			want(t, "writes for state of a kind that is recorded", g.store.writes, writes)
		})
	}
}

// TestAheadOfOthers checks that a removed client's state is granted to no other
// client or host process before the removal is stored.
func TestAheadOfOthers(t *testing.T) {
	g := newRestartingState(t)
	other := g.prepareClient("other", "own", 0, true) // its record has all kinds that it needs
	h := newHost(t)
	locked := func() bool { return h.hostObject("f").server != hostKinds{} }
	c := g.newTestClient("c")
	_, id := g.mustOpen(c, "o", "f", 3, 0, nil)
	lock := func(s *Session, id nfs4.StateID) nfs4.Status {
		_, _, status := g.Lock(s, h.setOn(&Lock{
			StateID: id, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 9}, Exclusive: true,
		}))
		return status
	}
	want(t, "LOCK", lock(c, id), nfs4.OK)
	g.advanceClock(testLease + 1)
	g.renewByCall(other)
	_, idOther := g.mustOpen(other, "o", "f", 3, 0, nil)
	g.store.failing = true
	want(t, "LOCK in place of a silent client's", lock(other, idOther), nfs4.ErrDelay)
	g.WaitForHostLocks()
	want(t, "locks on the host", locked(), true)
	want(t, "OPEN of another file", g.openStatus(other, "o", "x", 1, 0), nfs4.OK)
	want(t, "OPEN of the file", g.openStatus(other, "o", "f", 1, 0), nfs4.ErrDelay)
	g.store.failing = false
	g.advanceClock(retryEvery)
	g.renewByCall(other)
	g.Sweep()
	g.WaitForHostLocks()
	want(t, "locks on the host", locked(), false)
	want(t, "LOCK", lock(other, idOther), nfs4.OK)
	g.crashState()
	_, status := g.reclaimOpen(g.newArrival("c"), "f", 3, 0)
	want(t, "reclaim of the removed client", status, nfs4.ErrNoGrace)
}

// R8881-8.4.3-4: a client of which some state was revoked reclaims nothing after a
// restart, unless it has freed all of that before, or has sent RECLAIM_COMPLETE since.
func TestRevokedNotReclaimed(t *testing.T) {
	for _, frees := range []bool{false, true} {
		g := newRestartingState(t)
		s := g.newTestClient("c")
		_, id := g.mustOpen(s, "o", "f", 3, 0, "gone")
		g.mustOpen(s, "o", "g", 3, 0, "stays")
		g.Revoke(func(file any) bool { return file == "gone" })
		if frees {
			want(t, "FREE_STATEID", g.FreeStateID(s, &id), nfs4.OK)
		}
		g.Sweep() // stores it
		g.crashState()
		s = g.newArrival("c")
		_, status := g.reclaimOpen(s, "g", 3, 0)
		want(t, "may reclaim", status == nfs4.OK, frees)
		g.completeReclaim(s)
		g.mustOpen(s, "o", "h", 3, 0, nil)
		g.crashState()
		_, status = g.reclaimOpen(g.newArrival("c"), "h", 3, 0)
		want(t, "reclaim after RECLAIM_COMPLETE and another restart", status, nfs4.OK)
	}

	// In the grace period: the client can continue to reclaim, but not after
	// another restart.
	g := newRestartingState(t)
	g.prepareClient("c", "f", 0, false)
	g.crashState()
	s := g.newArrival("c")
	_, _, status := g.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 1, Reclaim: true}, "gone")
	want(t, "reclaim", status, nfs4.OK)
	g.Revoke(func(file any) bool { return file == "gone" })
	_, status = g.reclaimOpen(s, "g", 1, 0)
	want(t, "reclaim of other state", status, nfs4.OK)
	g.Sweep()
	g.crashState()
	_, status = g.reclaimOpen(g.newArrival("c"), "g", 1, 0)
	want(t, "reclaim after another restart", status, nfs4.ErrNoGrace)
}

// TestRetire checks that a server that shuts down keeps all clients' rights to
// reclaim.
func TestRetire(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 2, true)
	g.StopRecording()
	g.Revoke(func(any) bool { return true })
	g.Sweep()
	g.crashState()
	s := g.newArrival("c")
	id, status := g.reclaimOpen(s, "f", 3, 2)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.lockFirstByte(s, id, "f", true), nfs4.OK)
}

// TestRetireBrokenJournal checks that a call which needs a record ends when the State has ended
// and could not write what it had to write before.
func TestRetireBrokenJournal(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 2, true)
	late := g.newTestClient("late")
	g.store.failing = true
	want(t, "OPEN", g.openStatus(late, "o", "g", 1, 0), nfs4.ErrDelay)
	g.StopRecording()
	answered := make(chan nfs4.Status)
	go func() { answered <- g.openStatus(late, "o", "g", 1, 0) }()
	select {
	case status := <-answered:
		want(t, "OPEN", status, nfs4.ErrDelay)
	case <-time.After(10 * time.Second):
		t.Fatal("the OPEN does not end")
	}
}

// TestRecordsFollowState checks that a client which holds nothing of a kind any more holds
// nobody up after a restart. Its record says so only after a while, so that a client that
// opens files now and then needs no write for that, or at the end of the State.
func TestRecordsFollowState(t *testing.T) {
	for name, retires := range map[string]bool{"after a while": false, "at the end": true} {
		t.Run(name, func(t *testing.T) {
			g := newRestartingState(t)
			idle, busy := g.newCallableClient("idle"), g.newCallableClient("busy")
			_, f := g.mustOpen(idle, "o", "f", 1, 0, nil)
			_, denies := g.mustOpen(busy, "o", "g", 3, 2, nil)
			want(t, "LOCK", g.lockFirstByte(busy, denies, "g", false), nfs4.OK)
			g.mustOpen(busy, "o", "h", 1, 0, nil)
			for key, s := range map[string]*Session{"f": idle, "h": busy} {
				id := g.mustDelegate(s, key, nil).StateID()
				want(t, "DELEGRETURN", g.ReturnDelegation(s, &id), nfs4.OK)
			}
			want(t, "CLOSE", g.Close(idle, &f), nfs4.OK)
			want(t, "CLOSE", g.Close(busy, &denies), nfs4.OK)
			before := g.Counts().Records
			if retires {
				g.StopRecording()
			} else {
				for range 3 {
					g.Sweep()
					g.advanceClock(testLease / 3)
				}
				writes := g.store.writes
				want(t, "records", before, 2)
				_, f = g.mustOpen(idle, "o", "f", 1, 0, nil)
				want(t, "CLOSE", g.Close(idle, &f), nfs4.OK)
				want(t, "writes", g.store.writes, writes)
				for range 6 {
					g.Sweep()
					g.advanceClock(testLease / 3)
				}
			}
			want(t, "records", g.Counts().Records, 1)
			g.crashState()
			grace := g.Grace()
			grace.Left = 0
			want(t, "grace", grace, Grace{Clients: 1})
			_, status := g.reclaimOpen(g.newArrival("busy"), "h", 1, 0)
			want(t, "reclaim", status, nfs4.OK)
			_, status = g.reclaimOpen(g.newArrival("idle"), "f", 1, 0)
			want(t, "reclaim of what was closed", status, nfs4.ErrNoGrace)
		})
	}
}

// TestBootFails checks a State whose journal cannot be written from the start:
// nothing is granted, and the grace period does not end, until it can.
func TestBootFails(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("c", "f", 0, true)
	g.store.failing = true
	g.crashState()
	s := g.newArrival("c")
	_, status := g.reclaimOpen(s, "f", 3, 0)
	want(t, "reclaim", status, nfs4.ErrDelay)
	want(t, "RECLAIM_COMPLETE of another", g.ReclaimComplete(g.newArrival("d")), nfs4.OK)
	g.advanceClock(10 * testLease)
	g.renewByCall(s)
	want(t, "RECLAIM_COMPLETE", g.ReclaimComplete(g.newArrival("e")), nfs4.OK)
	g.store.failing = false
	id, status := g.reclaimOpen(s, "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.lockFirstByte(s, id, "f", true), nfs4.OK)
	g.store.failing = true
	want(t, "RECLAIM_COMPLETE", g.ReclaimComplete(s), nfs4.ErrDelay)
	g.store.failing = false
	g.advanceClock(retryEvery)
	g.completeReclaim(s)
}

// TestLockBehindComplete checks that a lock of bytes that a client has not reclaimed waits until
// that client's RECLAIM_COMPLETE is on stable storage, also for a client whose own record does
// not change: after a crash the first client could otherwise reclaim these bytes.
//
// R8881-8.4.3-3.
func TestLockBehindComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRestartingState(t)
		g.prepareClient("a", "f", 0, true)
		g.prepareClient("b", "g", 0, true)
		g.crashState()
		a, b := g.newArrival("a"), g.newArrival("b")
		_, status := g.reclaimOpen(a, "f", 3, 0)
		want(t, "reclaim", status, nfs4.OK)
		id, status := g.reclaimOpen(b, "g", 3, 0)
		want(t, "reclaim", status, nfs4.OK)
		want(t, "reclaim of a lock", g.lockFirstByte(b, id, "g", true), nfs4.OK)
		g.completeReclaim(b)
		_, open := g.mustOpen(b, "o2", "f", 3, 0, nil)
		want(t, "LOCK while a client may reclaim", g.lockFirstByte(b, open, "f", false), nfs4.ErrGrace)

		g.store.hangs = make(chan struct{})
		complete, granted := make(chan nfs4.Status, 1), make(chan nfs4.Status, 1)
		go func() { complete <- g.ReclaimComplete(a) }()
		synctest.Wait()
		go func() { granted <- g.lockFirstByte(b, open, "f", false) }()
		synctest.Wait()
		want(t, "locks granted while the journal hangs", len(granted), 0)
		close(g.store.hangs)
		want(t, "RECLAIM_COMPLETE", <-complete, nfs4.OK)
		want(t, "LOCK", <-granted, nfs4.OK)
	})
}

// TestJournalHangs checks that no call waits without limit for a journal whose
// disk hangs, and that calls which need no record do not wait at all.
func TestJournalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRestartingState(t)
		known := g.prepareClient("known", "f", 2, true)
		g.store.hangs = make(chan struct{})
		s := g.newTestClient("new")
		begun := time.Now()
		want(t, "OPEN", g.openStatus(s, "o", "g", 1, 0), nfs4.ErrDelay)
		want(t, "OPEN once more", g.openStatus(s, "o", "g", 1, 0), nfs4.ErrDelay)
		want(t, "time for both", time.Since(begun), 2*journalTimeout)
		want(t, "OPEN of a client with a record", g.openStatus(known, "o", "h", 1, 2), nfs4.OK)
		want(t, "time", time.Since(begun), 2*journalTimeout)
		close(g.store.hangs)
		want(t, "OPEN in the end", g.openStatus(s, "o", "g", 1, 0), nfs4.OK)
		want(t, "writes", g.store.writes, 4) // the boot record, two for the first client, and one
		synctest.Wait()
		want(t, "freed objects", len(g.ledger.freedObjects), 0)
	})
}

// TestJournalWithoutRoom checks that new clients open files although a journal that has become
// long cannot be replaced, and that nothing is lost by the attempts.
func TestJournalWithoutRoom(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("first", "f", 0, false)
	g.store.full = true
	late, once := g.newTestClient("late"), sync.Once{}
	g.store.between = func() { // a record that the failing attempt takes from the queue
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.writeRecord(&late.client.holder)
		})
	}
	const clients = 20
	for i := range clients {
		for g.store.Size() < g.ledger.compactAt { // others come and go
			g.store.records = append(g.store.records, appendGone(nil, ownerKey{id: strings.Repeat("x", 1000)}))
		}
		g.prepareClient(fmt.Sprint("client", i), fmt.Sprint(i), 0, false)
	}
	want(t, "reported failures", len(g.storedErrs), 0)
	g.store.full, g.store.between = false, nil
	g.crashState()
	want(t, "clients that may reclaim", g.Grace().Clients, clients+2)
}

// TestJournalCompact checks that clients that come and go do not make the journal
// grow without limit.
func TestJournalCompact(t *testing.T) {
	g := newRestartingState(t)
	g.prepareClient("stays", "f", 2, false)
	long := strings.Repeat("n", 500)
	for i := range 2000 {
		s := g.prepareClient(fmt.Sprint(long, i), "g", 0, false)
		want(t, "Expire", g.Expire(s.ClientID()), nfs4.OK)
		if n := g.store.Size(); n > 2*minCompact {
			t.Fatalf("the journal has %d bytes", n)
		}
	}
	past, err := ReadPast(g.store.records)
	want(t, "error", err, nil)
	want(t, "clients", past.Clients(), 1)
	want(t, "epoch", past.Epoch, g.epoch)
}

// R8881-8.4.3-5: records of another form are refused, so that no client may
// reclaim.
func TestReadPast(t *testing.T) {
	r := record{principal: Principal{Flavor: 1, UID: 1000}, minor: 2, kinds: hadLocks}
	named := record{principal: Principal{Flavor: 6, Name: "nfs/a.example@R"}, minor: 1, kinds: hadDeny, revoked: true, sealed: true}
	hosted := record{principal: Principal{Flavor: 1}, host: Host{9}, minor: 1, kinds: hadReads}
	good := [][]byte{
		appendBoot(nil, 7, testLease), r.appendTo(nil, ownerKey{RDMA, "c"}), appendGone(nil, ownerKey{TCP, ""}),
		{overRecord},
		named.appendTo(nil, ownerKey{RDMA, "d"}),
		hosted.appendTo(nil, ownerKey{TCP, "e"}),
	}
	past, err := ReadPast(good)
	want(t, "error", err, nil)
	want(t, "epoch", past.Epoch, 7)
	want(t, "lease", past.lease, testLease)
	r.current, named.current, hosted.current = true, true, true
	want(t, "record of a client by mutual TLS", past.clients[ownerKey{TCP, "e"}], hosted)
	want(t, "record", past.clients[ownerKey{RDMA, "c"}], r)
	want(t, "record of a verified client", past.clients[ownerKey{RDMA, "d"}], named)
	for i, record := range good {
		for n := range record {
			if i == 1 && n >= clientLength || i == 2 && n >= goneLength || i >= 4 && n >= len(record)-1 {
				continue // a shorter name
			}
			_, err := ReadPast([][]byte{record[:n]})
			want(t, fmt.Sprint("error of record ", i, " cut to ", n), err != nil, true)
		}
	}
	for _, bad := range [][]byte{
		{},
		{0},
		{namedRecord},
		{namedRecord + 1},
		{namedRecord, 0, 1, 0, 0, 0, 0, 6, 0, 'c'},
		{overRecord, 0},
		append(slices.Clone(good[0]), 0),
		{goneRecord, 2},
		{clientRecord, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{clientRecord, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		_, err := ReadPast([][]byte{bad})
		want(t, fmt.Sprint("error of ", bad), err != nil, true)
	}
}

// R8881-21-6: after a restart the name of a client belongs to the principal that made
// the client, and to no other one without a user, such as another machine.
func TestRecordOfVerified(t *testing.T) {
	g := newRestartingState(t)
	by := func(name string) Principal { return Principal{Flavor: 6, Name: name} }
	arrive := func(name string) *Session {
		x := exchangeArgs("c", 1, 0)
		x.Principal = by(name)
		id, sequence, _ := g.mustExchange(x)
		c := createArgs(id, sequence, 0)
		c.Principal = x.Principal
		return g.mustCreateSession(c)
	}
	s := arrive("nfs/a@R")
	g.completeReclaim(s)
	g.mustOpen(s, "o", "f", 3, 0, nil)
	g.crashState()
	other := exchangeArgs("c", 2, 0)
	for _, p := range []Principal{by("nfs/b@R"), {Flavor: 6}, {Flavor: 1}} {
		other.Principal = p
		_, _, _, status := g.ExchangeID(other)
		want(t, fmt.Sprint("EXCHANGE_ID by ", p), status, nfs4.ErrClidInUse)
	}
	_, status := g.reclaimOpen(arrive("nfs/a@R"), "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
}

// R8881-2.4.3-3: after a restart, too, the name of a client with a machine credential
// belongs to calls whose arguments are protected. Those of the same machine that are
// only signed, as of its root in a mount with krb5, may have been changed on the way.
func TestRecordOfMachineCredential(t *testing.T) {
	g := newRestartingState(t)
	by := func(sealed bool) *Exchange {
		x := exchangeArgs("c", 1, 0)
		x.Principal, x.Sealed = Principal{Flavor: 6, Name: "host/a@R"}, sealed
		x.Protect.How = nfs4.ProtectMachCred
		return x
	}
	arrive := func() *Session {
		id, sequence, _ := g.mustExchange(by(true))
		c := createArgs(id, sequence, 0)
		c.Principal = by(true).Principal
		return g.mustCreateSession(c)
	}
	s := arrive()
	g.completeReclaim(s)
	g.mustOpen(s, "o", "f", 3, 0, nil)
	for range 2 {
		g.crashState()
		_, _, _, status := g.ExchangeID(by(false))
		want(t, "EXCHANGE_ID that is not sealed", status, nfs4.ErrClidInUse)
		plain := by(false)
		plain.Protect.How = nfs4.ProtectNone
		_, _, _, status = g.ExchangeID(plain)
		want(t, "EXCHANGE_ID without protection", status, nfs4.ErrClidInUse)
	}
	_, status := g.reclaimOpen(arrive(), "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
}

func FuzzReadPast(f *testing.F) {
	f.Add(appendBoot(nil, 7, time.Second), appendGone(nil, ownerKey{TCP, "c"}))
	f.Add((&record{kinds: hadDeny}).appendTo(nil, ownerKey{TCP, "c"}), []byte{overRecord})
	f.Add((&record{principal: Principal{Flavor: 6, Name: "a@R"}}).appendTo(nil, ownerKey{TCP, "c"}), []byte{overRecord})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		past, err := ReadPast([][]byte{a, b})
		if err == nil && past.Clients() > 2 {
			t.Error("too many clients")
		}
	})
}
