package iwarp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A direction is a link's state for reading, or for writing, used by one
// goroutine at a time.
type direction struct {
	vectorTrap uintptr // number of the system call that takes a Msghdr
	singleTrap uintptr // number of the one for a single buffer, which costs the kernel less
	event      uint32
	fd         int
	iov        []unix.Iovec
	size       int // total iov length in bytes

	mayFault bool          // the memory may fault in from a disk
	mappings *mappingGuard // state of the other direction; nil: calls in this direction are never blocked by it
	msg      unix.Msghdr
	ready    chan struct{} // holds a token when a call is worth trying
	watch    stallWatch

	// call makes the system call with iov.
	call func(flags int) (int, unix.Errno)
}

func (d *direction) init(fd int, trap, flat uintptr, event uint32) {
	d.fd, d.vectorTrap, d.singleTrap, d.event = fd, trap, flat, event
	d.ready = make(chan struct{}, 1)
	d.watch.init(d.wakeWaiter)
	d.call = d.callSystem
}

// callSystem makes the system call. A short call bypasses the runtime's scheduler, which would
// otherwise have another thread monitor the call.
func (d *direction) callSystem(flags int) (int, unix.Errno) {
	call := unix.Syscall6
	if flags == unix.MSG_DONTWAIT && d.size <= shortCall && !d.mayFault && d.mappings.enterRawCall() {
		defer d.mappings.leaveRawCall()
		call = unix.RawSyscall6
	}
	flags |= unix.MSG_NOSIGNAL
	for {
		n, errno := d.callOnce(call, uintptr(flags))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// callOnce makes the system call once. The iov keeps the memory alive.
func (d *direction) callOnce(call func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno), flags uintptr) (n uintptr, errno unix.Errno) {
	if len(d.iov) == 1 {
		v := &d.iov[0]
		n, _, errno = call(d.singleTrap, uintptr(d.fd), uintptr(unsafe.Pointer(v.Base)), uintptr(v.Len), flags, 0, 0)
		return n, errno
	}
	d.msg.Iov = unsafe.SliceData(d.iov)
	d.msg.SetIovlen(len(d.iov))
	n, _, errno = call(d.vectorTrap, uintptr(d.fd), uintptr(unsafe.Pointer(&d.msg)), flags, 0, 0, 0)
	return n, errno
}

// setVec prepares the next calls to use vec.
func (d *direction) setVec(vec [][]byte) {
	for _, b := range vec[:min(len(vec), maxVectors)] {
		if len(b) > 0 {
			v := unix.Iovec{Base: unsafe.SliceData(b)}
			v.SetLen(len(b))
			d.iov = append(d.iov, v)
			d.size += len(b)
		}
	}
}

// clearVec undoes setVec, so that no foreign memory is referenced.
func (d *direction) clearVec() {
	clear(d.iov)
	d.iov, d.size = d.iov[:0], 0
	d.msg.Iov = nil
}

// wakeWaiter ends the current wait, or the next wait if none is in progress.
func (d *direction) wakeWaiter() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}
