package oncrpc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// readReplies passes replies to their calls until the connection closes.
func (c *TCPClient) readReplies() {
	for n := 0; ; n++ {
		start, err := c.awaitRecord(n == 0)
		if err == nil {
			err = c.receiveReply()
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = cmp.Or(c.writeError(), err) // without one, the net.Conn's owner has set the deadline
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("the server closed it after %d replies: %w", n, err)
		case len(start) > 0:
			err = fmt.Errorf("the server does not seem to speak RPC, its first bytes are %q: %w", start, err)
		}
		c.closeWith(err)
		c.failPlacing()
		return
	}
}

func (c *TCPClient) writeError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.err
}

// awaitRecord waits for the next record, without a time limit. If the record is the
// first, it returns some bytes, which identify a server that does not speak RPC.
func (c *TCPClient) awaitRecord(first bool) ([]byte, error) {
	if _, err := c.in.br.Peek(1); err != nil || !first {
		return nil, err
	}
	some, err := c.in.br.Peek(min(c.in.br.Buffered(), quotedBytes))
	return bytes.Clone(some), err
}

// receiveReply reads one record. The limit is the longest reply that any call so far
// allows, not only the calls in flight, because the record may be the reply to an
// abandoned call.
func (c *TCPClient) receiveReply() error {
	c.mu.Lock()
	c.in.max = c.maxReply
	c.mu.Unlock()
	if cl, n := c.nextPlaceable(); cl != nil {
		return c.placeReply(cl, n)
	}
	record, err := c.in.readRecord()
	if err != nil {
		return err
	}
	c.received.Add(1)
	if err := c.dispatchReply(record); err != nil {
		record.Release()
		return err
	}
	return nil
}

// dispatchReply takes ownership of a record and passes it to its call, if that still
// waits.
func (c *TCPClient) dispatchReply(record *buf.Buf) error {
	n := len(record.B)
	if n < 4 {
		return fmt.Errorf("%w: a record of %d bytes", errReply, n)
	}
	xid := binary.BigEndian.Uint32(record.B)
	c.mu.Lock()
	cl := c.calls[xid]
	if cl != nil && n > cl.maxReply {
		c.mu.Unlock()
		return fmt.Errorf("%w: a reply of %d bytes to a call that allows %d", errRecordLong, n, cl.maxReply)
	}
	delete(c.calls, xid)
	c.mu.Unlock()
	if cl == nil {
		record.Release()
		return nil
	}
	cl.reply <- outcome{record: record}
	return nil
}
