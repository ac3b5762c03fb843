package iwarp

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A poller notifies links that can be read or written, once for each call of
// watch, so that a busy connection wakes nothing. It waits in the Go runtime's
// poller, without a thread.
type poller struct {
	mu    sync.Mutex
	links map[int32]*tcpLink // by descriptor
	file  *os.File           // the epoll instance, while there are links
	fd    int
}

// idle is the poller of all links.
var idle = poller{links: make(map[int32]*tcpLink)}

// enter adds l to the poller.
func (p *poller) enter(l *tcpLink) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		if err := p.start(); err != nil {
			return err
		}
	}
	ev := unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(l.fd)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, l.fd, &ev); err != nil {
		p.stop()
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.links[int32(l.fd)] = l
	return nil
}

// start creates the epoll instance, and a goroutine that queries it.
func (p *poller) start() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for os.NewFile
		_ = unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	p.fd, p.file = fd, os.NewFile(uintptr(fd), "epoll")
	file := p.file
	raw, err := file.SyscallConn()
	if err != nil {
		p.file = nil
		_ = file.Close()
		return err
	}
	go func() {
		defer file.Close()
		var events [128]unix.EpollEvent
		_ = raw.Read(func(fd uintptr) bool { // until the deadline
			for {
				n, _ := unix.EpollWait(int(fd), events[:], 0)
				p.tell(events[:max(n, 0)])
				if n < len(events) {
					return false
				}
			}
		})
	}()
	return nil
}

// stop, with the poller locked, ends the poller if it has no links.
func (p *poller) stop() {
	if len(p.links) == 0 && p.file != nil {
		_ = p.file.SetReadDeadline(longPast) // the goroutine that reads it closes it
		p.file = nil
	}
}

// leave removes l, which is locked.
func (p *poller) leave(l *tcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, int32(l.fd))
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, l.fd, nil)
	p.stop()
}

// tell wakes the links that have events.
func (p *poller) tell(events []unix.EpollEvent) {
	for _, ev := range events {
		p.mu.Lock()
		l := p.links[ev.Fd]
		p.mu.Unlock()
		if l != nil {
			l.happened(ev.Events)
		}
	}
}

// watch requests one notification of the events.
func (p *poller) watch(l *tcpLink, events uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired.Load() || l.closed {
		return os.ErrDeadlineExceeded
	}
	l.armed |= events
	return p.arm(l)
}

// arm, with l locked, has the kernel report the events that l waits for.
func (p *poller) arm(l *tcpLink) error {
	ev := unix.EpollEvent{Events: l.armed | unix.EPOLLONESHOT, Fd: int32(l.fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, l.fd, &ev))
}

// happened handles events of the kernel, after which the kernel reports no more
// until arm.
func (l *tcpLink) happened(events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		events |= l.rd.event | l.wr.event
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake(l.armed & events)
	if l.armed &^= events; l.armed != 0 && !l.closed {
		_ = idle.arm(l)
	}
}
