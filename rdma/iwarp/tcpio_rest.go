package iwarp

import "golang.org/x/sys/unix"

// A linkState determines who reads a link:
//
//	       startResting               event
//	owned ───────────▶ resting ───────────────▶ ready
//	  ▲                   ▲                       │ beginTurn
//	  │ takeOwnership     │ endTurn               ▼
//	  └───────────────────┴───────────────────  served ─event─▶ servedAgain
//
// An owned link has its own reader goroutine, which arms the epoll instance for
// each wait, so that no event wakes a thread while it reads. The other links
// stay armed, edge-triggered: a link whose socket has been read empty needs no
// system call to be reported again. A link with events during its turn is
// served again, after the others.
type linkState uint8

const (
	linkOwned linkState = iota
	linkResting
	linkReady
	linkServed
	linkServedAgain
)

// restEvents are the epoll events for a link that is not owned.
const restEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

// startResting ends the caller's ownership: a worker serves l when there is
// something to read.
func (l *tcpLink) startResting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired.Load() {
		l.state = linkReady
		linkPoller.queueLink(l)
		return
	}
	l.state = linkResting
	_ = l.armEvents()
}

// beginTurn begins a worker's turn.
func (l *tcpLink) beginTurn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.drained = linkServed, false
}

// endTurn ends a worker's turn. The link is not owned.
func (l *tcpLink) endTurn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == linkServed {
		l.state = linkResting
		return
	}
	l.state = linkReady
	linkPoller.requeueLink(l)
}

// takeOwnership makes the caller, which serves l, its owner.
func (l *tcpLink) takeOwnership() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = linkOwned
	_ = l.armEvents()
}

// armEvents, with l locked, makes the kernel report the events that l waits
// for.
func (l *tcpLink) armEvents() error {
	events := l.armed
	if l.state == linkOwned {
		events |= unix.EPOLLONESHOT
	} else {
		events |= restEvents
	}
	return l.epoll.setEvents(l.fd, events)
}

// handleEvents handles events from epoll. If it returns true, l has become ready and the caller
// must queue it.
func (l *tcpLink) handleEvents(events uint32) bool {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		events |= l.rd.event | l.wr.event
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLPRI) != 0 {
		l.finOrUrgent.Store(true)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeWaiters(l.armed & events)
	if l.armed &^= events; l.state == linkOwned {
		if l.armed != 0 && !l.closed {
			_ = l.armEvents()
		}
		return false
	}
	return events&l.rd.event != 0 && l.markReadyLocked()
}

// markReadyLocked records that there may be something to read. It returns true if l must be queued.
func (l *tcpLink) markReadyLocked() bool {
	switch l.state {
	case linkResting:
		l.state = linkReady
		return true
	case linkServed:
		l.state = linkServedAgain
	}
	return false
}

// readNow reads without waiting. It makes no system call if the last one has
// emptied the socket, that is if it has not filled vec, unless a FIN or urgent
// data has arrived.
func (l *tcpLink) readNow(vec [][]byte) (int, error) {
	if l.drained && !l.finOrUrgent.Load() && !l.expired.Load() {
		l.drained = false
		return 0, errWouldBlock
	}
	l.rd.setVec(vec)
	defer l.rd.clearVec()
	n, err := l.tryCall(&l.rd, unix.MSG_DONTWAIT)
	l.drained = n < l.rd.size
	return l.readResult(n, err)
}

// shouldBeOwned reports whether l should have an owner although it could rest: hardly any other
// link waits, so its owner may busy-poll or block a thread.
func (l *tcpLink) shouldBeOwned() bool {
	return linkWaits.countWait(&l.lastWait) && l.busyPoller.wouldWait()
}
