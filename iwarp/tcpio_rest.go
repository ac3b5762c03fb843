package iwarp

import "golang.org/x/sys/unix"

// A linkState tells who reads a link:
//
//	         rest                  event
//	owned ─────────▶ resting ───────────────▶ ready
//	  ▲                 ▲                       │ take
//	  │ own             │ settle                ▼
//	  └─────────────────┴───────────────────  served ─event─▶ servedAgain
//
// An owned link has a goroutine of its own that reads. It arms the epoll
// instance for each wait, so that no event wakes a thread while it reads. The
// other links stay armed, edge-triggered: a link whose socket has been read
// empty needs no system call to be reported again. A link with events during
// its turn is served again, after the others.
type linkState uint8

const (
	owned linkState = iota
	resting
	ready
	served
	servedAgain
)

// restEvents are the events of a link that is not owned.
const restEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

// rest ends the ownership of the caller: a worker serves l when there is
// something to read.
func (l *tcpLink) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired.Load() {
		l.state = ready
		idle.push(l)
		return
	}
	l.state = resting
	_ = l.arm()
}

// take begins the turn of a worker.
func (l *tcpLink) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.drained = served, false
}

// settle ends the turn of a worker. The link is not owned.
func (l *tcpLink) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == served {
		l.state = resting
		return
	}
	l.state = ready
	idle.requeue(l)
}

// own makes the caller, which serves l, the owner.
func (l *tcpLink) own() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = owned
	_ = l.arm()
}

// arm, with l locked, has the kernel report the events that l waits for.
func (l *tcpLink) arm() error {
	events := l.armed
	if l.state == owned {
		events |= unix.EPOLLONESHOT
	} else {
		events |= restEvents
	}
	return l.epoll.set(l.fd, events)
}

// happened handles events of the kernel. It returns true if l has become ready,
// and the caller must queue it.
func (l *tcpLink) happened(events uint32) bool {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		events |= l.rd.event | l.wr.event
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLPRI) != 0 {
		l.cut.Store(true)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake(l.armed & events)
	if l.armed &^= events; l.state == owned {
		if l.armed != 0 && !l.closed {
			_ = l.arm()
		}
		return false
	}
	return events&l.rd.event != 0 && l.readyLocked()
}

// readyLocked notes that it is worthwhile to read. It returns true if l must be
// queued.
func (l *tcpLink) readyLocked() bool {
	switch l.state {
	case resting:
		l.state = ready
		return true
	case served:
		l.state = servedAgain
	}
	return false
}

// readNow is read without a wait. It makes no system call if the last one has
// emptied the socket: if it has not filled vec, unless it ended before a FIN or
// urgent data.
func (l *tcpLink) readNow(vec [][]byte) (int, error) {
	if l.drained && !l.cut.Load() && !l.expired.Load() {
		l.drained = false
		return 0, errWouldBlock
	}
	l.rd.set(vec)
	defer l.rd.unset()
	n, err := l.try(&l.rd, unix.MSG_DONTWAIT)
	l.drained = n < l.rd.size
	return l.got(n, err)
}

// pays reports whether l should have an owner although it may rest: hardly any
// other link waits, so that its owner may wait for it on a processor or a
// thread.
func (l *tcpLink) pays() bool { return turns.alone(&l.turn) && l.lookout.wouldWait() }
