package ddp

// NoBuffer stands for the size of a buffer where a queue has none.
const NoBuffer = -1

// A Queue checks the segments that arrive for one queue number, in order
// (RFC 5041, Section 7.1). The zero value expects the first segment of the
// first message. It is not safe for concurrent use.
//
//	┌── last: next MSN, MO 0 ──┐
//	▼                          │
//	between messages ──▶ in a message (MSN fixed, MO = octets so far)
type Queue struct {
	done uint32 // messages that have arrived whole, modulo 2^32
	mo   uint32 // octets of the next one that have arrived
}

// MSN returns the sequence number of the message that arrives or is awaited.
func (q *Queue) MSN() uint32 { return FirstMSN + q.done }

// MO returns the number of octets of that message which have arrived.
func (q *Queue) MO() uint32 { return q.mo }

// Place checks whether the n octets of payload behind h go into the buffer of
// the message that is awaited or under way, which is size octets long, or
// NoBuffer. If so they belong at h.MO, and the queue moves on; after a segment
// with h.Last the message is whole, MO was its length less n, and the next
// segment needs the next buffer.
//
// The error is ErrNoBuffer, ErrMSNRange, ErrInvalidMO or ErrTooLong, in this
// order of precedence: the MSN says whose offset the MO is, so it comes before.
// The QN is the caller's to check. Zero-length segments are checked like
// others, for they take a buffer too (RFC 5040, Section 5.3).
func (q *Queue) Place(h Untagged, n, size int) error {
	switch {
	case size < 0:
		return ErrNoBuffer
	case h.MSN != q.MSN():
		return ErrMSNRange
	case h.MO != q.mo:
		return ErrInvalidMO
	case uint64(h.MO)+uint64(n) > uint64(size):
		return ErrTooLong
	}
	q.mo += uint32(n)
	if h.Last {
		q.done, q.mo = q.done+1, 0
	}
	return nil
}
