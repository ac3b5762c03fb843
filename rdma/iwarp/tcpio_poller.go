package iwarp

import (
	"runtime"
	"sync"
	"time"
)

// A poller watches all links, and has workers serve those that have something
// to read:
//
//	      epoll: events of many links
//	         │
//	      worker ── watches, while no other does
//	         │
//	       ready: links in the order of their events
//	      ╱  │  ╲
//	worker worker worker ── serve a link each, until its socket is empty
//	         │
//	         └─ must wait for this one peer, or has much to read?
//	            reads on as the link's own reader; another worker is called
//
// A worker that has served a link continues with the next one, without a
// goroutine switch and without a system call. It waits for events when no link
// is ready. A second worker helps if many links are ready, and another worker
// is called if all are blocked by the links that they serve, so that no peer
// and no call delays the other links for long.
type poller struct {
	mu        sync.Mutex
	links     []*tcpLink // indexed by descriptor; nil: none
	linkCount int        // links
	epoll     *epoll     // non-nil while there are links
	ready     linkQueue

	active   int // workers that watch or serve, and have returned since round began
	round    int
	watching bool // one of them watches
	spares   []*worker

	// The guard calls a worker if the active workers do not return.
	guard         *time.Timer
	guarded       bool
	served        uint64 // links taken from ready
	servedAtCheck uint64 // served, at the last check
	watchedChecks int    // consecutive checks that found a watching worker
}

// linkPoller is the poller for all links.
var linkPoller poller

// A linkQueue is a first-in, first-out list of links. A link is in it at most
// once.
type linkQueue struct {
	head, tail *tcpLink
	n          int
}

func (q *linkQueue) push(l *tcpLink) {
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
	q.n++
}

func (q *linkQueue) pop() *tcpLink {
	l := q.head
	if l == nil {
		return nil
	}
	if q.head = l.next; q.head == nil {
		q.tail = nil
	}
	l.next = nil
	q.n--
	return l
}

// addLink adds l to the poller. l has its own reader goroutine.
func (p *poller) addLink(l *tcpLink) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil {
		if p.epoll, err = newEpoll(); err != nil {
			return err
		}
		p.callWorkerLocked()
	}
	if err := p.epoll.addFD(l.fd); err != nil {
		p.stopLocked()
		return err
	}
	l.epoll = p.epoll
	if more := l.fd + 1 - len(p.links); more > 0 {
		p.links = append(p.links, make([]*tcpLink, more)...)
	}
	p.links[l.fd] = l
	p.linkCount++
	return nil
}

// removeLink removes l, which is locked.
func (p *poller) removeLink(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l.fd] = nil
	p.linkCount--
	p.epoll.removeFD(l.fd)
	p.stopLocked()
}

// stopLocked closes the epoll instance and stops the idle workers if there are
// no links.
func (p *poller) stopLocked() {
	if p.linkCount > 0 || p.epoll == nil {
		return
	}
	p.links = nil
	if p.watching { // that worker closes the instance
		p.epoll.stopWaiting()
		p.watching = false
		p.active--
	} else {
		p.epoll.close()
	}
	p.epoll = nil
	for _, w := range p.spares {
		close(w.called)
	}
	p.spares = nil
}

// callWorkerLocked wakes a spare worker, or starts a new one.
func (p *poller) callWorkerLocked() {
	if last := len(p.spares) - 1; last >= 0 {
		w := p.spares[last]
		p.spares[last] = nil
		p.spares = p.spares[:last]
		p.countLocked(w)
		w.called <- struct{}{}
		return
	}
	w := newWorker()
	p.countLocked(w)
	go w.run(true)
}

// countLocked counts w, which is not counted, as active.
func (p *poller) countLocked(w *worker) {
	w.round = p.round
	p.active++
}

// uncountLocked undoes countLocked, unless w was last counted in an earlier round.
func (p *poller) uncountLocked(w *worker) {
	if w.round == p.round {
		p.active--
	}
}

// replaceWorker is called when a worker stops serving links although there may be more to do.
func (p *poller) replaceWorker(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uncountLocked(w)
	if p.epoll != nil && (p.ready.n > 0 || !p.watching) {
		p.callWorkerLocked()
	}
}

// queueLink makes a worker serve l, although there was no event.
func (p *poller) queueLink(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready.push(l)
	p.callWorkerLocked()
}

// requeueLink queues l, which the calling worker has served, after the others.
func (p *poller) requeueLink(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready.push(l)
}

// nextLink returns the link that w serves next. If no link is ready, it watches, or returns nil if
// another worker watches: then w is no longer active.
func (p *poller) nextLink(w *worker) *tcpLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.round != p.round {
		p.countLocked(w)
	}
	for {
		if l := p.ready.pop(); l != nil {
			p.served++
			if p.ready.n >= crowd && p.active < runtime.GOMAXPROCS(0) {
				p.callWorkerLocked()
			}
			p.startGuardLocked()
			return l
		}
		if p.watching || p.epoll == nil {
			p.active--
			return nil
		}
		p.watching = true
		if e := p.epoll; !p.watchUnlock(w, e) {
			e.close() // there are no links left, or e is no longer p's
			return nil
		}
		p.watching = false
	}
}

// watchUnlock waits for events, with the poller unlocked during the wait. It
// returns false if e has been stopped.
func (p *poller) watchUnlock(w *worker, e *epoll) bool {
	p.mu.Unlock()
	events := w.watchEvents(e)
	p.mu.Lock()
	if p.epoll != e {
		return false
	}
	w.linkEvents = w.linkEvents[:0]
	for _, ev := range events {
		if l := p.links[ev.Fd]; l != nil {
			w.linkEvents = append(w.linkEvents, linkEvents{l, ev.Events})
		}
	}
	p.mu.Unlock() // a link locks the poller
	n := 0
	for _, h := range w.linkEvents {
		if h.link.handleEvents(h.events) {
			w.linkEvents[n] = h
			n++
		}
	}
	p.mu.Lock()
	for _, h := range w.linkEvents[:n] {
		p.ready.push(h.link)
	}
	clear(w.linkEvents)
	return p.epoll == e
}

// startGuardLocked starts the guard.
func (p *poller) startGuardLocked() {
	if p.guarded {
		return
	}
	p.guarded, p.watchedChecks = true, 0
	if p.guard == nil {
		p.guard = time.AfterFunc(guardPeriod, p.checkWorkers)
		return
	}
	p.guard.Reset(guardPeriod)
}

// checkWorkers calls a worker if none watches and none has taken a link since the last check. All
// workers are blocked then, for instance by disks whose data they send, and do not count as active
// until they return: others may help with many ready links.
func (p *poller) checkWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchedChecks++; !p.watching {
		p.watchedChecks = 0
		if p.served == p.servedAtCheck && p.epoll != nil {
			p.round++
			p.active = 0
			p.callWorkerLocked()
		}
	}
	p.servedAtCheck = p.served
	if p.guarded = p.watchedChecks < maxRest && p.epoll != nil; p.guarded {
		p.guard.Reset(guardPeriod)
	}
}
