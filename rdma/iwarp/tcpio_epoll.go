package iwarp

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An epoll is an epoll instance that a goroutine can wait for without a thread:
//
//	Go runtime's poller ◀── gate ◀─once─ instance ◀── sockets
//
// The gate is a second epoll instance, which tells the runtime that there are
// events, once per wait. Without the gate, each event would wake a runtime
// thread, even while a goroutine fetches the events anyway.
type epoll struct {
	fd   int
	gate *os.File
	raw  syscall.RawConn // gate's
}

// newFile is replaced in tests.
var newFile = os.NewFile

// newEpoll returns an instance without sockets.
func newEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	e := &epoll{fd: fd}
	if err := e.openGate(); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return e, nil
}

// openGate creates the gate, adds the epoll instance to it, and registers it with the runtime's
// poller.
func (e *epoll) openGate() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for os.NewFile
		_ = unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	e.gate = newFile(uintptr(fd), "epoll")
	if e.raw, err = e.gate.SyscallConn(); err == nil {
		err = epollCtl(fd, unix.EPOLL_CTL_ADD, e.fd, unix.EPOLLONESHOT)
	}
	if err == nil {
		// An error means that the runtime's poller has rejected the gate, which
		// os.NewFile does not report: awaitEvents would not wait.
		err = e.gate.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = e.gate.Close()
	}
	return err
}

// epollCtl makes the epoll instance epfd report these events for fd.
func epollCtl(epfd, op, fd int, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(epfd, op, fd, &ev))
}

// addFD adds fd. Until setEvents, only errors are reported, once.
func (e *epoll) addFD(fd int) error { return epollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, unix.EPOLLONESHOT) }

// setEvents makes the instance report these events for fd, including current ones.
func (e *epoll) setEvents(fd int, events uint32) error {
	return epollCtl(e.fd, unix.EPOLL_CTL_MOD, fd, events)
}

func (e *epoll) removeFD(fd int) { _ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// pollEvents fetches events without waiting.
func (e *epoll) pollEvents(events []unix.EpollEvent) []unix.EpollEvent {
	return epollWaitNow(e.fd, events)
}

func epollWaitNow(epfd int, events []unix.EpollEvent) []unix.EpollEvent {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
			uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
		if errno == 0 {
			return events[:n]
		}
		if errno != unix.EINTR {
			return nil
		}
	}
}

// awaitEvents waits until pollEvents would return events. It returns false
// after stopWaiting.
func (e *epoll) awaitEvents() bool {
	armed := false
	err := e.raw.Read(func(gate uintptr) bool {
		if !armed {
			armed = true
			return epollCtl(int(gate), unix.EPOLL_CTL_MOD, e.fd, unix.EPOLLIN|unix.EPOLLONESHOT) != nil
		}
		var one [1]unix.EpollEvent
		return len(epollWaitNow(int(gate), one[:])) > 0
	})
	return err == nil
}

// stopWaiting ends awaitEvents.
func (e *epoll) stopWaiting() { _ = e.gate.SetReadDeadline(longPast) }

// close closes the instance, which must not be used afterwards.
func (e *epoll) close() {
	_ = e.gate.Close()
	_ = unix.Close(e.fd)
}
