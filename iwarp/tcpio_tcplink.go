package iwarp

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/samehost"
)

// A turnTaker reads a link when there is something to read, and returns when the
// link is empty or has an owner. It returns false if w is no longer active.
type turnTaker interface{ serve(w *worker) bool }

// A tcpLink is a TCP socket of the kernel. It gathers and scatters with one
// system call. It is not in the net package's poller, which would wake a thread
// for all arriving data, even while a goroutine reads:
//
//	no data                   ─▶ polls for a moment ─▶ waits by the poller, with no thread
//	no room, within a message,─▶ waits in the kernel for a moment, on a thread, if few do
//	or hardly any other waits    ─▶ waits by the poller
type tcpLink struct {
	fd    int
	stall time.Duration // for writes
	rd    direction
	wr    direction

	epoll *epoll

	// The goroutine that reads owns these.
	owner   turnTaker // reads when the link is not owned
	lookout lookout
	turn    uint64 // number of the last wait for bytes
	drained bool   // readNow has emptied the socket

	expired atomic.Bool
	cut     atomic.Bool // a FIN or urgent data: a short read may leave something to read

	using sync.RWMutex // held for reading by control

	mu     sync.Mutex
	state  linkState
	next   *tcpLink // in the poller's queue
	armed  uint32   // events that goroutines wait for
	end    time.Time
	late   *time.Timer // for end
	closed bool
}

// newTCPLink takes over nc. It returns nil if nc is not a TCP socket of the
// kernel.
func newTCPLink(nc net.Conn, stall time.Duration) *tcpLink {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	l := &tcpLink{fd: -1, stall: stall}
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
	if err := idle.enter(l); err != nil {
		_ = unix.Close(l.fd)
		return nil
	}
	// A caller that must not wait says so in each call.
	_ = unix.SetNonblock(l.fd, false)
	if samehost.Is(nc.LocalAddr(), nc.RemoteAddr()) {
		samehost.Speed(l.fd)
	}
	l.abrupt(true)
	limit := unix.NsecToTimeval(threadTime.Nanoseconds())
	_ = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	_ = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	_ = t.Close() // one of two descriptors of the socket
	return l
}

// try makes the system call with the flags.
func (l *tcpLink) try(d *direction, flags int) (int, error) {
	if l.expired.Load() {
		return 0, os.ErrDeadlineExceeded
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

func (l *tcpLink) read(vec [][]byte, d *debt) (int, error) {
	l.rd.set(vec)
	defer l.rd.unset()
	n, err := l.try(&l.rd, unix.MSG_DONTWAIT)
	if err == errWouldBlock {
		l.lookout.look(func() bool {
			n, err = l.try(&l.rd, unix.MSG_DONTWAIT)
			return err != errWouldBlock
		})
	}
	if err == errWouldBlock {
		n, err = l.linger(d)
	}
	return l.got(n, err)
}

// got returns the results of a read.
func (l *tcpLink) got(n int, err error) (int, error) {
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// linger waits in the kernel for a moment, if few do so.
func (l *tcpLink) linger(d *debt) (int, error) {
	if _, err := d.left(); err != nil {
		return 0, err
	}
	if !turns.alone(&l.turn) && !d.owed || !threads.enter() {
		return 0, errWouldBlock
	}
	defer threads.leave()
	start := d.begin()
	n, err := l.try(&l.rd, 0)
	d.end(start)
	return n, err
}

func (l *tcpLink) await(d *debt) error {
	limit, err := d.left()
	if err != nil {
		return err
	}
	start := d.begin()
	err = l.park(&l.rd, limit)
	d.end(start)
	return err
}

func (l *tcpLink) write(vec [][]byte, wait bool) (int, error) {
	l.wr.set(vec)
	defer l.wr.unset()
	if !wait {
		return l.try(&l.wr, unix.MSG_DONTWAIT)
	}
	for {
		n, err := l.send()
		if err != errWouldBlock {
			return n, err
		}
		if err := l.park(&l.wr, l.stall); err != nil {
			return 0, err
		}
	}
}

// send sends as much as there is room for, and waits a moment for room for the
// rest.
func (l *tcpLink) send() (int, error) {
	if !threads.enter() {
		return l.try(&l.wr, unix.MSG_DONTWAIT)
	}
	defer threads.leave()
	return l.try(&l.wr, 0)
}

// park waits until the poller reports that d is ready.
func (l *tcpLink) park(d *direction, limit time.Duration) error {
	if err := l.watch(d.event); err != nil {
		return err
	}
	d.watch.begin(limit)
	<-d.ready
	return d.watch.end()
}

// watch requests one notification of the events.
func (l *tcpLink) watch(events uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired.Load() || l.closed {
		return os.ErrDeadlineExceeded
	}
	l.armed |= events
	return l.arm()
}

// wake ends the waits for the events.
func (l *tcpLink) wake(events uint32) {
	for _, d := range [...]*direction{&l.rd, &l.wr} {
		if d.event&events != 0 {
			d.wake()
		}
	}
}

func (l *tcpLink) expire(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.end.IsZero() && !t.Before(l.end) {
		return
	}
	l.end = t
	if l.late != nil {
		l.late.Stop()
	}
	l.late = time.AfterFunc(max(time.Until(t), 0), l.over)
	if t == longPast {
		l.overLocked()
	}
}

// over makes every use fail from now on.
func (l *tcpLink) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.overLocked()
	}
}

func (l *tcpLink) overLocked() {
	l.expired.Store(true)
	l.wake(l.rd.event | l.wr.event)
	if l.readyLocked() {
		idle.push(l)
	}
}

// control calls f with the descriptor, if the link is not closed. l is not locked
// meanwhile: if the writer waits for a disk, so does f, and others must still be
// able to end the connection and to take its events.
func (l *tcpLink) control(f func(fd int)) {
	l.using.RLock()
	defer l.using.RUnlock()
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
	l.abrupt(false)
	l.control(func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) })
}

// abrupt sets whether the connection is reset when its socket is closed, even
// by the end of the process.
func (l *tcpLink) abrupt(on bool) {
	linger := unix.Linger{}
	if on {
		linger.Onoff = 1
	}
	l.control(func(fd int) { _ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger) })
}

func (l *tcpLink) close() {
	if !l.closeFirst() {
		return
	}
	l.using.Lock() // what control calls ends soon, since nothing writes
	defer l.using.Unlock()
	_ = unix.Close(l.fd)
}

// closeFirst notes that l is closed, and reports whether it was open.
func (l *tcpLink) closeFirst() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	if l.late != nil {
		l.late.Stop()
	}
	l.rd.watch.stop()
	l.wr.watch.stop()
	idle.leave(l)
	return true
}

// emss returns the connection's maximum segment size in bytes (RFC 5044,
// Section 4.5), or 0 if it is not available.
func (l *tcpLink) emss() (size int) {
	l.control(func(fd int) { size, _ = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return size
}
