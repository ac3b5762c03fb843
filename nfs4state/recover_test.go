package nfs4state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A shelf is a Journal in memory. Its records alone outlive a crash.
type shelf struct {
	records [][]byte
	failing bool // every write fails, and leaves the records as they were
	torn    bool // of an Append that failed
	writes  int
	hangs   chan struct{} // a write waits for the channel
}

var errShelf = errors.New("the shelf is full")

func (j *shelf) Append(records ...[]byte) error {
	if err := j.write(); err != nil || j.torn {
		j.torn = true
		return errShelf
	}
	j.records = append(j.records, records...)
	return nil
}

func (j *shelf) Replace(records func() [][]byte) error {
	list := records()
	if err := j.write(); err != nil {
		return err
	}
	j.records, j.torn = list, false
	return nil
}

func (j *shelf) write() error {
	j.writes++
	if j.hangs != nil {
		<-j.hangs
	}
	if j.failing {
		return errShelf
	}
	return nil
}

func (j *shelf) Size() int64 {
	n := 0
	for _, r := range j.records {
		n += len(r)
	}
	return int64(n)
}

// A saga is a server that crashes and starts again: each world has a Past.
type saga struct {
	*world
	shelf *shelf
	epoch uint32
	told  []error // by Config.Stored
}

func newSaga(t testing.TB) *saga {
	g := &saga{shelf: new(shelf), epoch: testEpoch}
	g.world = newWorld(t)
	g.begin()
	return g
}

// begin starts a State in the world.
func (g *saga) begin() {
	g.t.Helper()
	past, err := ReadPast(g.shelf.records)
	want(g.t, "error of ReadPast", err, nil)
	c := g.config
	c.Epoch, c.Journal, c.Past = g.epoch, g.shelf, past
	c.Stored = func(err error) { g.told = append(g.told, err) }
	g.State = New(c)
}

// crash ends the State, and starts the next one.
func (g *saga) crash() {
	g.t.Helper()
	g.epoch++
	g.begin()
}

// arrive makes a client of uid 0 with one session, which may reclaim.
func (g *saga) arrive(owner string) *Session {
	g.t.Helper()
	id, sequence, _ := g.exchange(exchange(owner, 1, 0))
	return g.create(create(id, sequence, 0))
}

func (g *saga) complete(s *Session) {
	g.t.Helper()
	want(g.t, "RECLAIM_COMPLETE", g.ReclaimComplete(s), nfs4.OK)
}

// reclaim is OPEN with CLAIM_PREVIOUS.
func (g *saga) reclaim(s *Session, key string, access, deny uint32) (nfs4.StateID, nfs4.Status) {
	_, id, status := g.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: key, Access: access, Deny: deny, Reclaim: true}, nil)
	return id, status
}

// hold locks the first byte of an open file for an owner.
func (g *saga) hold(s *Session, open nfs4.StateID, key string, reclaim bool) nfs4.Status {
	_, _, status := g.Lock(s, &Lock{
		StateID: open, New: true, Owner: []byte("l"), Key: key, Range: locks.Range{Start: 0, End: 0}, Exclusive: true, Reclaim: reclaim,
	})
	return status
}

// prepare makes a client with one open of f, with a deny mode or a lock if asked.
func (g *saga) prepare(owner, key string, deny uint32, locked bool) *Session {
	g.t.Helper()
	s := g.client(owner)
	_, id := g.open(s, "o", key, 3, deny, nil)
	if locked {
		want(g.t, "LOCK", g.hold(s, id, key, false), nfs4.OK)
	}
	return s
}

// A client with a record reclaims its opens and locks after a restart, until
// RECLAIM_COMPLETE and not after it (R8881-18.16.3-17). Then there is no grace
// (R8881-8.4.2.1-6).
func TestReclaim(t *testing.T) {
	g := newSaga(t)
	g.prepare("c", "f", 2, true)
	for range 3 { // a crash within grace changes nothing
		g.crash()
		want(t, "clients that may reclaim", g.Grace(), Grace{Clients: 1, Left: testLease + graceSlack, Deny: 1, Locks: 1})
		s := g.arrive("c")
		want(t, "OPEN before RECLAIM_COMPLETE", g.openStatus(s, "o", "f", 1, 0), nfs4.ErrGrace)
		id, status := g.reclaim(s, "f", 3, 2)
		want(t, "reclaim of an open", status, nfs4.OK)
		want(t, "LOCK before RECLAIM_COMPLETE", g.hold(s, id, "f", false), nfs4.ErrGrace)
		want(t, "reclaim of a lock", g.hold(s, id, "f", true), nfs4.OK)
	}
	s := g.Session(g.sessionOf("c"))
	g.complete(s)
	want(t, "grace", g.Grace(), Grace{})
	_, status := g.reclaim(s, "g", 1, 0)
	want(t, "reclaim after RECLAIM_COMPLETE", status, nfs4.ErrNoGrace)
	want(t, "RECLAIM_COMPLETE again", g.ReclaimComplete(s), nfs4.ErrCompleteAlready)

	// The record has the reclaimed kinds of state, and nothing else.
	g.crash()
	s = g.arrive("c")
	_, status = g.reclaim(s, "g", 1, 0)
	want(t, "reclaim of an open alone", status, nfs4.OK)
	g.complete(s)
	g.crash()
	s = g.arrive("c")
	id, status := g.reclaim(s, "g", 1, 0)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.hold(s, id, "g", true), nfs4.ErrOpenMode)
	id, _ = g.reclaim(s, "h", 3, 0)
	want(t, "reclaim of a lock that the client did not have", g.hold(s, id, "h", true), nfs4.ErrReclaimBad)
	_, status = g.reclaim(s, "i", 3, 1)
	want(t, "reclaim of a deny mode that the client did not have", status, nfs4.ErrReclaimBad)
}

// sessionOf returns the only session of a client.
func (g *saga) sessionOf(owner string) nfs4.SessionID {
	return g.owners[ownerKey{TCP, owner}].confirmed.sessions[0].ID
}

// R8881-8.4.2.1-8: a client without a record reclaims nothing. It held nothing, or
// comes over the other transport, or an administrator has ended it, or another
// client's request.
func TestNoReclaim(t *testing.T) {
	g := newSaga(t)
	g.client("idle")
	left := g.prepare("left", "f", 0, true)
	want(t, "DESTROY_SESSION", g.DestroySession(left.ID, nil), nfs4.OK)
	want(t, "DESTROY_CLIENTID", g.DestroyClientID(left.ClientID()), nfs4.ErrClientIDBusy)
	want(t, "Expire", g.Expire(left.ClientID()), nfs4.OK)
	want(t, "Expire of nobody", g.Expire(left.ClientID()), nfs4.ErrStaleClientID)
	g.prepare("silent", "g", 2, true)
	g.sleep(testLease + 1)
	g.prepare("greedy", "g", 0, true) // takes access that the silent client denies
	g.crash()
	want(t, "clients that may reclaim", g.Grace().Clients, 1)
	for _, owner := range []string{"idle", "left", "silent", "never seen"} {
		_, status := g.reclaim(g.arrive(owner), "x", 1, 0)
		want(t, owner, status, nfs4.ErrNoGrace)
	}
	x := exchange("greedy", 1, 0)
	x.Transport = RDMA
	id, sequence, _ := g.exchange(x)
	_, status := g.reclaim(g.create(create(id, sequence, 0)), "g", 3, 0)
	want(t, "over the other transport", status, nfs4.ErrNoGrace)
	_, _, _, status = g.ExchangeID(exchange("greedy", 1, 1000))
	want(t, "EXCHANGE_ID of another user", status, nfs4.ErrClidInUse)
	_, status = g.reclaim(g.arrive("greedy"), "g", 3, 0)
	want(t, "the client with the record", status, nfs4.OK)
}

// R8881-8.4.2.1-2, R8881-8.4.2.1-4, R8881-8.4.2.1-7, R8881-18.11.3-3,
// R8881-18.16.3-16, R8881-18.51.3-5: calls that
// could be in the way of a client that may still reclaim must wait, and no others.
// Grace ends when no such client is left, and after the lease at the latest.
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
				g := newSaga(t)
				g.prepare("c", "f", had.deny, had.locked)
				g.prepare("d", "own", 0, false)
				g.crash()
				d := g.arrive("d")
				id, status := g.reclaim(d, "own", 3, 0)
				want(t, "reclaim", status, nfs4.OK)
				g.complete(d)

				check := func(open, openDeny, lock, special nfs4.Status) {
					t.Helper()
					want(t, "OPEN", g.openStatus(d, "p", "f", 3, 0), open)
					want(t, "OPEN of another file", g.openStatus(d, "p", "other", 3, 0), open)
					want(t, "OPEN with a deny mode", g.openStatus(d, "p", "new", 3, 2), openDeny)
					want(t, "LOCK", g.hold(d, id, "own", false), lock)
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
					g.sleep(testLease + graceSlack)
				case "sweep":
					g.sleep(testLease + graceSlack)
					g.call(d)
					g.Sweep()
				case "administrator":
					want(t, "EndGrace", g.EndGrace(), true)
				case "RECLAIM_COMPLETE":
					g.complete(g.arrive("c"))
				case "new incarnation":
					c := g.arrive("c")
					_, status := g.reclaim(c, "f", 3, had.deny)
					want(t, "reclaim", status, nfs4.OK)
					xid, sequence, _ := g.exchange(exchange("c", 2, 0))
					g.create(create(xid, sequence, 0))
				}
				g.call(d)
				check(nfs4.OK, nfs4.OK, nfs4.OK, nfs4.OK)
				_, status = g.reclaim(g.arrive("c"), "f", 1, 0)
				want(t, "late reclaim", status, nfs4.ErrNoGrace)
				g.crash()
				_, status = g.reclaim(g.arrive("c"), "f", 1, 0)
				want(t, "late reclaim after another restart", status, nfs4.ErrNoGrace)
			}
		})
	}
}

// R8881-8.4.2.1-1: grace is as long as the lease that clients know, if that is
// longer than the new one.
func TestGraceLease(t *testing.T) {
	g := newSaga(t)
	g.prepare("c", "f", 0, false)
	g.config.Lease = testLease / 4
	g.crash()
	want(t, "time left", g.Grace().Left, testLease+graceSlack)
	g.complete(g.prepareAgain("c", "f"))
	g.crash()
	want(t, "time left", g.Grace().Left, testLease/4+graceSlack)
}

func (g *saga) prepareAgain(owner, key string) *Session {
	g.t.Helper()
	s := g.arrive(owner)
	_, status := g.reclaim(s, key, 3, 0)
	want(g.t, "reclaim", status, nfs4.OK)
	return s
}

// R8881-8.4.3-4: a client that reclaims in time, and sends RECLAIM_COMPLETE after
// grace, keeps its state, over another restart too.
func TestLateComplete(t *testing.T) {
	g := newSaga(t)
	g.prepare("c", "f", 2, false)
	g.crash()
	s := g.arrive("c")
	_, status := g.reclaim(s, "f", 3, 2)
	want(t, "reclaim", status, nfs4.OK)
	g.sleep(testLease)
	g.call(s)
	g.sleep(graceSlack)
	want(t, "grace", g.Grace().Clients, 0)
	_, status = g.reclaim(s, "g", 3, 0)
	want(t, "reclaim after grace", status, nfs4.ErrNoGrace)
	g.complete(s)
	want(t, "OPEN that conflicts", g.openStatus(g.client("d"), "o", "f", 2, 0), nfs4.ErrShareDenied)
	g.crash()
	_, status = g.reclaim(g.arrive("c"), "f", 3, 2)
	want(t, "reclaim after another restart", status, nfs4.OK)
}

// R8881-8.4.3-3: the two edge conditions. In the first, a client
// loses its lock to another while it is cut off, the server restarts, and the
// client comes back first. In the second, the client misses a whole grace.
func TestEdgeConditions(t *testing.T) {
	g := newSaga(t)
	g.prepare("cut off", "f", 0, true)
	g.sleep(testLease + 1)
	other := g.prepare("other", "f", 0, true)
	want(t, "Expire", g.Expire(other.ClientID()), nfs4.OK) // its lock is gone too
	g.crash()
	_, status := g.reclaim(g.arrive("cut off"), "f", 3, 0)
	want(t, "first edge condition", status, nfs4.ErrNoGrace)

	g = newSaga(t)
	g.prepare("cut off", "f", 0, true)
	g.crash()
	g.sleep(testLease + graceSlack)
	other = g.prepare("other", "f", 0, true)
	want(t, "Expire", g.Expire(other.ClientID()), nfs4.OK)
	g.crash()
	_, status = g.reclaim(g.arrive("cut off"), "f", 3, 0)
	want(t, "second edge condition", status, nfs4.ErrNoGrace)
}

// R8881-8.4.2.1.1-1, R8881-15.1.9.4-1, R8881-18.10.4-3: reclaims that another client's reclaim is in the way of,
// because one of the two lies.
func TestReclaimConflict(t *testing.T) {
	g := newSaga(t)
	g.prepare("c", "f", 0, true)
	g.prepare("d", "g", 2, true)
	g.crash()
	c, d := g.arrive("c"), g.arrive("d")
	idC, status := g.reclaim(c, "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.hold(c, idC, "f", true), nfs4.OK)
	idD, status := g.reclaim(d, "f", 3, 0)
	want(t, "reclaim of the other's file", status, nfs4.OK)
	want(t, "reclaim of the other's lock", g.hold(d, idD, "f", true), nfs4.ErrReclaimConflict)
	_, status = g.reclaim(d, "f", 3, 2)
	want(t, "reclaim of a deny mode", status, nfs4.ErrReclaimConflict)
}

// R8881-8.4.2.1-5: nothing is granted before a record is stored by which the
// client can reclaim it. One record does for all grants of its kind.
func TestAheadOfGrants(t *testing.T) {
	type grant = func(g *saga, s *Session) nfs4.Status
	open := func(key string, access, deny uint32) grant {
		return func(g *saga, s *Session) nfs4.Status { return g.openStatus(s, "o", key, access, deny) }
	}
	for _, c := range []struct {
		name   string
		before grant // succeeds
		grant  grant
		had    kinds
	}{
		{"MayOpen", nil, func(g *saga, s *Session) nfs4.Status { return g.MayOpen(s, &OpenFile{Access: 1}) }, 0},
		{"OPEN", nil, open("f", 3, 0), 0},
		{"first OPEN with a deny mode", open("f", 3, 0), open("g", 1, 2), hadDeny},
		{"first LOCK", open("f", 3, 0), func(g *saga, s *Session) nfs4.Status {
			for _, o := range s.client.opens {
				return g.hold(s, o.StateID(), "f", false)
			}
			return nfs4.ErrServerFault
		}, hadLocks},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newSaga(t)
			s := g.client("c")
			if c.before != nil {
				want(t, "grant before", c.before(g, s), nfs4.OK)
			}
			g.shelf.failing = true
			counts, records := g.Counts(), len(g.shelf.records)
			want(t, "grant without a record", c.grant(g, s), nfs4.ErrDelay)
			counts.Records, counts.Failing = 1, true
			want(t, "counts", g.Counts(), counts)
			want(t, "records", len(g.shelf.records), records)
			writes := g.shelf.writes
			want(t, "grant at once again", c.grant(g, s), nfs4.ErrDelay)
			want(t, "writes of a journal that fails", g.shelf.writes, writes)

			g.shelf.failing = false
			g.sleep(retryEvery)
			want(t, "grant", c.grant(g, s), nfs4.OK)
			past, err := ReadPast(g.shelf.records)
			want(t, "error", err, nil)
			r, ok := past.clients[ownerKey{TCP, "c"}]
			want(t, "record", ok, true)
			want(t, "kinds of state", r.had, c.had)
			want(t, "messages", len(g.told), 2)
			want(t, "first message", g.told[0], errShelf)
			want(t, "second message", g.told[1], nil)
			writes = g.shelf.writes
			want(t, "grant again", c.grant(g, s), nfs4.OK)
			want(t, "writes for state of a kind that is recorded", g.shelf.writes, writes)
		})
	}
}

// TestAheadOfOthers checks that the state of a client that has ended goes to no
// other client, nor to a process of the host, before that is stored.
func TestAheadOfOthers(t *testing.T) {
	g := newSaga(t)
	other := g.prepare("other", "own", 0, true) // its record has all kinds that it needs
	h := newHost(t)
	locked := func() bool { return h.object("f").server != hostKinds{} }
	c := g.client("c")
	_, id := g.open(c, "o", "f", 3, 0, nil)
	lock := func(s *Session, id nfs4.StateID) nfs4.Status {
		_, _, status := g.Lock(s, h.on(&Lock{
			StateID: id, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 9}, Exclusive: true,
		}))
		return status
	}
	want(t, "LOCK", lock(c, id), nfs4.OK)
	g.sleep(testLease + 1)
	g.call(other)
	_, idOther := g.open(other, "o", "f", 3, 0, nil)
	g.shelf.failing = true
	want(t, "LOCK in place of a silent client's", lock(other, idOther), nfs4.ErrDelay)
	g.WaitHost()
	want(t, "locks on the host", locked(), true)
	want(t, "OPEN of another file", g.openStatus(other, "o", "x", 1, 0), nfs4.OK)
	want(t, "OPEN of the file", g.openStatus(other, "o", "f", 1, 0), nfs4.ErrDelay)
	g.shelf.failing = false
	g.sleep(retryEvery)
	g.call(other)
	g.Sweep()
	g.WaitHost()
	want(t, "locks on the host", locked(), false)
	want(t, "LOCK", lock(other, idOther), nfs4.OK)
	g.crash()
	_, status := g.reclaim(g.arrive("c"), "f", 3, 0)
	want(t, "reclaim of the client that has ended", status, nfs4.ErrNoGrace)
}

// R8881-8.4.3-4: a client of which some state was revoked reclaims nothing after a
// restart, unless it has freed all of that before, or has sent RECLAIM_COMPLETE since.
func TestRevokedNotReclaimed(t *testing.T) {
	for _, frees := range []bool{false, true} {
		g := newSaga(t)
		s := g.client("c")
		_, id := g.open(s, "o", "f", 3, 0, "gone")
		g.open(s, "o", "g", 3, 0, "stays")
		g.Revoke(func(file any) bool { return file == "gone" })
		if frees {
			want(t, "FREE_STATEID", g.FreeStateID(s, &id), nfs4.OK)
		}
		g.Sweep() // stores it
		g.crash()
		s = g.arrive("c")
		_, status := g.reclaim(s, "g", 3, 0)
		want(t, "may reclaim", status == nfs4.OK, frees)
		g.complete(s)
		g.open(s, "o", "h", 3, 0, nil)
		g.crash()
		_, status = g.reclaim(g.arrive("c"), "h", 3, 0)
		want(t, "reclaim after RECLAIM_COMPLETE and another restart", status, nfs4.OK)
	}

	// In grace: the client goes on to reclaim, but not after another restart.
	g := newSaga(t)
	g.prepare("c", "f", 0, false)
	g.crash()
	s := g.arrive("c")
	_, _, status := g.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 1, Reclaim: true}, "gone")
	want(t, "reclaim", status, nfs4.OK)
	g.Revoke(func(file any) bool { return file == "gone" })
	_, status = g.reclaim(s, "g", 1, 0)
	want(t, "reclaim of other state", status, nfs4.OK)
	g.Sweep()
	g.crash()
	_, status = g.reclaim(g.arrive("c"), "g", 1, 0)
	want(t, "reclaim after another restart", status, nfs4.ErrNoGrace)
}

// TestRetire checks that a server that ends takes no client its right to reclaim.
func TestRetire(t *testing.T) {
	g := newSaga(t)
	g.prepare("c", "f", 2, true)
	g.Retire()
	g.Revoke(func(any) bool { return true })
	g.Sweep()
	g.crash()
	s := g.arrive("c")
	id, status := g.reclaim(s, "f", 3, 2)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.hold(s, id, "f", true), nfs4.OK)
}

// TestBootFails checks a State whose journal cannot be written from the start:
// nothing is granted, and grace does not run out, until it can.
func TestBootFails(t *testing.T) {
	g := newSaga(t)
	g.prepare("c", "f", 0, true)
	g.shelf.failing = true
	g.crash()
	s := g.arrive("c")
	_, status := g.reclaim(s, "f", 3, 0)
	want(t, "reclaim", status, nfs4.ErrDelay)
	want(t, "RECLAIM_COMPLETE of another", g.ReclaimComplete(g.arrive("d")), nfs4.OK)
	g.sleep(10 * testLease)
	g.call(s)
	want(t, "RECLAIM_COMPLETE", g.ReclaimComplete(g.arrive("e")), nfs4.OK)
	g.shelf.failing = false
	id, status := g.reclaim(s, "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
	want(t, "reclaim of a lock", g.hold(s, id, "f", true), nfs4.OK)
	g.shelf.failing = true
	want(t, "RECLAIM_COMPLETE", g.ReclaimComplete(s), nfs4.ErrDelay)
	g.shelf.failing = false
	g.sleep(retryEvery)
	g.complete(s)
}

// TestJournalHangs checks that no call waits without end for a journal whose disk
// does not answer, and that calls which need no record do not wait at all.
func TestJournalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSaga(t)
		known := g.prepare("known", "f", 2, true)
		g.shelf.hangs = make(chan struct{})
		s := g.client("new")
		begun := time.Now()
		want(t, "OPEN", g.openStatus(s, "o", "g", 1, 0), nfs4.ErrDelay)
		want(t, "OPEN once more", g.openStatus(s, "o", "g", 1, 0), nfs4.ErrDelay)
		want(t, "time for both", time.Since(begun), 2*patience)
		want(t, "OPEN of a client with a record", g.openStatus(known, "o", "h", 1, 2), nfs4.OK)
		want(t, "time", time.Since(begun), 2*patience)
		close(g.shelf.hangs)
		want(t, "OPEN in the end", g.openStatus(s, "o", "g", 1, 0), nfs4.OK)
		want(t, "writes", g.shelf.writes, 4) // of the beginning, two for the first client, and one
		synctest.Wait()
		want(t, "freed objects", len(g.ledger.freed), 0)
	})
}

// TestJournalCompact checks that clients that come and go do not make the journal
// grow without end.
func TestJournalCompact(t *testing.T) {
	g := newSaga(t)
	g.prepare("stays", "f", 2, false)
	long := strings.Repeat("n", 500)
	for i := range 2000 {
		s := g.prepare(fmt.Sprint(long, i), "g", 0, false)
		want(t, "Expire", g.Expire(s.ClientID()), nfs4.OK)
		if n := g.shelf.Size(); n > 2*minCompact {
			t.Fatalf("the journal has %d bytes", n)
		}
	}
	past, err := ReadPast(g.shelf.records)
	want(t, "error", err, nil)
	want(t, "clients", past.Clients(), 1)
	want(t, "epoch", past.Epoch, g.epoch)
}

// R8881-8.4.3-5: records of another form are refused, so that no client may
// reclaim.
func TestReadPast(t *testing.T) {
	r := record{principal: Principal{Flavor: 1, UID: 1000}, minor: 2, had: hadLocks}
	named := record{principal: Principal{Flavor: 6, Name: "nfs/a.example@R"}, minor: 1, had: hadDeny, revoked: true, sealed: true}
	hosted := record{principal: Principal{Flavor: 1}, host: Host{9}, minor: 1, had: hadReads}
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
	r.fresh, named.fresh, hosted.fresh = true, true, true
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
	g := newSaga(t)
	by := func(name string) Principal { return Principal{Flavor: 6, Name: name} }
	arrive := func(name string) *Session {
		x := exchange("c", 1, 0)
		x.Principal = by(name)
		id, sequence, _ := g.exchange(x)
		c := create(id, sequence, 0)
		c.Principal = x.Principal
		return g.create(c)
	}
	s := arrive("nfs/a@R")
	g.complete(s)
	g.open(s, "o", "f", 3, 0, nil)
	g.crash()
	other := exchange("c", 2, 0)
	for _, p := range []Principal{by("nfs/b@R"), {Flavor: 6}, {Flavor: 1}} {
		other.Principal = p
		_, _, _, status := g.ExchangeID(other)
		want(t, fmt.Sprint("EXCHANGE_ID by ", p), status, nfs4.ErrClidInUse)
	}
	_, status := g.reclaim(arrive("nfs/a@R"), "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
}

// R8881-2.4.3-3: after a restart, too, the name of a client with a machine credential
// belongs to calls whose arguments are protected. Those of the same machine that are
// only signed, as of its root in a mount with krb5, may have been changed on the way.
func TestRecordOfMachineCredential(t *testing.T) {
	g := newSaga(t)
	by := func(sealed bool) *Exchange {
		x := exchange("c", 1, 0)
		x.Principal, x.Sealed = Principal{Flavor: 6, Name: "host/a@R"}, sealed
		x.Protect.How = nfs4.ProtectMachCred
		return x
	}
	arrive := func() *Session {
		id, sequence, _ := g.exchange(by(true))
		c := create(id, sequence, 0)
		c.Principal = by(true).Principal
		return g.create(c)
	}
	s := arrive()
	g.complete(s)
	g.open(s, "o", "f", 3, 0, nil)
	for range 2 {
		g.crash()
		_, _, _, status := g.ExchangeID(by(false))
		want(t, "EXCHANGE_ID that is not sealed", status, nfs4.ErrClidInUse)
		plain := by(false)
		plain.Protect.How = nfs4.ProtectNone
		_, _, _, status = g.ExchangeID(plain)
		want(t, "EXCHANGE_ID without protection", status, nfs4.ErrClidInUse)
	}
	_, status := g.reclaim(arrive(), "f", 3, 0)
	want(t, "reclaim", status, nfs4.OK)
}

func FuzzReadPast(f *testing.F) {
	f.Add(appendBoot(nil, 7, time.Second), appendGone(nil, ownerKey{TCP, "c"}))
	f.Add((&record{had: hadDeny}).appendTo(nil, ownerKey{TCP, "c"}), []byte{overRecord})
	f.Add((&record{principal: Principal{Flavor: 6, Name: "a@R"}}).appendTo(nil, ownerKey{TCP, "c"}), []byte{overRecord})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		past, err := ReadPast([][]byte{a, b})
		if err == nil && past.Clients() > 2 {
			t.Error("too many clients")
		}
	})
}
