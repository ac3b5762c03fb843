package iwarp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A direction is the state that one goroutine needs to read, or another to
// write.
type direction struct {
	trap  uintptr
	event uint32
	fd    int
	iov   []unix.Iovec
	size  int // bytes of the iov

	faults bool // the memory may fault and be read from a disk
	msg    unix.Msghdr
	ready  chan struct{} // holds a token when a call is worth trying
	watch  stallWatch

	// call makes the system call with the iov.
	call func(flags int) (int, unix.Errno)
}

func (d *direction) init(fd int, trap uintptr, event uint32) {
	d.fd, d.trap, d.event = fd, trap, event
	d.ready = make(chan struct{}, 1)
	d.watch.init(d.wake)
	d.call = d.system
}

// system makes the system call. A short call bypasses the runtime's scheduler,
// which would otherwise have another thread watch whether the call lasts.
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

// set prepares the next calls to work on vec.
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

// unset undoes set, so that no memory of others is referenced.
func (d *direction) unset() {
	clear(d.iov)
	d.iov, d.size = d.iov[:0], 0
	d.msg.Iov = nil
}

// wake ends the current wait, or the next wait if none is in progress.
func (d *direction) wake() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}
