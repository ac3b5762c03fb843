package rpctls

import (
	"encoding/binary"
	"sync/atomic"
)

// A recordCounter counts the TLS records in a stream (RFC 8446, Section 5.1), which may
// arrive in pieces of any length:
//
//	type │ version │ length │ content ...
//	  1       2         2      length
type recordCounter struct {
	records atomic.Uint64

	header      [recordHeader]byte
	headerBytes int // bytes in header
	contentLeft int // content bytes still to come
}

const recordHeader = 5

// bytesLeft returns the number of bytes left in the record's header, or in its content.
func (c *recordCounter) bytesLeft() int {
	if c.contentLeft > 0 {
		return c.contentLeft
	}
	return recordHeader - c.headerBytes
}

// isBetweenRecords reports whether the stream is between two records.
func (c *recordCounter) isBetweenRecords() bool { return c.headerBytes == 0 && c.contentLeft == 0 }

// countRecords counts the records that begin in p.
func (c *recordCounter) countRecords(p []byte) {
	for len(p) > 0 {
		if c.contentLeft > 0 {
			n := min(c.contentLeft, len(p))
			c.contentLeft -= n
			p = p[n:]
			continue
		}
		n := copy(c.header[c.headerBytes:], p)
		c.headerBytes += n
		p = p[n:]
		if c.headerBytes == recordHeader {
			c.headerBytes = 0
			c.contentLeft = int(binary.BigEndian.Uint16(c.header[3:]))
			c.records.Add(1)
		}
	}
}
