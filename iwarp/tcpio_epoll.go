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
// The gate is a second epoll instance. The runtime learns from it that there are
// events, once for each wait. Without the gate, each event would wake a thread
// of the runtime, even while a goroutine takes the events anyway.
type epoll struct {
	fd   int
	gate *os.File
	raw  syscall.RawConn // of gate
}

// newFile is replaced in tests.
var newFile = os.NewFile

// newEpoll makes an instance without sockets.
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
		err = control(fd, unix.EPOLL_CTL_ADD, e.fd, unix.EPOLLONESHOT)
	}
	if err == nil {
		// An error tells that the runtime's poller has not taken the gate, which
		// os.NewFile does not tell: await would not wait.
		err = e.gate.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = e.gate.Close()
	}
	return err
}

// control has the epoll instance epfd report these events of fd.
func control(epfd, op, fd int, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(epfd, op, fd, &ev))
}

// add makes fd known. Until set, only errors are reported, once.
func (e *epoll) add(fd int) error { return control(e.fd, unix.EPOLL_CTL_ADD, fd, unix.EPOLLONESHOT) }

// set has the instance report these events of fd from now on, and at once if
// there are any.
func (e *epoll) set(fd int, events uint32) error {
	return control(e.fd, unix.EPOLL_CTL_MOD, fd, events)
}

func (e *epoll) remove(fd int) { _ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// poll takes events, and does not wait.
func (e *epoll) poll(events []unix.EpollEvent) []unix.EpollEvent { return take(e.fd, events) }

func take(epfd int, events []unix.EpollEvent) []unix.EpollEvent {
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

// await waits until poll has events. It returns false after stop.
func (e *epoll) await() bool {
	armed := false
	err := e.raw.Read(func(gate uintptr) bool {
		if !armed {
			armed = true
			return control(int(gate), unix.EPOLL_CTL_MOD, e.fd, unix.EPOLLIN|unix.EPOLLONESHOT) != nil
		}
		var one [1]unix.EpollEvent
		return len(take(int(gate), one[:])) > 0
	})
	return err == nil
}

// stop ends await.
func (e *epoll) stop() { _ = e.gate.SetReadDeadline(longPast) }

// close closes the instance. Nothing may use it any more.
func (e *epoll) close() {
	_ = e.gate.Close()
	_ = unix.Close(e.fd)
}
