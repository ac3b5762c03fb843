package delegation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A simulation runs complete clients and a server in virtual time. Everything that
// happens is an event. Messages take random time, drawn from a seed.
type simulation struct {
	*rand.Rand
	now     time.Duration
	events  eventHeap
	n       int // number of the running event: a time at which no two events coincide
	failure string
	trace   []string
	srv     *simServer
	users   []*simClient
}

// simLease is the lease in the simulation. Undisturbed actions are much faster.
const simLease = 10 * time.Second

func newSimulation(seed uint64) *simulation {
	return &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), now: time.Hour}
}

// scheduleAfter runs f after d.
func (s *simulation) scheduleAfter(d time.Duration, f func()) { s.scheduleAt(s.now+d, f) }

func (s *simulation) scheduleAt(at time.Duration, f func()) { s.events.push(at, f) }

// runEvents runs the events up to the given time.
func (s *simulation) runEvents(until time.Duration) {
	for len(s.events.list) > 0 && s.events.list[0].at <= until && s.failure == "" {
		e := s.events.pop()
		s.now = e.at
		s.n++
		e.f()
	}
	s.now = until
}

func (s *simulation) recordFailure(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
		s.recordTrace("WRONG: %s", s.failure)
	}
}

// recordTrace records an event, for debugging.
func (s *simulation) recordTrace(format string, args ...any) {
	if tracing {
		s.trace = append(s.trace, fmt.Sprintf("%6d %10v ", s.n, s.now-time.Hour)+fmt.Sprintf(format, args...))
	}
}

var tracing bool

// randomUpTo returns a random time that is mostly short, and rarely close to d.
func (s *simulation) randomUpTo(d time.Duration) time.Duration {
	part := s.Float64()
	return time.Duration(float64(d) * part * part * part)
}

// oneIn is true on average once in n calls.
func (s *simulation) oneIn(n int) bool { return s.IntN(n) == 0 }

type event struct {
	at    time.Duration
	order int
	f     func()
}

// eventHeap is a heap, the earliest first.
type eventHeap struct {
	list   []event
	pushed int
}

func (e *eventHeap) less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (e *eventHeap) push(at time.Duration, f func()) {
	e.pushed++
	e.list = append(e.list, event{at, e.pushed, f})
	for i := len(e.list) - 1; i > 0 && e.less(i, (i-1)/2); i = (i - 1) / 2 {
		e.list[i], e.list[(i-1)/2] = e.list[(i-1)/2], e.list[i]
	}
}

func (e *eventHeap) pop() event {
	first, last := e.list[0], len(e.list)-1
	e.list[0], e.list[last] = e.list[last], event{}
	e.list = e.list[:last]
	for i := 0; ; {
		next := i
		for child := 2*i + 1; child <= min(2*i+2, last-1); child++ {
			if e.less(child, next) {
				next = child
			}
		}
		if next == i {
			return first
		}
		e.list[i], e.list[next] = e.list[next], e.list[i]
		i = next
	}
}

// A simLink delivers in order, each item some time after its put.
type simLink struct {
	s    *simulation
	last time.Duration // arrival time of the last item
	dead *bool         // nothing arrives any more
}

// putItem runs f when the item arrives.
func (w *simLink) putItem(delay time.Duration, f func()) {
	w.last = max(w.last, w.s.now+delay)
	w.s.scheduleAt(w.last, func() {
		if !*w.dead {
			f()
		}
	})
}

// A simConn is one connection. Messages posted by the server wait in its send
// queue before they enter the wire; atomic responses overtake the queued
// messages.
type simConn struct {
	s     *simulation
	conn  *Conn
	words *memWords
	h     *Holder
	user  *simClient

	up, queue, down simLink
	dead            bool // the wire is cut
	cut, gone       bool // known to the server, to the client
}

func (s *simulation) newLine(user *simClient) *simConn {
	l := &simConn{s: s, words: &memWords{make([]uint64, simSlots)}, h: NewHolder(simSlots), user: user}
	for _, w := range []*simLink{&l.up, &l.queue, &l.down} {
		*w = simLink{s: s, dead: &l.dead}
	}
	l.conn = s.srv.g.Attach(l.words, simWindow, fmt.Sprint(user), l)
	return l
}

// randomDelay returns a delivery time: occasionally longer than a lease.
func (l *simConn) randomDelay() time.Duration {
	if !l.user.idle && l.s.oneIn(150) {
		return l.s.randomUpTo(3 * simLease / 2)
	}
	return l.s.randomUpTo(20 * time.Millisecond)
}

// postMessage posts a message from the server. sent runs when the message is
// sent, and come when it arrives.
func (l *simConn) postMessage(sent, come func()) {
	backlog := l.s.randomUpTo(10 * time.Millisecond)
	if !l.user.idle && l.s.oneIn(60) {
		backlog = l.s.randomUpTo(2 * simLease)
	}
	l.queue.putItem(backlog, func() {
		if l.cut {
			return
		}
		sent()
		l.down.putItem(l.randomDelay(), come)
	})
}

// applyAtomic posts a client's atomic operation.
func (l *simConn) applyAtomic(op *Op, then func(Verdict)) {
	l.up.putItem(l.randomDelay(), func() {
		if l.cut {
			return
		}
		original := l.words.applyOp(op)
		l.down.putItem(l.randomDelay(), func() {
			if l.gone {
				return
			}
			v, fx := l.h.Answered(op, original, l.user.clockTime())
			l.user.applyPosts(l, fx)
			if then != nil {
				then(v)
			}
		})
	})
}

// breakConn cuts the connection. Each side learns of the cut after some time.
func (l *simConn) breakConn() {
	if l.dead {
		return
	}
	l.s.recordTrace("the line of %s is cut", l.user)
	l.dead = true
	patience := 2 * simLease
	if l.s.oneIn(2) {
		patience = 50 * time.Millisecond
	}
	l.s.scheduleAfter(l.s.randomUpTo(patience), func() { l.notifyServer(false) })
	l.s.scheduleAfter(l.s.randomUpTo(patience), l.notifyClient)
}

// notifyServer reports the closed connection to the server.
func (l *simConn) notifyServer(byPeer bool) {
	if !l.cut {
		l.cut = true
		l.s.recordTrace("the server learns that the line of %s has ended", l.user)
		l.s.srv.applyEffects(l.s.srv.g.Disconnect(l.conn, byPeer, l.s.now))
	}
}

// notifyClient reports the closed connection to the client.
func (l *simConn) notifyClient() {
	if !l.gone {
		l.gone, l.dead = true, true
		l.s.recordTrace("%s learns that its line has ended", l.user)
		l.user.applyPosts(l, l.h.Disconnect())
		l.user.openConn(l)
	}
}
