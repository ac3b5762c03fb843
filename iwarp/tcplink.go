package iwarp

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tcpLink is a TCP socket of the kernel. It gathers and scatters with one system
// call, and is out of the net package's poller, which would wake a thread for all
// that comes, although somebody reads:
//
//	nothing there ─▶ looks again for a moment ─▶ waits by the poller, with no thread
//	no room, or within a message ──▶ waits in the kernel, on a thread, where few do,
//	                                 for a moment ─▶ waits by the poller
type tcpLink struct {
	fd    int
	stall time.Duration
	rd    direction
	wr    direction

	// For how many reads it does not pay to look for what comes, and how many
	// that will be when it has not paid again.
	sleepy, sleepier int

	expired atomic.Bool

	mu     sync.Mutex
	armed  uint32 // what the poller watches for
	end    time.Time
	late   *time.Timer // for end
	closed bool
}

// A direction is what one goroutine needs to read, or another to write.
type direction struct {
	trap  uintptr
	event uint32
	fd    int
	iov   []unix.Iovec
	size  int // octets of the iov

	faults bool // they may have to be read from a disk
	msg    unix.Msghdr
	ready  chan struct{} // holds a token when it is worth a try
	watch  stallWatch

	// call makes the system call with the iov.
	call func(flags int) (int, unix.Errno)
}

// newTCPLink takes nc over, or returns nil where it is no TCP socket of the kernel.
func newTCPLink(nc net.Conn, stall time.Duration) *tcpLink {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	l := &tcpLink{fd: -1, stall: stall, sleepier: 1}
	_ = raw.Control(func(fd uintptr) {
		if l.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			l.fd = -1
		}
	})
	if l.fd < 0 {
		return nil
	}
	l.rd.init(l.fd, unix.SYS_RECVMSG, unix.EPOLLIN|unix.EPOLLRDHUP)
	l.wr.init(l.fd, unix.SYS_SENDMSG, unix.EPOLLOUT)
	if err := idle.enter(l); err != nil {
		_ = unix.Close(l.fd)
		return nil
	}
	// Who would not wait says so, call by call.
	_ = unix.SetNonblock(l.fd, false)
	limit := unix.NsecToTimeval(threadTime.Nanoseconds())
	_ = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	_ = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	_ = t.Close() // one of two descriptors of the socket
	return l
}

func (d *direction) init(fd int, trap uintptr, event uint32) {
	d.fd, d.trap, d.event = fd, trap, event
	d.ready = make(chan struct{}, 1)
	d.watch.init(d.wake)
	d.call = d.system
}

// system makes the system call. One that is short the runtime need not know of:
// it would have another thread look whether it lasts.
func (d *direction) system(flags int) (int, unix.Errno) {
	d.msg.Iov = unsafe.SliceData(d.iov)
	d.msg.SetIovlen(len(d.iov))
	call := unix.Syscall
	if flags == unix.MSG_DONTWAIT && d.size <= shortCall && !d.faults {
		call = unix.RawSyscall
	}
	for {
		n, _, errno := call(d.trap, uintptr(d.fd), uintptr(unsafe.Pointer(&d.msg)), uintptr(flags|unix.MSG_NOSIGNAL))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// set makes vec what the next calls work on.
func (d *direction) set(vec [][]byte) {
	for _, b := range vec[:min(len(vec), maxVectors)] {
		if len(b) > 0 {
			v := unix.Iovec{Base: unsafe.SliceData(b)}
			v.SetLen(len(b))
			d.iov = append(d.iov, v)
			d.size += len(b)
		}
	}
}

// unset forgets it: nobody's memory is held.
func (d *direction) unset() {
	clear(d.iov)
	d.iov, d.size = d.iov[:0], 0
	d.msg.Iov = nil
}

// try makes the call, as the flags say.
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

func (l *tcpLink) read(vec [][]byte, mid bool) (int, error) {
	l.rd.set(vec)
	defer l.rd.unset()
	n, err := l.try(&l.rd, unix.MSG_DONTWAIT)
	if err == errWouldBlock {
		n, err = l.look()
	}
	if err == errWouldBlock && mid && threads.enter() {
		n, err = l.try(&l.rd, 0)
		threads.leave()
	}
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// lookers is the number of goroutines that look for octets again and again.
var lookers atomic.Int32

// look tries for a moment, where few do so. To fall asleep and be woken costs both
// ends more than the wait for an answer that comes soon. Whoever else has work
// for this processor goes first, in this process and in others. Where nothing
// came, the next waits are without.
func (l *tcpLink) look() (int, error) {
	if l.sleepy > 0 {
		l.sleepy--
		return 0, errWouldBlock
	}
	defer lookers.Add(-1)
	if int(lookers.Add(1)) > max(runtime.GOMAXPROCS(0)/2, 1) {
		return 0, errWouldBlock
	}
	next := yieldTime
	for start := time.Now(); ; {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		n, err := l.try(&l.rd, unix.MSG_DONTWAIT)
		if err != errWouldBlock {
			l.sleepier = max(l.sleepier/2, 1)
			return n, err
		}
		looked := time.Since(start)
		if looked > lookTime {
			l.sleepy = l.sleepier
			l.sleepier = min(2*l.sleepier, maxSleepier)
			return 0, errWouldBlock
		}
		if looked >= next { // not every time: it wakes a thread, if one sleeps
			runtime.Gosched()
			next += yieldTime
		}
	}
}

func (l *tcpLink) await(mid bool) error {
	limit := time.Duration(0)
	if mid {
		limit = l.stall
	}
	return l.park(&l.rd, limit)
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

// send sends what there is room for, and waits a moment for room for all of it.
func (l *tcpLink) send() (int, error) {
	if !threads.enter() {
		return l.try(&l.wr, unix.MSG_DONTWAIT)
	}
	defer threads.leave()
	return l.try(&l.wr, 0)
}

// park waits until the poller says that d is worth a try.
func (l *tcpLink) park(d *direction, limit time.Duration) error {
	if err := idle.watch(l, d.event); err != nil {
		return err
	}
	d.watch.begin(limit)
	<-d.ready
	return d.watch.end()
}

// wake ends the waits for the events.
func (l *tcpLink) wake(events uint32) {
	for _, d := range [...]*direction{&l.rd, &l.wr} {
		if d.event&events != 0 {
			d.wake()
		}
	}
}

// wake makes the wait end, or the next one where there is none.
func (d *direction) wake() {
	select {
	case d.ready <- struct{}{}:
	default:
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
		l.over()
	}
}

// over makes every use fail from now on.
func (l *tcpLink) over() {
	l.expired.Store(true)
	l.wake(l.rd.event | l.wr.event)
}

// control calls f with the descriptor, if the link is not closed.
func (l *tcpLink) control(f func(fd int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		f(l.fd)
	}
}

func (l *tcpLink) closeWrite() {
	l.control(func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) })
}

func (l *tcpLink) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.late != nil {
		l.late.Stop()
	}
	l.rd.watch.stop()
	l.wr.watch.stop()
	idle.leave(l)
	_ = unix.Close(l.fd)
}

// emss returns the connection's maximum segment size in octets (RFC 5044,
// Section 4.5), or 0 where it cannot be had.
func (l *tcpLink) emss() (size int) {
	l.control(func(fd int) { size, _ = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return size
}
