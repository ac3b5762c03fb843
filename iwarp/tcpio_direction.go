package iwarp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A direction is the state that one goroutine needs to read, or another to
// write.
type direction struct {
	trap  uintptr // of the system call with a Msghdr
	flat  uintptr // of the one for a single piece of memory, which costs the kernel less
	event uint32
	fd    int
	iov   []unix.Iovec
	size  int // bytes of the iov

	faults bool     // the memory may fault and be read from a disk
	lends  *lending // what the other direction does; nil: the calls of this one are never held up
	msg    unix.Msghdr
	ready  chan struct{} // holds a token when a call is worth trying
	watch  stallWatch

	// call makes the system call with the iov.
	call func(flags int) (int, unix.Errno)
}

func (d *direction) init(fd int, trap, flat uintptr, event uint32) {
	d.fd, d.trap, d.flat, d.event = fd, trap, flat, event
	d.ready = make(chan struct{}, 1)
	d.watch.init(d.wake)
	d.call = d.system
}

// system makes the system call. A short call bypasses the runtime's scheduler,
// which would otherwise have another thread watch whether the call lasts.
func (d *direction) system(flags int) (int, unix.Errno) {
	call := unix.Syscall6
	if flags == unix.MSG_DONTWAIT && d.size <= shortCall && !d.faults && d.lends.enter() {
		defer d.lends.leave()
		call = unix.RawSyscall6
	}
	flags |= unix.MSG_NOSIGNAL
	for {
		n, errno := d.make(call, uintptr(flags))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// make makes the system call once. The iov keeps the memory.
func (d *direction) make(call func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno), flags uintptr) (n uintptr, errno unix.Errno) {
	if len(d.iov) == 1 {
		v := &d.iov[0]
		n, _, errno = call(d.flat, uintptr(d.fd), uintptr(unsafe.Pointer(v.Base)), uintptr(v.Len), flags, 0, 0)
		return n, errno
	}
	d.msg.Iov = unsafe.SliceData(d.iov)
	d.msg.SetIovlen(len(d.iov))
	n, _, errno = call(d.trap, uintptr(d.fd), uintptr(unsafe.Pointer(&d.msg)), flags, 0, 0, 0)
	return n, errno
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
