package ddp

// A Buffer is the memory that an STag stands for, as a check needs it.
type Buffer struct {
	TO  uint64 // tagged offset of its first octet
	Len uint64 // in octets

	// Writable says that the peer may place data in it. RFC 5041 has no
	// number for a buffer where it may not: it is ErrInvalidSTag, which is
	// also what Linux siw answers.
	Writable bool
}

// CheckTagged tells whether the n octets of payload behind h fit into the
// buffer that the caller found for h.STag (RFC 5041, Section 7.1). The error is
// ErrInvalidSTag, ErrTOWrap or ErrBounds. A segment of no octets passes with
// any STag and TO (Section 5.2), so the caller need not look for a buffer.
func CheckTagged(buf Buffer, h Tagged, n int) error {
	switch {
	case n == 0:
		return nil
	case !buf.Writable:
		return ErrInvalidSTag
	}
	return CheckRange(buf, h.TO, uint64(n))
}

// CheckRange tells whether the n octets at offset to, more than 0, lie within
// buf. The error is ErrTOWrap or ErrBounds; a wrap is told first, for a sum
// that wraps is out of bounds too and would never get its own number.
func CheckRange(buf Buffer, to, n uint64) error {
	switch {
	case to+n < to:
		return ErrTOWrap
	case to < buf.TO, to-buf.TO > buf.Len, n > buf.Len-(to-buf.TO):
		return ErrBounds
	}
	return nil
}
