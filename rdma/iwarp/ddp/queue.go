package ddp

// NoBuffer is the buffer size for a queue without a buffer.
const NoBuffer = -1

// A Queue checks the segments that arrive for one queue number, in order (RFC
// 5041, Section 7.1). The zero value expects the first segment of the first
// message. It is not safe for concurrent use.
//
//	┌── last: next MSN, MO 0 ──┐
//	▼                          │
//	between messages ──▶ in a message (MSN fixed, MO = bytes so far)
type Queue struct {
	completed uint32 // complete messages, modulo 2^32
	mo        uint32 // bytes received so far for the next message
}

// msn returns the sequence number of the current or next message.
func (q *Queue) msn() uint32 { return FirstMSN + q.completed }

// Place checks whether the n payload bytes after h fit the buffer for the
// current or next message, which is size bytes long, or NoBuffer. If so, the
// caller must place them at h.MO, and the queue advances. After a segment with
// h.Last the message is complete, its length is h.MO+n, and the next segment
// needs the next buffer.
//
// The error is ErrNoBuffer, ErrMSNRange, ErrInvalidMO or ErrTooLong, in this
// order of precedence: the MO is an offset in the message that the MSN names,
// so the MSN is checked first. The caller must check the QN. Zero-length
// segments are checked like others, since they also use a buffer (RFC 5040,
// Section 5.3).
func (q *Queue) Place(h Untagged, n, size int) error {
	switch {
	case size < 0:
		return ErrNoBuffer
	case h.MSN != q.msn():
		return ErrMSNRange
	case h.MO != q.mo:
		return ErrInvalidMO
	case uint64(h.MO)+uint64(n) > uint64(size):
		return ErrTooLong
	}
	q.mo += uint32(n)
	if h.Last {
		q.completed, q.mo = q.completed+1, 0
	}
	return nil
}
