package iwarp

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mappedsend"
	"github.com/nfsrdma/nfsrdma/internal/quickack"
	"github.com/nfsrdma/nfsrdma/internal/samehost"
)

// A linkReader reads a link when there is something to read. readLink returns
// when the link is empty or has an owner. It returns false if w is no longer
// active.
type linkReader interface{ readLink(w *worker) bool }

// A tcpLink is a kernel TCP socket. It gathers and scatters with one system
// call. It is not in the net package's poller, which would wake a thread
// whenever data arrives, even while a goroutine reads:
//
//	no data                   ─▶ polls for a moment ─▶ waits by the poller, with no thread
//	buffer full, mid-message, ─▶ waits in the kernel for a moment, on a thread, if few do
//	or hardly any other waits    ─▶ waits by the poller
type tcpLink struct {
	fd    int
	stall time.Duration // for writes
	rd    direction
	wr    direction

	epoll *epoll

	// The reading goroutine owns these.
	reader     linkReader // reads when the link is not owned
	busyPoller busyPoller
	lastWait   uint64 // number of the last wait
	drained    bool   // readNow has read the socket empty
	fewBytes   bool   // the last read emptied the socket and returned few bytes
	ackNow     func(fd int)

	expired     atomic.Bool
	finOrUrgent atomic.Bool // a FIN or urgent data has arrived: a short read may leave data

	fdMu sync.RWMutex // held for reading by withFD

	mu          sync.Mutex
	state       linkState
	next        *tcpLink // in the poller's queue
	armed       uint32   // events that goroutines are waiting for
	deadline    time.Time
	expireTimer *time.Timer // for deadline
	closed      bool
}

// newTCPLink returns a link that owns nc, or nil if nc is not a kernel TCP
// socket.
func newTCPLink(nc net.Conn, stall time.Duration) *tcpLink {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	l := &tcpLink{fd: -1, stall: stall, ackNow: quickack.Send}
	_ = raw.Control(func(fd uintptr) {
		if l.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			l.fd = -1
		}
	})
	if l.fd < 0 {
		return nil
	}
	l.rd.init(l.fd, unix.SYS_RECVMSG, unix.SYS_RECVFROM, unix.EPOLLIN|unix.EPOLLRDHUP)
	l.wr.init(l.fd, unix.SYS_SENDMSG, unix.SYS_SENDTO, unix.EPOLLOUT)
	if err := linkPoller.addLink(l); err != nil {
		_ = unix.Close(l.fd)
		return nil
	}
	// A caller that must not block passes MSG_DONTWAIT.
	_ = unix.SetNonblock(l.fd, false)
	if samehost.Is(nc.LocalAddr(), nc.RemoteAddr()) {
		samehost.SetReno(l.fd)
	}
	l.setResetOnClose(true)
	limit := unix.NsecToTimeval(threadTime.Nanoseconds())
	_ = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	_ = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	_ = t.Close() // the socket's other descriptor
	return l
}

// tryCall makes d's system call with flags, unless the link has expired.
func (l *tcpLink) tryCall(d *direction, flags int) (int, error) {
	if l.expired.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	if d.mayFault {
		if !mappedsend.Enter() {
			return 0, errCrowded
		}
		defer mappedsend.Leave()
	}
	switch n, errno := d.call(flags); errno {
	case 0:
		return n, nil
	case unix.EAGAIN:
		return 0, errWouldBlock
	default:
		return 0, errno
	}
}

func (l *tcpLink) read(vec [][]byte, d *waitBudget) (int, error) {
	l.rd.setVec(vec)
	defer l.rd.clearVec()
	n, err := l.tryCall(&l.rd, unix.MSG_DONTWAIT)
	if err == errWouldBlock {
		l.busyPoller.poll(func() bool {
			n, err = l.tryCall(&l.rd, unix.MSG_DONTWAIT)
			return err != errWouldBlock
		})
	}
	if err == errWouldBlock {
		n, err = l.waitInKernel(d)
	}
	return l.readResult(n, err)
}

// readResult returns the results for a read, with io.EOF for 0 bytes.
func (l *tcpLink) readResult(n int, err error) (int, error) {
	if err == nil {
		l.fewBytes = n < min(l.rd.size, quickack.Few)
	}
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// ackFewBytes acknowledges received bytes immediately, if TCP would delay that (package quickack).
func (l *tcpLink) ackFewBytes() {
	if l.fewBytes {
		l.fewBytes = false
		l.ackNow(l.fd)
	}
}

// waitInKernel blocks in the kernel for a moment, if few goroutines do so.
func (l *tcpLink) waitInKernel(d *waitBudget) (int, error) {
	if _, err := d.remaining(); err != nil {
		return 0, err
	}
	if !linkWaits.countWait(&l.lastWait) && !d.owed || !threads.acquire() {
		return 0, errWouldBlock
	}
	defer threads.release()
	start := d.beginWait()
	n, err := l.tryCall(&l.rd, 0)
	d.endWait(start)
	return n, err
}

func (l *tcpLink) awaitReady(d *waitBudget) error {
	limit, err := d.remaining()
	if err != nil {
		return err
	}
	start := d.beginWait()
	err = l.waitForPoller(&l.rd, limit)
	d.endWait(start)
	return err
}

func (l *tcpLink) write(vec [][]byte, wait bool) (int, error) {
	l.wr.setVec(vec)
	defer l.wr.clearVec()
	if !wait {
		return l.tryCall(&l.wr, unix.MSG_DONTWAIT)
	}
	for {
		n, err := l.sendSome()
		if err != errWouldBlock {
			return n, err
		}
		if err := l.waitForPoller(&l.wr, l.stall); err != nil {
			return 0, err
		}
	}
}

// sendSome sends as much as the socket buffer accepts, and waits a moment for space for the rest.
func (l *tcpLink) sendSome() (int, error) {
	if !threads.acquire() {
		return l.tryCall(&l.wr, unix.MSG_DONTWAIT)
	}
	defer threads.release()
	return l.tryCall(&l.wr, 0)
}

// waitForPoller waits until the poller reports that d is ready, or the limit
// passes.
func (l *tcpLink) waitForPoller(d *direction, limit time.Duration) error {
	if err := l.requestEvents(d.event); err != nil {
		return err
	}
	d.watch.beginWait(limit)
	<-d.ready
	return d.watch.endWait()
}

// requestEvents requests one notification for the events.
func (l *tcpLink) requestEvents(events uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired.Load() || l.closed {
		return os.ErrDeadlineExceeded
	}
	l.armed |= events
	return l.armEvents()
}

// wakeWaiters wakes the goroutines that wait for the events.
func (l *tcpLink) wakeWaiters(events uint32) {
	for _, d := range [...]*direction{&l.rd, &l.wr} {
		if d.event&events != 0 {
			d.wakeWaiter()
		}
	}
}

func (l *tcpLink) expire(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.deadline.IsZero() && !t.Before(l.deadline) {
		return
	}
	l.deadline = t
	if l.expireTimer != nil {
		l.expireTimer.Stop()
	}
	l.expireTimer = time.AfterFunc(max(time.Until(t), 0), l.expireNow)
	if t == longPast {
		l.expireNowLocked()
	}
}

// expireNow makes every further use fail.
func (l *tcpLink) expireNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.expireNowLocked()
	}
}

func (l *tcpLink) expireNowLocked() {
	l.expired.Store(true)
	l.wakeWaiters(l.rd.event | l.wr.event)
	if l.markReadyLocked() {
		linkPoller.queueLink(l)
	}
}

// withFD calls f with the descriptor, if the link is not closed. l is not
// locked during the call: if the writer waits for a disk, so does f, and others
// must still be able to abort the connection and to handle its events.
func (l *tcpLink) withFD(f func(fd int)) {
	l.fdMu.RLock()
	defer l.fdMu.RUnlock()
	if !l.isClosed() {
		f(l.fd)
	}
}

func (l *tcpLink) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *tcpLink) closeWrite() {
	if l.expired.Load() {
		return
	}
	l.setResetOnClose(false)
	l.withFD(func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) })
}

// setResetOnClose sets whether the connection is reset when its socket is closed, even by process
// exit.
func (l *tcpLink) setResetOnClose(on bool) {
	linger := unix.Linger{}
	if on {
		linger.Onoff = 1
	}
	l.withFD(func(fd int) { _ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger) })
}

func (l *tcpLink) close() {
	if !l.markClosed() {
		return
	}
	l.fdMu.Lock() // a function called by withFD returns soon, since nothing writes
	defer l.fdMu.Unlock()
	_ = unix.Close(l.fd)
}

// markClosed marks l closed, and reports whether it was open.
func (l *tcpLink) markClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	if l.expireTimer != nil {
		l.expireTimer.Stop()
	}
	l.rd.watch.stop()
	l.wr.watch.stop()
	linkPoller.removeLink(l)
	return true
}

// emss returns the effective maximum segment size in bytes (RFC 5044, Section
// 4.5), or 0 if it is not available.
func (l *tcpLink) emss() (size int) {
	l.withFD(func(fd int) { size, _ = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return size
}
