package ddp

// A Buffer describes the memory of an STag for a check.
type Buffer struct {
	TO  uint64 // tagged offset of its first byte
	Len uint64 // in bytes

	// Writable says that the peer may place data in the buffer. RFC 5041 has no
	// number for a buffer that the peer must not write: the error is
	// ErrInvalidSTag, as in Linux siw.
	Writable bool
}

// CheckTagged reports whether the n bytes of payload behind h fit into the
// buffer that the caller found for h.STag (RFC 5041, Section 7.1). The error is
// ErrInvalidSTag, ErrTOWrap or ErrBounds. An empty segment passes with any STag
// and TO (Section 5.2), so the caller need not find a buffer.
func CheckTagged(buf Buffer, h Tagged, n int) error {
	switch {
	case n == 0:
		return nil
	case !buf.Writable:
		return ErrInvalidSTag
	}
	return CheckRange(buf, h.TO, uint64(n))
}

// CheckRange reports whether the n bytes at offset to lie within buf; n must be
// above 0. The error is ErrTOWrap or ErrBounds. A wrap is reported first, since
// a range that wraps is also out of bounds and ErrTOWrap would never occur.
func CheckRange(buf Buffer, to, n uint64) error {
	switch {
	case to+n < to:
		return ErrTOWrap
	case to < buf.TO, to-buf.TO > buf.Len, n > buf.Len-(to-buf.TO):
		return ErrBounds
	}
	return nil
}
