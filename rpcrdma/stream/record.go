package stream

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// Record marking (RFC 5531, Section 11).
const (
	markLen      = 4
	lastFragment = 1 << 31 // a mark's other bits are the fragment length in bytes
)

// errNoReplyRecord means that a server has written a record that is no reply.
var errNoReplyRecord = errors.New("stream: a record that is not an RPC reply")

// replyStart is the length, in bytes, of the fields that identify a reply: XID
// and msg_type.
const replyStart = 8

// A replyParser extracts reply records from a stream, and appends their bytes
// to the calls that they answer. A record may be incomplete.
type replyParser struct {
	mark         [markLen]byte
	markBytes    int  // mark bytes received
	isLast       bool // the fragment is the record's last
	fragmentLeft int  // fragment bytes not yet received

	start      [replyStart]byte
	startBytes int   // start bytes received
	call       *call // the answered call, once start is complete; nil: none
}

// parseBytes parses p. It returns the number of valid bytes, and the error at the next one.
func (r *replyParser) parseBytes(c *conn, p []byte) (n int, err error) {
	for n < len(p) {
		if r.markBytes < markLen {
			k := copy(r.mark[r.markBytes:], p[n:])
			r.markBytes += k
			n += k
			if r.markBytes < markLen {
				return n, nil
			}
			mark := binary.BigEndian.Uint32(r.mark[:])
			r.isLast, r.fragmentLeft = mark&lastFragment != 0, int(mark&^lastFragment)
		} else {
			k := min(r.fragmentLeft, len(p)-n)
			if err := r.takeFragment(c, p[n:n+k]); err != nil {
				return n, err
			}
			n += k
		}
		if r.fragmentLeft == 0 {
			if err := r.endFragment(c); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// takeFragment consumes fragment bytes.
func (r *replyParser) takeFragment(c *conn, p []byte) error {
	if r.startBytes < replyStart {
		k := copy(r.start[r.startBytes:], p)
		r.startBytes += k
		r.fragmentLeft -= k
		p = p[k:]
		if r.startBytes < replyStart {
			return nil
		}
		if err := r.findCall(c); err != nil {
			return err
		}
	}
	r.fragmentLeft -= len(p)
	if r.call != nil {
		r.call.appendReply(p)
	}
	return nil
}

// findCall finds the call that the reply answers.
func (r *replyParser) findCall(c *conn) error {
	if binary.BigEndian.Uint32(r.start[4:]) != rpcmsg.MsgReply {
		return errNoReplyRecord
	}
	r.call = c.pending[binary.BigEndian.Uint32(r.start[:])]
	if r.call == nil {
		return nil
	}
	n := r.call.maxReply + 1 // if the rest of the record's length is unknown
	if r.isLast {
		n = replyStart + r.fragmentLeft
	}
	r.call.makeReplyBuffer(n)
	r.call.appendReply(r.start[:])
	return nil
}

// endFragment advances to the next mark, and to the next record after the last
// fragment.
func (r *replyParser) endFragment(c *conn) error {
	r.markBytes = 0
	if !r.isLast {
		return nil
	}
	if r.startBytes < replyStart {
		return errNoReplyRecord
	}
	if r.call != nil {
		c.completeReply(r.call)
	}
	r.startBytes = 0
	return nil
}
