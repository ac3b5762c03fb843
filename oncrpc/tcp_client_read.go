package oncrpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nfsrdma/nfsrdma/buf"
)

// read hands the replies to their calls until the connection ends.
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
			err = c.writeError()
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("the server closed it after %d replies: %w", n, err)
		case len(start) > 0:
			err = fmt.Errorf("the server does not seem to speak RPC, its first octets are %q: %w", start, err)
		}
		c.fail(err)
		return
	}
}

func (c *TCPClient) writeError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.err
}

// start waits for the next record, for as long as it takes. Of the first it
// returns some octets: they tell what the server is that speaks no RPC.
func (c *TCPClient) start(first bool) ([]byte, error) {
	if _, err := c.in.br.Peek(1); err != nil || !first {
		return nil, err
	}
	some, err := c.in.br.Peek(min(c.in.br.Buffered(), quoted))
	return bytes.Clone(some), err
}

// receive reads one record. It may be as long as any call so far allows, and
// not only those under way: it may answer one that was given up.
func (c *TCPClient) receive() error {
	c.mu.Lock()
	c.in.max = c.longest
	c.mu.Unlock()
	record, err := c.in.next()
	if err != nil {
		return err
	}
	if err := c.dispatch(record); err != nil {
		record.Release()
		return err
	}
	return nil
}

// dispatch takes a record over and hands it to the call that it is for, if
// there is one.
func (c *TCPClient) dispatch(record *buf.Buf) error {
	n := len(record.B)
	if n < 4 {
		return fmt.Errorf("%w: a record of %d octets", errReply, n)
	}
	xid := binary.BigEndian.Uint32(record.B)
	c.mu.Lock()
	cl := c.calls[xid]
	if cl != nil && n > cl.maxReply {
		c.mu.Unlock()
		return fmt.Errorf("%w: a reply of %d octets to a call that allows %d", errRecordLong, n, cl.maxReply)
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
