package oncrpc

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A large reply's data item is received into its call's Sink, if the call can locate the
// item from the reply's first bytes (Exchange.Locate). The call cannot return during
// this: a caller that gives up interrupts the reader, which discards the rest of the
// reply.
//
//	record ─▶ head ─Locate─▶ item ═▶ Sink
//	                          └──▶ tail

// nextPlaceable returns the call whose reply is next, and the reply's length, if its item
// may be received into the call's Sink. It then sets c.placing to the call.
func (c *TCPClient) nextPlaceable() (cl *clientCall, n int) {
	b, err := c.in.br.Peek(markLen)
	if err != nil {
		return nil, 0 // readRecord reports it
	}
	mark := binary.BigEndian.Uint32(b)
	n = int(mark &^ lastFrag)
	if mark&lastFrag == 0 || n <= smallRecord {
		return nil, 0
	}
	if b, err = c.in.br.Peek(markLen + 4); err != nil {
		return nil, 0
	}
	xid := binary.BigEndian.Uint32(b[markLen:])
	c.mu.Lock()
	defer c.mu.Unlock()
	cl = c.calls[xid]
	if cl == nil || !cl.placesItem || n > cl.maxReply {
		return nil, 0
	}
	c.placing = cl
	return cl, n
}

// placeReply receives the n-byte reply to cl.
func (c *TCPClient) placeReply(cl *clientCall, n int) error {
	o, left, err := c.receiveParts(cl, n)
	c.received.Add(1)
	c.mu.Lock()
	interrupted := c.evicting && errors.Is(err, os.ErrDeadlineExceeded)
	if err == nil || interrupted {
		c.placing = nil
		delete(c.calls, cl.xid)
	}
	if c.evicting {
		c.evicting = false
		var lastWord time.Time
		if c.out.err != nil {
			lastWord = time.Now().Add(lastMessageTimeout)
		}
		_ = c.nc.SetReadDeadline(lastWord) // fails only if reading fails
	}
	c.mu.Unlock()
	switch {
	case err == nil:
		cl.reply <- o
		return nil
	case interrupted:
		cl.reply <- outcome{}
		_, err = io.CopyN(io.Discard, c.in.br, int64(left))
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err // failPlacing reports it to the call
}

// receiveParts reads the n-byte record after its mark. left is the number of bytes not
// read.
func (c *TCPClient) receiveParts(cl *clientCall, n int) (o outcome, left int, err error) {
	br := c.in.br
	left = markLen + n
	head, err := br.Peek(markLen + min(n, placeHead))
	if err != nil {
		return o, left, err
	}
	at, size := cl.locateItem(head[markLen:], n)
	padded := size + xdr.Pad(size)
	_, _ = br.Discard(markLen) // is buffered
	left = n
	rec := buf.Default.Get(n - padded)
	defer func() {
		if err != nil {
			rec.Release()
		}
	}()
	var padding [3]byte
	for _, part := range [...][]byte{rec.B[:at], cl.x.Sink[:size], padding[:padded-size], rec.B[at:]} {
		m, err := io.ReadFull(br, part)
		if left -= m; err != nil {
			return o, left, err
		}
	}
	return outcome{record: rec, itemLen: size, itemPos: at}, 0, nil
}

// locateItem returns the position and the size in bytes of the item in an n-byte reply.
// Without an item, the position is n and the size 0.
func (cl *clientCall) locateItem(head []byte, n int) (at, size int) {
	r := xdr.NewReader(head)
	if _, stat, err := readAccepted(&r, cl.xid); err != nil || stat != rpcmsg.Success {
		return n, 0
	}
	size = cl.x.Locate(&r)
	at = r.Offset()
	if r.Err() != nil || size <= 0 || size > len(cl.x.Sink) || size+xdr.Pad(size) > n-at {
		return n, 0
	}
	return at, size
}

// evictLocked makes the reader release cl's memory, if it is receiving into it. cl's
// outcome then follows at once.
func (c *TCPClient) evictLocked(cl *clientCall) {
	if c.placing == cl {
		c.evicting = true
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // fails only if reading fails
	}
}

// failPlacing fails the call whose item was being received when the connection closed.
func (c *TCPClient) failPlacing() {
	c.mu.Lock()
	cl, err := c.placing, c.err
	c.placing = nil
	c.mu.Unlock()
	if cl != nil {
		cl.reply <- outcome{err: err}
	}
}
