package krb5

// length returns the number of bytes in the list.
func length(list [][]byte) int {
	n := 0
	for _, s := range list {
		n += len(s)
	}
	return n
}

// appendRange appends the bytes from to to of list, as slices of it, to dst,
// which may be list[:0].
func appendRange(dst, list [][]byte, from, to int) [][]byte {
	for _, s := range list {
		if lo, hi := max(from, 0), min(to, len(s)); lo < hi {
			dst = append(dst, s[lo:hi])
		}
		from -= len(s)
		to -= len(s)
	}
	return dst
}

// clearAll overwrites the bytes of the list.
func clearAll(list [][]byte) {
	for _, s := range list {
		clear(s)
	}
}

// A cursor is a place in a list of slices.
type cursor struct {
	rest [][]byte
	off  int // in rest[0]
}

// cursorAt returns the place that n bytes precede.
func cursorAt(list [][]byte, n int) cursor {
	c := cursor{rest: list}
	for n > 0 {
		n -= len(c.next(n))
	}
	return c
}

// run returns the contiguous bytes at c, at most n and at least one. The list
// must not end at c.
func (c *cursor) run(n int) []byte {
	for c.off == len(c.rest[0]) {
		c.rest, c.off = c.rest[1:], 0
	}
	s := c.rest[0][c.off:]
	return s[:min(n, len(s))]
}

// next is run, and leaves c behind the returned bytes.
func (c *cursor) next(n int) []byte {
	s := c.run(n)
	c.off += len(s)
	return s
}

// gather fills dst from c on.
func (c *cursor) gather(dst []byte) {
	for len(dst) > 0 {
		dst = dst[copy(dst, c.next(len(dst))):]
	}
}

// scatter writes src from c on.
func (c *cursor) scatter(src []byte) {
	for len(src) > 0 {
		src = src[copy(c.next(len(src)), src):]
	}
}

// rotateLeft moves the first n bytes of the size bytes from start on to their
// end, in place, with a copy of n bytes.
func rotateLeft(list [][]byte, start, size, n int) {
	to, from := cursorAt(list, start), cursorAt(list, start)
	first := make([]byte, n)
	from.gather(first)
	for left := size - n; left > 0; {
		s := from.run(left)
		done := copy(to.next(len(s)), s)
		from.off += done
		left -= done
	}
	to.scatter(first)
}
