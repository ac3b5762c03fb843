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
// A worker that has served a link takes the next one, without a change of
// goroutine and without a system call. It watches when no link is ready. A
// second worker helps if many links are ready, and another worker is called if
// all are kept by the links that they serve, so that no peer and no call delays
// the other links for long.
type poller struct {
	mu    sync.Mutex
	links []*tcpLink // by descriptor; nil: none
	n     int        // links
	epoll *epoll     // while there are links
	ready linkQueue

	active   int  // workers that watch or serve
	watching bool // one of them watches
	spares   []*worker

	// The guard calls a worker if the active workers do not come back.
	guard   *time.Timer
	guarded bool
	served  uint64 // links taken from ready
	seen    uint64 // served, at the last check
	rest    int    // how many checks in a row found a watching worker
}

// idle is the poller of all links.
var idle poller

// A linkQueue is a list of links, first in, first out. A link is in it once at
// most.
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

// enter adds l to the poller. Its reader is a goroutine of its own.
func (p *poller) enter(l *tcpLink) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil {
		if p.epoll, err = newEpoll(); err != nil {
			return err
		}
		p.callLocked()
	}
	if err := p.epoll.add(l.fd); err != nil {
		p.stopLocked()
		return err
	}
	l.epoll = p.epoll
	if more := l.fd + 1 - len(p.links); more > 0 {
		p.links = append(p.links, make([]*tcpLink, more)...)
	}
	p.links[l.fd] = l
	p.n++
	return nil
}

// leave removes l, which is locked.
func (p *poller) leave(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l.fd] = nil
	p.n--
	p.epoll.remove(l.fd)
	p.stopLocked()
}

// stopLocked ends the epoll instance and the idle workers if there are no
// links.
func (p *poller) stopLocked() {
	if p.n > 0 || p.epoll == nil {
		return
	}
	p.links = nil
	if p.watching { // that worker closes it
		p.epoll.stop()
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

// callLocked calls a worker.
func (p *poller) callLocked() {
	p.active++
	if last := len(p.spares) - 1; last >= 0 {
		w := p.spares[last]
		p.spares[last] = nil
		p.spares = p.spares[:last]
		w.called <- struct{}{}
		return
	}
	w := &worker{called: make(chan struct{}, 1)}
	go w.run(true)
}

// resign is called when a worker leaves, without having found nothing to do.
func (p *poller) resign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	if p.epoll != nil && (p.ready.n > 0 || !p.watching) {
		p.callLocked()
	}
}

// push has a worker serve l, although there was no event.
func (p *poller) push(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready.push(l)
	p.callLocked()
}

// requeue queues l, which the calling worker has served, behind the others.
func (p *poller) requeue(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready.push(l)
}

// next returns the link that w serves next. It watches if no link is ready, or
// returns nil if another worker watches: then w is no longer active.
func (p *poller) next(w *worker) *tcpLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if l := p.ready.pop(); l != nil {
			p.served++
			if p.ready.n >= crowd && p.active < runtime.GOMAXPROCS(0) {
				p.callLocked()
			}
			p.guardLocked()
			return l
		}
		if p.watching || p.epoll == nil {
			p.active--
			return nil
		}
		p.watching = true
		if e := p.epoll; !p.watchUnlock(w, e) {
			e.close() // there are no links any more, or it is not p's
			return nil
		}
		p.watching = false
	}
}

// watchUnlock waits for events, with the poller unlocked meanwhile. It returns
// false if e has been stopped.
func (p *poller) watchUnlock(w *worker, e *epoll) bool {
	p.mu.Unlock()
	events := w.watch(e)
	p.mu.Lock()
	if p.epoll != e {
		return false
	}
	w.links = w.links[:0]
	for _, ev := range events {
		if l := p.links[ev.Fd]; l != nil {
			w.links = append(w.links, happening{l, ev.Events})
		}
	}
	p.mu.Unlock() // a link locks the poller
	n := 0
	for _, h := range w.links {
		if h.link.happened(h.events) {
			w.links[n] = h
			n++
		}
	}
	p.mu.Lock()
	for _, h := range w.links[:n] {
		p.ready.push(h.link)
	}
	clear(w.links)
	return p.epoll == e
}

// guardLocked starts the guard.
func (p *poller) guardLocked() {
	if p.guarded {
		return
	}
	p.guarded, p.rest = true, 0
	if p.guard == nil {
		p.guard = time.AfterFunc(guardPeriod, p.check)
		return
	}
	p.guard.Reset(guardPeriod)
}

// check calls a worker if none watches and none has taken a link since the last
// check.
func (p *poller) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rest++; !p.watching {
		p.rest = 0
		if p.served == p.seen && p.epoll != nil {
			p.callLocked()
		}
	}
	p.seen = p.served
	if p.guarded = p.rest < maxRest && p.epoll != nil; p.guarded {
		p.guard.Reset(guardPeriod)
	}
}
