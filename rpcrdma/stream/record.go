package stream

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// Record marking (RFC 5531, Section 11).
const (
	markLen      = 4
	lastFragment = 1 << 31 // the other bits of a mark are the fragment's length in bytes
)

// errNoReplyRecord means that a server has written a record that is no reply.
var errNoReplyRecord = errors.New("stream: a record that is not an RPC reply")

// replyStart is the length in bytes of the fields that identify a reply: XID
// and msg_type.
const replyStart = 8

// A replyRecord extracts the records of replies from a stream, and gives their
// bytes to the calls that they answer. A record may be incomplete.
type replyRecord struct {
	mark  [markLen]byte
	marks int  // bytes of mark received
	last  bool // the fragment is the record's last
	left  int  // bytes of the fragment still to come

	start  [replyStart]byte
	starts int   // bytes of start received
	call   *call // the answered call, once start is complete; nil: none
}

// parse takes bytes. It returns how many were good, and the error of the next.
func (r *replyRecord) parse(c *conn, p []byte) (n int, err error) {
	for n < len(p) {
		if r.marks < markLen {
			k := copy(r.mark[r.marks:], p[n:])
			r.marks += k
			n += k
			if r.marks < markLen {
				return n, nil
			}
			mark := binary.BigEndian.Uint32(r.mark[:])
			r.last, r.left = mark&lastFragment != 0, int(mark&^lastFragment)
		} else {
			k := min(r.left, len(p)-n)
			if err := r.fragment(c, p[n:n+k]); err != nil {
				return n, err
			}
			n += k
		}
		if r.left == 0 {
			if err := r.endFragment(c); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// fragment takes bytes of the fragment.
func (r *replyRecord) fragment(c *conn, p []byte) error {
	if r.starts < replyStart {
		k := copy(r.start[r.starts:], p)
		r.starts += k
		r.left -= k
		p = p[k:]
		if r.starts < replyStart {
			return nil
		}
		if err := r.begin(c); err != nil {
			return err
		}
	}
	r.left -= len(p)
	if r.call != nil {
		r.call.add(p)
	}
	return nil
}

// begin finds the call of the reply.
func (r *replyRecord) begin(c *conn) error {
	if binary.BigEndian.Uint32(r.start[4:]) != rpcmsg.MsgReply {
		return errNoReplyRecord
	}
	r.call = c.pending[binary.BigEndian.Uint32(r.start[:])]
	if r.call == nil {
		return nil
	}
	n := r.call.most + 1 // if the rest of the record's length is unknown
	if r.last {
		n = replyStart + r.left
	}
	r.call.expect(n)
	r.call.add(r.start[:])
	return nil
}

// endFragment advances to the next mark, and to the next record after the last
// fragment.
func (r *replyRecord) endFragment(c *conn) error {
	r.marks = 0
	if !r.last {
		return nil
	}
	if r.starts < replyStart {
		return errNoReplyRecord
	}
	if r.call != nil {
		c.answered(r.call)
	}
	r.starts = 0
	return nil
}
