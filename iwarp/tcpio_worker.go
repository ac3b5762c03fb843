package iwarp

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
)

// A worker is a goroutine that serves one link after the other: see poller.
type worker struct {
	called  chan struct{} // room for one; closed when there are no links any more
	events  [maxEvents]unix.EpollEvent
	links   []happening
	staging *buf.Buf // for the connection that is served, or nil
	lookout lookout
}

// A happening is the events of a link.
type happening struct {
	link   *tcpLink
	events uint32
}

func newWorker() *worker { return &worker{called: make(chan struct{}, 1)} }

// run serves links if w is active. Later it does so whenever w is called, until
// there are enough others that can be called, or no links any more.
func (w *worker) run(active bool) {
	for {
		for active {
			l := idle.next(w)
			active = l != nil && l.owner.serve(w)
		}
		w.drop()
		if !idle.spare(w) {
			return
		}
		_, active = <-w.called
		if !active {
			return
		}
	}
}

// watch waits for events. Goroutines that the links have woken run first. It
// returns none if e has been stopped.
func (w *worker) watch(e *epoll) (events []unix.EpollEvent) {
	look := func() bool {
		events = e.poll(w.events[:])
		return len(events) > 0
	}
	if look() {
		return events
	}
	runtime.Gosched()
	if look() || w.lookout.look(look) {
		return events
	}
	w.drop()
	for e.await() {
		if look() {
			break
		}
	}
	return events
}

// lend returns memory for the bytes of a connection.
func (w *worker) lend(size int) *buf.Buf {
	b := w.staging
	w.staging = nil
	if b != nil && len(b.B) == size {
		return b
	}
	if b != nil {
		b.Release()
	}
	return buf.Default.Get(size)
}

// drop releases the memory that is not lent.
func (w *worker) drop() {
	if w.staging != nil {
		w.staging.Release()
		w.staging = nil
	}
}

// spare keeps w for later calls, unless there are enough workers.
func (p *poller) spare(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil || len(p.spares) >= runtime.GOMAXPROCS(0) {
		return false
	}
	p.spares = append(p.spares, w)
	return true
}

// join lets the caller, whose own link rests, be a worker if there are few. It
// returns when it is none.
func (p *poller) join() {
	p.mu.Lock()
	enough := p.epoll == nil || len(p.spares) >= runtime.GOMAXPROCS(0)
	p.mu.Unlock()
	if !enough {
		newWorker().run(false)
	}
}
