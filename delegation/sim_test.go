package delegation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A sim runs complete clients and a server in virtual time. Everything that
// happens is an event. Messages take random time, drawn from a seed.
type sim struct {
	*rand.Rand
	now    time.Duration
	events events
	n      int // number of the running event: a time at which no two events coincide
	wrong  string
	trace  []string
	srv    *simServer
	users  []*simClient
}

// simLease is the lease in the simulation. Undisturbed actions are much faster.
const simLease = 10 * time.Second

func newSim(seed uint64) *sim {
	return &sim{Rand: rand.New(rand.NewPCG(seed, 1)), now: time.Hour}
}

// after runs f after d.
func (s *sim) after(d time.Duration, f func()) { s.at(s.now+d, f) }

func (s *sim) at(at time.Duration, f func()) { s.events.push(at, f) }

// run runs the events up to the given time.
func (s *sim) run(until time.Duration) {
	for len(s.events.list) > 0 && s.events.list[0].at <= until && s.wrong == "" {
		e := s.events.pop()
		s.now = e.at
		s.n++
		e.f()
	}
	s.now = until
}

func (s *sim) fail(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
		s.note("WRONG: %s", s.wrong)
	}
}

// note records an event, for debugging.
func (s *sim) note(format string, args ...any) {
	if tracing {
		s.trace = append(s.trace, fmt.Sprintf("%6d %10v ", s.n, s.now-time.Hour)+fmt.Sprintf(format, args...))
	}
}

var tracing bool

// upTo returns a random time that is mostly short, and rarely close to d.
func (s *sim) upTo(d time.Duration) time.Duration {
	part := s.Float64()
	return time.Duration(float64(d) * part * part * part)
}

// chance is true on average once in n calls.
func (s *sim) chance(n int) bool { return s.IntN(n) == 0 }

type event struct {
	at    time.Duration
	order int
	f     func()
}

// events is a heap, the earliest first.
type events struct {
	list   []event
	pushed int
}

func (e *events) less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (e *events) push(at time.Duration, f func()) {
	e.pushed++
	e.list = append(e.list, event{at, e.pushed, f})
	for i := len(e.list) - 1; i > 0 && e.less(i, (i-1)/2); i = (i - 1) / 2 {
		e.list[i], e.list[(i-1)/2] = e.list[(i-1)/2], e.list[i]
	}
}

func (e *events) pop() event {
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

// A wire delivers in order, each item some time after its put.
type wire struct {
	s    *sim
	last time.Duration // arrival time of the last item
	dead *bool         // nothing arrives any more
}

// put runs f when the item arrives.
func (w *wire) put(delay time.Duration, f func()) {
	w.last = max(w.last, w.s.now+delay)
	w.s.at(w.last, func() {
		if !*w.dead {
			f()
		}
	})
}

// A line is one connection. Messages posted by the server wait in its send
// queue before they enter the wire; answers to atomic operations overtake the
// queued messages.
type line struct {
	s     *sim
	conn  *Conn
	words *memWords
	h     *Holder
	user  *simClient

	up, queue, down wire
	dead            bool // the wire is cut
	cut, gone       bool // known to the server, to the client
}

func (s *sim) newLine(user *simClient) *line {
	l := &line{s: s, words: &memWords{make([]uint64, simSlots)}, h: NewHolder(simSlots), user: user}
	for _, w := range []*wire{&l.up, &l.queue, &l.down} {
		*w = wire{s: s, dead: &l.dead}
	}
	l.conn = s.srv.g.Attach(l.words, simWindow, fmt.Sprint(user), l)
	return l
}

// delay returns the time of an item on the wire: occasionally longer than a
// lease.
func (l *line) delay() time.Duration {
	if !l.user.idle && l.s.chance(150) {
		return l.s.upTo(3 * simLease / 2)
	}
	return l.s.upTo(20 * time.Millisecond)
}

// post posts a message of the server. sent runs when the message leaves, and
// come when the message arrives.
func (l *line) post(sent, come func()) {
	backlog := l.s.upTo(10 * time.Millisecond)
	if !l.user.idle && l.s.chance(60) {
		backlog = l.s.upTo(2 * simLease)
	}
	l.queue.put(backlog, func() {
		if l.cut {
			return
		}
		sent()
		l.down.put(l.delay(), come)
	})
}

// atomic posts an atomic operation of the client.
func (l *line) atomic(op *Op, then func(Verdict)) {
	l.up.put(l.delay(), func() {
		if l.cut {
			return
		}
		original := l.words.do(op)
		l.down.put(l.delay(), func() {
			if l.gone {
				return
			}
			v, fx := l.h.Answered(op, original, l.user.clock())
			l.user.do(l, fx)
			if then != nil {
				then(v)
			}
		})
	})
}

// break_ cuts the connection. Each side learns of the cut after some time.
func (l *line) break_() {
	if l.dead {
		return
	}
	l.s.note("the line of %s is cut", l.user)
	l.dead = true
	patience := 2 * simLease
	if l.s.chance(2) {
		patience = 50 * time.Millisecond
	}
	l.s.after(l.s.upTo(patience), func() { l.lost(false) })
	l.s.after(l.s.upTo(patience), l.leave)
}

// lost reports the end to the server.
func (l *line) lost(byPeer bool) {
	if !l.cut {
		l.cut = true
		l.s.note("the server learns that the line of %s has ended", l.user)
		l.s.srv.do(l.s.srv.g.Disconnect(l.conn, byPeer, l.s.now))
	}
}

// leave reports the end to the client.
func (l *line) leave() {
	if !l.gone {
		l.gone, l.dead = true, true
		l.s.note("%s learns that its line has ended", l.user)
		l.user.do(l, l.h.Disconnect())
		l.user.reconnect(l)
	}
}
