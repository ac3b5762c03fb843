package rpctls

import (
	"encoding/binary"
	"sync/atomic"
)

// A counter counts the TLS records of a stream (RFC 8446, Section 5.1), which may
// come in pieces of any length:
//
//	type │ version │ length │ content ...
//	  1       2         2      length
type counter struct {
	records atomic.Uint64

	header [recordHeader]byte
	have   int // bytes of header
	rest   int // bytes of the content that are still to come
}

const recordHeader = 5

// left returns how many bytes are left of the record's header, or of its content.
func (c *counter) left() int {
	if c.rest > 0 {
		return c.rest
	}
	return recordHeader - c.have
}

// between reports whether the stream is between two records.
func (c *counter) between() bool { return c.have == 0 && c.rest == 0 }

// pass counts the records that end in p.
func (c *counter) pass(p []byte) {
	for len(p) > 0 {
		if c.rest > 0 {
			n := min(c.rest, len(p))
			c.rest -= n
			p = p[n:]
			continue
		}
		n := copy(c.header[c.have:], p)
		c.have += n
		p = p[n:]
		if c.have == recordHeader {
			c.have = 0
			c.rest = int(binary.BigEndian.Uint16(c.header[3:]))
			c.records.Add(1)
		}
	}
}
