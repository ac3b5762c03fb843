package oncrpc

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/internal/mappedsend"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A data item in a file mapping is sent from the mapping. The mapping may become
// unreadable, because the file is truncated or its medium fails. The kernel then returns
// EFAULT, after it has sent a part of the records, and the item's owner must provide the
// rest:
//
//	mark │ head │ item ........ │ mark │ head │ item
//	└─ taken ──────────┘└ gone ─┘
//
// If the owner has no more either, the head announces too much. If none of the record was
// sent, the head is changed (Reply.Cut). Otherwise the connection is closed: the client
// retransmits the call, and gets what the file has by then.

// sendsMapped reports whether the kernel, and no one else, reads the bytes of replies.
func (c *tcpConn) sendsMapped() bool {
	_, direct := c.stream.(*net.TCPConn)
	return direct && !mappedsend.IsCrowded()
}

// maxVectors is the maximum number of pieces that a mappedWriter writes in one system
// call.
const maxVectors = 256

// A mappedWriter writes records with mapped items. It bounds the system calls that may
// wait for a disk.
type mappedWriter struct {
	socket    syscall.RawConn
	rest      *net.Buffers
	vec       []unix.Iovec
	sendFunc  func(fd uintptr) bool // the method sendSome, bound once
	connEnded func() bool           // reports whether the connection has ended

	written int
	err     error
	crowded bool
	delayed bool // a disk has used much of the time until the write deadline
}

// writeAll writes v, and removes from v what it has written.
func (w *mappedWriter) writeAll(c *tcpConn, t *net.TCPConn, v *net.Buffers) (err error) {
	if w.socket == nil {
		w.sendFunc, w.connEnded = w.sendSome, func() bool { return c.ctx.Err() != nil }
		if w.socket, err = t.SyscallConn(); err != nil {
			return err
		}
	}
	w.rest = v
	defer func() {
		w.rest = nil
		clear(w.vec[:cap(w.vec)])
	}()
	for len(*v) > 0 {
		if err := w.socket.Write(w.sendFunc); err != nil {
			return err
		}
		switch {
		case w.crowded:
			if !c.enterDiskWait(w.connEnded) {
				return net.ErrClosed
			}
			c.leaveDiskWait() // for the next attempt
			w.delayed = true
		case w.err != nil:
			return os.NewSyscallError("sendmsg", w.err)
		default:
			*v = dropBytes(*v, w.written)
		}
		if w.delayed {
			w.delayed = false
			c.out.setDeadline(time.Now())
		}
	}
	return nil
}

// enterDiskWait waits for a slot among the goroutines that wait for disks (package
// mappedsend), and returns false if the connection has ended. Otherwise leaveDiskWait
// must follow. Until then the peer is not at fault if the connection makes no progress.
func (c *tcpConn) enterDiskWait(hasEnded func() bool) bool {
	c.waitsForDisk.Store(true)
	if mappedsend.Await(hasEnded) {
		return true
	}
	c.waitsForDisk.Store(false)
	return false
}

func (c *tcpConn) leaveDiskWait() {
	mappedsend.Leave()
	c.waitsForDisk.Store(false)
}

// sendSome performs one sendmsg call. It returns false if the socket is full.
func (w *mappedWriter) sendSome(fd uintptr) bool {
	if w.crowded = !mappedsend.Enter(); w.crowded {
		return true
	}
	start := time.Now()
	defer func() {
		mappedsend.Leave()
		w.delayed = w.delayed || time.Since(start) > armTime
	}()
	w.vec = w.vec[:0]
	for _, b := range *w.rest {
		if len(b) > 0 && len(w.vec) < maxVectors {
			v := unix.Iovec{Base: &b[0]}
			v.SetLen(len(b))
			w.vec = append(w.vec, v)
		}
	}
	msg := unix.Msghdr{Iov: unsafe.SliceData(w.vec)}
	msg.SetIovlen(len(w.vec))
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&msg)), unix.MSG_NOSIGNAL)
		switch w.written, w.err = int(n), nil; errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		case 0:
		default:
			w.written, w.err = 0, errno
		}
		return true
	}
}

// If the pages are no longer in memory and their disk does not respond, the kernel waits
// for it with the socket locked. Requests for the connection's state then wait as well
// (keepalive.Meter), and so does Close; closeSocket checks lending for that.

// hasMappedItems reports whether the batch has mapped items.
func (q *replyQueue) hasMappedItems() bool {
	for _, cl := range q.batch {
		if cl.reply.Cut != nil {
			return true
		}
	}
	return false
}

// closeSocket closes nc. It does not wait for a disk. The calls' context must have ended.
func (c *tcpConn) closeSocket() {
	if c.lending.Load() {
		go c.nc.Close()
		return
	}
	c.nc.Close()
}

// socketState returns the connection's state, or its last known state if the kernel waits
// for a disk.
func (c *tcpConn) socketState() (s keepalive.State, ok bool) {
	return c.meter.Ask(func() keepalive.State { return keepalive.StateOf(c.nc) })
}

// isLost reports whether the peer has probably given up the connection.
func (c *tcpConn) isLost() bool {
	s, _ := c.socketState()
	return s.Lost
}

// errShrunk is the cause for closing a connection whose peer waits for bytes that no
// longer exist.
var errShrunk = errors.New("oncrpc: a file lost bytes while they were sent")

// copyVanished copies the item that the kernel could not read, and prepares the unsent
// bytes for the next write.
func (q *replyQueue) copyVanished() error {
	if !q.conn.enterDiskWait(func() bool { return q.conn.ctx.Err() != nil }) {
		return net.ErrClosed
	}
	defer q.conn.leaveDiskWait()
	taken := -totalLength(q.rest)
	for _, cl := range q.batch {
		taken += markLen + cl.reply.Len()
	}
	takenOfRecord := taken // the part that belongs to one call's record
	for _, cl := range q.batch {
		r := &cl.reply
		if r.Cut != nil && takenOfRecord < markLen+len(r.Head)+len(r.Item.B) { // perhaps a later one, but none before it
			err := cl.copyItem(max(takenOfRecord, 0))
			q.fillVec()
			q.rest = dropBytes(q.vec, taken)
			return err
		}
		takenOfRecord -= markLen + r.Len()
	}
	return syscall.EFAULT
}

// copyItem replaces a mapped item by a copy. taken is the number of bytes of its record
// already sent.
func (cl *tcpCall) copyItem(taken int) error {
	r, n := &cl.reply, len(cl.reply.Item.B)
	size := int64(buf.Size(n))
	if !cl.conn.memory.replies.TryAcquire(size) { // others may wait for this write
		return errShrunk
	}
	cl.replyReserved += size
	from := max(taken-markLen-len(r.Head), 0)
	lent := buf.Default.Get(n)
	end, err := r.Item.Reread(from, lent.B[from:])
	if end < n && taken > 0 {
		lent.Release()
		return errors.Join(errShrunk, err)
	}
	if end < n {
		r.Head = r.Cut(r.Head, end, err)
	}
	r.DropItem()
	lent.B = lent.B[:end]
	r.Item = lent
	return nil
}

func totalLength(v net.Buffers) (n int) {
	for _, b := range v {
		n += len(b)
	}
	return n
}

// dropBytes drops the first n bytes of v.
func dropBytes(v net.Buffers, n int) net.Buffers {
	for len(v) > 0 && n >= len(v[0]) {
		n -= len(v[0])
		v = v[1:]
	}
	if n > 0 {
		v[0] = v[0][n:]
	}
	return v
}
