package iwarp

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A worker is a goroutine that serves one link after another: see poller.
type worker struct {
	called     chan struct{} // capacity 1; closed when there are no links left
	round      int           // poller round in which the worker was counted
	events     [maxEvents]unix.EpollEvent
	linkEvents []linkEvents
	staging    *buf.Buf // for the connection being served, or nil
	busyPoller busyPoller
}

// linkEvents is the set of epoll events reported for a link.
type linkEvents struct {
	link   *tcpLink
	events uint32
}

func newWorker() *worker { return &worker{called: make(chan struct{}, 1)} }

// run serves links if w is active, and again whenever w is called, until there
// are enough spare workers, or no links left.
func (w *worker) run(active bool) {
	for {
		for active {
			l := linkPoller.nextLink(w)
			active = l != nil && l.reader.readLink(w)
		}
		w.releaseStaging()
		if !linkPoller.keepSpare(w) {
			return
		}
		_, active = <-w.called
		if !active {
			return
		}
	}
}

// watchEvents waits for events. Goroutines woken by the links run first. It returns no events if e
// has been stopped.
func (w *worker) watchEvents(e *epoll) (events []unix.EpollEvent) {
	look := func() bool {
		events = e.pollEvents(w.events[:])
		return len(events) > 0
	}
	if look() {
		return events
	}
	runtime.Gosched()
	if look() || w.busyPoller.poll(look) {
		return events
	}
	w.releaseStaging()
	for e.awaitEvents() {
		if look() {
			break
		}
	}
	return events
}

// takeStaging returns a staging buffer for a connection.
func (w *worker) takeStaging(size int) *buf.Buf {
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

// releaseStaging releases the worker's own staging buffer.
func (w *worker) releaseStaging() {
	if w.staging != nil {
		w.staging.Release()
		w.staging = nil
	}
}

// keepSpare adds w to the spare workers, and returns false if there are enough.
func (p *poller) keepSpare(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil || len(p.spares) >= runtime.GOMAXPROCS(0) {
		return false
	}
	p.spares = append(p.spares, w)
	return true
}

// joinAsWorker makes the caller, whose own link rests, a worker if there are few. It returns when
// the caller is no longer one.
func (p *poller) joinAsWorker() {
	p.mu.Lock()
	enough := p.epoll == nil || len(p.spares) >= runtime.GOMAXPROCS(0)
	p.mu.Unlock()
	if !enough {
		newWorker().run(false)
	}
}
