package oncrpc

import (
	"errors"
	"net"
	"syscall"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// A data item in the mapping of a file is sent from the mapping. The mapping
// may become unreadable, because the file is truncated or its medium fails.
// Then the kernel returns EFAULT, after it has taken a part of the records, and
// the item's owner is asked for the rest:
//
//	mark │ head │ item ........ │ mark │ head │ item
//	└─ taken ──────────┘└ gone ─┘
//
// If the owner has no more either, the head announces too much. If no byte of
// the record was taken, the head is changed (Reply.Cut). Otherwise the
// connection ends: the client sends the call again, and gets what the file has
// by then.

// sendsMapped reports whether the kernel, and nobody else, reads the bytes of
// replies.
func (c *tcpConn) sendsMapped() bool {
	_, direct := c.line.(*net.TCPConn)
	return direct
}

// If the pages have left the memory and their disk does not answer, the kernel
// waits for it with the socket locked. Then whoever asks for the connection's
// traffic waits as well (keepalive.Meter), and so does Close: lending tells
// close of that.

// lends reports whether items of the batch are in mappings.
func (q *replyQueue) lends() bool {
	for _, cl := range q.batch {
		if cl.reply.Cut != nil {
			return true
		}
	}
	return false
}

// close closes the connection below. It does not wait for a disk. The context of
// the calls must have ended.
func (c *tcpConn) close() {
	if c.lending.Load() {
		go c.nc.Close()
		return
	}
	c.nc.Close()
}

// traffic returns how many bytes the peer has sent, and how many it has
// acknowledged, as they were known last if the kernel cannot tell for a disk.
func (c *tcpConn) traffic() (in, out uint64, ok bool) {
	return c.meter.Ask(func() (in, out uint64) { return keepalive.Traffic(c.nc) })
}

// errShrunk ends a connection: the peer waits for bytes that no longer exist.
var errShrunk = errors.New("oncrpc: a file lost bytes while they were sent")

// copyVanished copies the item that the kernel could not read, and prepares the
// rest of the batch for the next write.
func (q *replyQueue) copyVanished() error {
	taken := -lengthOf(q.rest)
	for _, cl := range q.batch {
		taken += markLen + cl.reply.Len()
	}
	of := taken // of one call's record
	for _, cl := range q.batch {
		r := &cl.reply
		if r.Cut != nil && of < markLen+len(r.Head)+len(r.Item.B) { // perhaps not the one, but none before it
			err := cl.copyItem(max(of, 0))
			q.fillVec()
			q.rest = skip(q.vec, taken)
			return err
		}
		of -= markLen + r.Len()
	}
	return syscall.EFAULT
}

// copyItem replaces an item in a mapping by a copy, for a record of which some
// bytes were taken.
func (cl *tcpCall) copyItem(taken int) error {
	r, n := &cl.reply, len(cl.reply.Item.B)
	size := int64(buf.Size(n))
	if !cl.conn.memory.replies.TryAcquire(size) { // others may wait for this write
		return errShrunk
	}
	cl.lent += size
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

func lengthOf(v net.Buffers) (n int) {
	for _, b := range v {
		n += len(b)
	}
	return n
}

// skip drops the first n bytes of v.
func skip(v net.Buffers, n int) net.Buffers {
	for len(v) > 0 && n >= len(v[0]) {
		n -= len(v[0])
		v = v[1:]
	}
	if n > 0 {
		v[0] = v[0][n:]
	}
	return v
}
