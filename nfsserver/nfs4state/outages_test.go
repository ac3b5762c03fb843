package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// An outageRun is a schedule with restarts of the server: three clients, host
// processes, a journal that fails, and time.
type outageRun struct {
	*testState
	name    string
	log     []string
	journal *fakeJournal
	epoch   uint32
	lease   time.Duration
	locals  model // locks of host processes
	host    cellHost
	clients [modelPeers]outageClient

	began    time.Duration // when this epoch began
	grace    time.Duration // minimum time for which clients may reclaim
	forced   bool          // an administrator has ended grace
	failed   time.Duration // when the journal last failed
	stored   time.Duration // when the journal first did not fail in this epoch
	compacts bool          // the journal is replaced at each record
	handBack int           // reclaims that succeeded
	lost     int           // reclaims that did not
	waits    int           // grants that the grace period delayed
}

func newOutageRun(t testing.TB, name string) *outageRun {
	r := &outageRun{testState: newTestState(manyGoroutines{t}), name: name, journal: new(fakeJournal), epoch: 100, lease: testLease}
	r.failed = -time.Hour
	r.host.model = &r.locals
	for i := range r.clients {
		r.clients[i].name = ownerNames[i]
	}
	r.startServer()
	return r
}

// isCurrentGrant reports whether the current server has granted a client its
// state.
func (r *outageRun) isCurrentGrant(b *outageClient, c *claim) bool {
	return c.from == b.id && b.epoch == r.epoch
}

func (r *outageRun) clockTime() time.Duration { return time.Duration(r.clock.Load()) }

func (r *outageRun) logStep(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%8.1f s  ", (r.clockTime()-time.Hour).Seconds())+fmt.Sprintf(format, args...))
}

func (r *outageRun) failRun(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s: %s, after\n%s", r.name, fmt.Sprintf(format, args...), strings.Join(r.log, "\n"))
}

// startServer starts a server with the records of the earlier ones.
func (r *outageRun) startServer() {
	for {
		r.journal.restartProcess()
		past, err := ReadPast(r.journal.records)
		if err != nil {
			r.failRun("the journal cannot be read: %v", err)
		}
		r.epoch++
		r.began, r.grace, r.forced, r.stored = r.clockTime(), max(r.lease, past.lease)+graceSlack, false, -1
		for i := range r.clients {
			b := &r.clients[i]
			record, ok := past.clients[ownerKey{TCP, b.name}]
			if ok && record.kinds&^b.tried != 0 {
				r.failRun("the record of client %s has kinds of state that it never asked for", b.name)
			}
			b.listed, b.had, b.revoked = ok && !record.revoked, record.kinds, nil
		}
		config := r.testState.config
		config.Epoch, config.Lease, config.Journal, config.Past = r.epoch, r.lease, r.journal, past
		r.State = New(config)
		r.host = cellHost{model: &r.locals}
		if !r.isDead() {
			break
		}
		r.logStep("the server dies at its start")
	}
	r.noteJournal()
}

// isDead reports whether the server has died, perhaps while it released locks of
// the host.
func (r *outageRun) isDead() bool {
	r.WaitForHostLocks()
	return r.journal.dead
}

// noteJournal records the journal's state after a step.
func (r *outageRun) noteJournal() {
	if r.compacts {
		r.ledger.compactAt = 1
	}
	if r.journal.broken {
		r.failed = r.clockTime()
	} else if r.stored < 0 && r.ledger.storedRecords.Load() > 0 {
		r.stored = r.clockTime()
	}
}

// mayFail reports whether a failing journal may delay a grant.
func (r *outageRun) mayFail() bool { return r.journal.broken || r.clockTime()-r.failed <= retryEvery }

// crashServer stops the server, and starts the next one.
func (r *outageRun) crashServer(how string) {
	r.WaitForHostLocks()
	r.noteRemoved()
	over := r.forced || r.clockTime() >= r.began+r.grace
	for i := range r.clients {
		b := &r.clients[i]
		b.eachClaim(func(c *claim) {
			// A client that has not reclaimed all in time, or possibly has not,
			// has nothing.
			if over && (!r.isCurrentGrant(b, c) || !b.complete) {
				c.must = false
			}
		})
	}
	if len(r.log)%3 == 0 {
		r.lease = testLease + testLease/4 - r.lease
	}
	r.logStep("the server dies %s, and begins again with %d records and a lease of %v", how, len(r.journal.records), r.lease)
	r.startServer()
}

// isProtected reports whether nothing that conflicts with a claim may be
// granted to another client.
func (r *outageRun) isProtected(b *outageClient, c *claim, reclaim bool) bool {
	switch {
	case !c.must:
		return false
	case r.isCurrentGrant(b, c):
		return r.clockTime()-b.lastCallAt <= r.lease
	case b.epoch == r.epoch && b.complete:
		return false
	}
	return !reclaim && !r.forced && r.clockTime() < r.began+r.grace
}

// noteGrant records a grant to a client, or to nil. It must not conflict with a
// protected claim, and taints other conflicting claims, for which conflicts
// returns true.
func (r *outageRun) noteGrant(to *outageClient, what string, reclaim bool, object int, conflicts func(o *openClaim, c *byteClaim, at int) bool) {
	for i := range r.clients {
		b := &r.clients[i]
		if b == to {
			continue
		}
		judge := func(c *claim, kind string) {
			if r.isProtected(b, c, reclaim && (to.liar || b.liar)) { // the server cannot know who lies
				r.failRun("%s is granted against the %s of client %s", what, kind, b.name)
			}
			// A truthful client cannot get back what it must not have.
			if !reclaim || r.isCurrentGrant(b, c) {
				c.must, c.tainted = false, what
			}
		}
		if o := &b.opens[object]; o.modes != 0 && conflicts(o, nil, 0) {
			judge(&o.claim, "open")
		}
		for owner := range modelOwners {
			for at := range cells {
				if c := &b.bytes[owner][object][at]; c.kind != locks.None && conflicts(nil, c, at) {
					judge(&c.claim, "lock")
				}
			}
		}
	}
}

// randomStep takes a random step.
func (r *outageRun) randomStep(random *rand.Rand) {
	b := &r.clients[random.IntN(modelPeers)]
	object, owner := random.IntN(modelObjects), random.IntN(modelOwners)
	first := random.IntN(cells)
	s, kind := span{first, first + random.IntN(cells-first)}, locks.Shared+locks.Kind(random.IntN(2))
	switch n := random.IntN(100); {
	case n < 5:
		r.crashServer("between calls")
	case n < 8:
		r.journal.next, r.journal.times = crashBefore+journalFault(random.IntN(2)), 1
	case n < 11:
		r.journal.next, r.journal.times = refused+journalFault(random.IntN(2)), 1+random.IntN(4)
	case n < 22:
		r.advanceClock([]time.Duration{1, time.Second, 2 * time.Second, r.lease / 3, r.lease / 3, r.lease + 1, graceSlack, r.lease + graceSlack, 2*r.lease + 1}[random.IntN(9)])
	case n < 25:
		r.Sweep()
	case n < 30:
		r.lockLocally(s, locks.Kind(random.IntN(3)))
	case n < 34:
		r.useSpecial(object, 1+random.Uint32N(2))
	case n < 36:
		b.away = !b.away
		r.logStep("client %s is away: %v", b.name, b.away)
	case n < 37:
		switch random.IntN(5) {
		case 0:
			r.endGrace()
		case 3:
			r.exchangeAsOther(b)
		case 1:
			r.expireClientNow(b)
		case 2:
			r.stopServer()
		default:
			r.revokeOpenOf(b, object)
		}
	case b.away:
	case n < 39:
		r.rebootClient(b)
	case b.liar && n < 50:
		r.reclaimFalsely(b, random)
	case n < 42 && !b.complete:
		if r.beginContact(b) {
			if b.complete {
				r.endContact(b)
			} else {
				r.endReclaims(b)
			}
		}
	case !r.reclaimNext(b):
	case n < 62:
		access, deny := 1+random.Uint32N(3)|random.Uint32N(4), uint32(0)
		if random.IntN(3) == 0 {
			deny = random.Uint32N(4)
		}
		r.openMore(b, object, access, deny)
	case n < 82:
		r.lockSpan(b, owner, object, s, kind)
	case n < 84:
		r.testSpan(b, owner, object, s, kind)
	case n < 92:
		r.unlockSpan(b, owner, object, s)
	default:
		r.closeObject(b, object)
	}
	r.checkState()
}

// endGrace ends the grace period for the administrator.
func (r *outageRun) endGrace() {
	r.forced = true
	for i := range r.clients {
		b := &r.clients[i]
		b.eachClaim(func(c *claim) { c.must = c.must && r.isCurrentGrant(b, c) && b.complete })
	}
	r.logStep("an administrator ends grace: %v", r.EndGrace())
}

// checkFinish checks that the grace period ends, and that everything is then
// granted.
func (r *outageRun) checkFinish() {
	r.journal.times = 0
	r.advanceClock(2 * retryEvery)
	r.Sweep()
	r.checkState()
	r.advanceClock(r.grace)
	r.Sweep()
	r.checkState()
	s := r.newTestClient("last")
	_, id := r.testState.mustOpen(s, "o", "f", nfs4.ShareBoth, nfs4.ShareBoth, nil)
	r.testState.mustLock(s, newLock(id, "f", "l", true, 0, locks.ToEnd))
	r.advanceClock(2 * defaultCourtesy)
	r.Sweep()
	r.checkState()
}

// R8881-8.4.2.1-7, R8881-8.4.3-3: clients that follow the protocol, and some that
// do not, take random steps over many restarts.
func TestOutages(t *testing.T) {
	n := 4000
	if testing.Short() || racetest.Enabled {
		n = 100
	}
	var back, lost, waits int
	for seed := range uint64(racetest.Schedules(n)) {
		random := rand.New(rand.NewPCG(seed, 22))
		r := newOutageRun(t, fmt.Sprint("seed ", seed))
		r.clients[0].liar = seed%4 == 0
		r.compacts = seed%3 == 0
		for range 120 {
			r.randomStep(random)
		}
		r.checkFinish()
		back, lost, waits = back+r.handBack, lost+r.lost, waits+r.waits
	}
	t.Logf("%d reclaims succeeded, %d failed; grace put off %d calls", back, lost, waits)
}
