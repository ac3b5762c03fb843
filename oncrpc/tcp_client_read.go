package oncrpc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nfsrdma/nfsrdma/buf"
)

// read passes the replies to their calls until the connection ends.
func (c *TCPClient) read() {
	for n := 0; ; n++ {
		start, err := c.start(n == 0)
		if err == nil {
			err = c.receive()
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = cmp.Or(c.writeError(), err) // without one, the owner of the net.Conn has set the deadline
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("the server closed it after %d replies: %w", n, err)
		case len(start) > 0:
			err = fmt.Errorf("the server does not seem to speak RPC, its first bytes are %q: %w", start, err)
		}
		c.fail(err)
		c.endPlacing()
		return
	}
}

func (c *TCPClient) writeError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.err
}

// start waits for the next record, without a time limit. For the first record
// it returns some bytes, which identify a server that does not speak RPC.
func (c *TCPClient) start(first bool) ([]byte, error) {
	if _, err := c.in.br.Peek(1); err != nil || !first {
		return nil, err
	}
	some, err := c.in.br.Peek(min(c.in.br.Buffered(), quoted))
	return bytes.Clone(some), err
}

// receive reads one record. The bound is the longest reply that any call so far
// allows, not only the calls under way, because the record may answer an
// abandoned call.
func (c *TCPClient) receive() error {
	c.mu.Lock()
	c.in.max = c.longest
	c.mu.Unlock()
	if cl, n := c.placeable(); cl != nil {
		return c.place(cl, n)
	}
	record, err := c.in.next()
	if err != nil {
		return err
	}
	c.received.Add(1)
	if err := c.dispatch(record); err != nil {
		record.Release()
		return err
	}
	return nil
}

// dispatch takes ownership of a record and passes it to its call, if that call
// still waits.
func (c *TCPClient) dispatch(record *buf.Buf) error {
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
