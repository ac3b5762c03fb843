package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// An outages is a schedule with restarts of the server: three clients, processes
// of the host, a journal that fails, and time.
type outages struct {
	*world
	name    string
	log     []string
	journal *fakeJournal
	epoch   uint32
	lease   time.Duration
	locals  model // locks of processes of the host
	host    cellHost
	clients [modelPeers]believer

	began    time.Duration // of this epoch
	grace    time.Duration // for so long, at least, may clients reclaim
	forced   bool          // an administrator has ended grace
	failed   time.Duration // when the journal last failed
	stored   time.Duration // when the journal first did not fail in this epoch
	compacts bool          // the journal is replaced at each record
	handBack int           // reclaims that succeeded
	lost     int           // reclaims that did not
	waits    int           // grants that grace put off
}

func newOutages(t testing.TB, name string) *outages {
	r := &outages{world: newWorld(manyGoroutines{t}), name: name, journal: new(fakeJournal), epoch: 100, lease: testLease}
	r.failed = -time.Hour
	r.host.model = &r.locals
	for i := range r.clients {
		r.clients[i].name = ownerNames[i]
	}
	r.begin()
	return r
}

// current reports whether the server of now has given a client its state.
func (r *outages) current(b *believer, c *claim) bool { return c.from == b.id && b.epoch == r.epoch }

func (r *outages) now() time.Duration { return time.Duration(r.clock.Load()) }

func (r *outages) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%8.1f s  ", (r.now()-time.Hour).Seconds())+fmt.Sprintf(format, args...))
}

func (r *outages) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s: %s, after\n%s", r.name, fmt.Sprintf(format, args...), strings.Join(r.log, "\n"))
}

// begin starts a server with the records of the earlier ones.
func (r *outages) begin() {
	for {
		r.journal.restart()
		past, err := ReadPast(r.journal.records)
		if err != nil {
			r.fail("the journal cannot be read: %v", err)
		}
		r.epoch++
		r.began, r.grace, r.forced, r.stored = r.now(), max(r.lease, past.lease)+graceSlack, false, -1
		for i := range r.clients {
			b := &r.clients[i]
			record, ok := past.clients[ownerKey{TCP, b.name}]
			if ok && record.had&^b.tried != 0 {
				r.fail("the record of client %s has kinds of state that it never asked for", b.name)
			}
			b.listed, b.had, b.revoked = ok && !record.revoked, record.had, nil
		}
		config := r.world.config
		config.Epoch, config.Lease, config.Journal, config.Past = r.epoch, r.lease, r.journal, past
		r.State = New(config)
		r.host = cellHost{model: &r.locals}
		if !r.dead() {
			break
		}
		r.logf("the server dies at its start")
	}
	r.note()
}

// dead reports whether the server has died, perhaps while it released locks of
// the host.
func (r *outages) dead() bool {
	r.WaitHost()
	return r.journal.dead
}

// note notes the state of the journal after a step.
func (r *outages) note() {
	if r.compacts {
		r.ledger.compact = 1
	}
	if r.journal.broken {
		r.failed = r.now()
	} else if r.stored < 0 && r.ledger.stored.Load() > 0 {
		r.stored = r.now()
	}
}

// failing reports whether a grant may be put off for want of the journal.
func (r *outages) failing() bool { return r.journal.broken || r.now()-r.failed <= retryEvery }

// crash ends the server, and starts the next one.
func (r *outages) crash(how string) {
	r.WaitHost()
	r.ends()
	over := r.forced || r.now() >= r.began+r.grace
	for i := range r.clients {
		b := &r.clients[i]
		b.claims(func(c *claim) {
			// Who has not reclaimed all in time, or may not have, has nothing.
			if over && (!r.current(b, c) || !b.complete) {
				c.must = false
			}
		})
	}
	if len(r.log)%3 == 0 {
		r.lease = testLease + testLease/4 - r.lease
	}
	r.logf("the server dies %s, and begins again with %d records and a lease of %v", how, len(r.journal.records), r.lease)
	r.begin()
}

// protected reports whether nobody else may be granted what conflicts with a
// claim.
func (r *outages) protected(b *believer, c *claim, reclaim bool) bool {
	switch {
	case !c.must:
		return false
	case r.current(b, c):
		return r.now()-b.heard <= r.lease
	case b.epoch == r.epoch && b.complete:
		return false
	}
	return !reclaim && !r.forced && r.now() < r.began+r.grace
}

// granted notes a grant to a client, or to nil, which must conflict with no
// protected claim, and taints the others. conflicts tells of what the grant is in
// the way.
func (r *outages) granted(to *believer, what string, reclaim bool, object int, conflicts func(o *openClaim, c *byteClaim, at int) bool) {
	for i := range r.clients {
		b := &r.clients[i]
		if b == to {
			continue
		}
		judge := func(c *claim, kind string) {
			if r.protected(b, c, reclaim && to.liar) {
				r.fail("%s is granted against the %s of client %s", what, kind, b.name)
			}
			// A truthful client cannot get back what it must not have.
			if !reclaim || r.current(b, c) {
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

// step takes a random step.
func (r *outages) step(random *rand.Rand) {
	b := &r.clients[random.IntN(modelPeers)]
	object, owner := random.IntN(modelObjects), random.IntN(modelOwners)
	first := random.IntN(cells)
	s, kind := span{first, first + random.IntN(cells-first)}, locks.Shared+locks.Kind(random.IntN(2))
	switch n := random.IntN(100); {
	case n < 5:
		r.crash("between calls")
	case n < 8:
		r.journal.next, r.journal.times = crashBefore+journalFault(random.IntN(2)), 1
	case n < 11:
		r.journal.next, r.journal.times = refused+journalFault(random.IntN(2)), 1+random.IntN(4)
	case n < 22:
		r.sleep([]time.Duration{1, time.Second, 2 * time.Second, r.lease / 3, r.lease / 3, r.lease + 1, graceSlack, r.lease + graceSlack, 2*r.lease + 1}[random.IntN(9)])
	case n < 25:
		r.Sweep()
	case n < 30:
		r.local(s, locks.Kind(random.IntN(3)))
	case n < 34:
		r.special(object, 1+random.Uint32N(2))
	case n < 36:
		b.away = !b.away
		r.logf("client %s is away: %v", b.name, b.away)
	case n < 37:
		switch random.IntN(5) {
		case 0:
			r.endGrace()
		case 3:
			r.usurp(b)
		case 1:
			r.expire(b)
		case 2:
			r.stop()
		default:
			r.revoke(b, object)
		}
	case b.away:
	case n < 39:
		r.reboot(b)
	case b.liar && n < 50:
		r.lie(b, random)
	case n < 42 && !b.complete:
		if r.contact(b) {
			if b.complete {
				r.done(b)
			} else {
				r.endReclaims(b)
			}
		}
	case !r.reclaim(b):
	case n < 62:
		access, deny := 1+random.Uint32N(3)|random.Uint32N(4), uint32(0)
		if random.IntN(3) == 0 {
			deny = random.Uint32N(4)
		}
		r.open(b, object, access, deny)
	case n < 82:
		r.lock(b, owner, object, s, kind)
	case n < 84:
		r.test(b, owner, object, s, kind)
	case n < 92:
		r.unlock(b, owner, object, s)
	default:
		r.close(b, object)
	}
	r.settle()
}

// endGrace is the administrator's.
func (r *outages) endGrace() {
	r.forced = true
	for i := range r.clients {
		b := &r.clients[i]
		b.claims(func(c *claim) { c.must = c.must && r.current(b, c) && b.complete })
	}
	r.logf("an administrator ends grace: %v", r.EndGrace())
}

// finish checks that grace ends, and that all is granted then.
func (r *outages) finish() {
	r.journal.times = 0
	r.sleep(2 * retryEvery)
	r.Sweep()
	r.settle()
	r.sleep(r.grace)
	r.Sweep()
	r.settle()
	s := r.client("last")
	_, id := r.world.open(s, "o", "f", nfs4.ShareBoth, nfs4.ShareBoth, nil)
	r.world.lock(s, newLock(id, "f", "l", true, 0, locks.ToEnd))
	r.sleep(2 * defaultCourtesy)
	r.Sweep()
	r.settle()
}

// R8881-8.4.2.1-7, R8881-8.4.3-3: clients that follow the protocol, and some that
// do not, take random steps over many restarts.
func TestOutages(t *testing.T) {
	n := 4000
	if testing.Short() || racetest.Enabled {
		n = 100
	}
	var back, lost, waits int
	for seed := range uint64(n) {
		random := rand.New(rand.NewPCG(seed, 22))
		r := newOutages(t, fmt.Sprint("seed ", seed))
		r.clients[0].liar = seed%4 == 0
		r.compacts = seed%3 == 0
		for range 120 {
			r.step(random)
		}
		r.finish()
		back, lost, waits = back+r.handBack, lost+r.lost, waits+r.waits
	}
	t.Logf("%d reclaims succeeded, %d failed; grace put off %d calls", back, lost, waits)
}
