package krb5

// totalLength returns the number of bytes in the list.
func totalLength(list [][]byte) int {
	n := 0
	for _, s := range list {
		n += len(s)
	}
	return n
}

// appendRange appends to dst the parts of list that hold its bytes in [from, to). dst may be
// list[:0].
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

// clearAll zeroes the bytes in the list.
func clearAll(list [][]byte) {
	for _, s := range list {
		clear(s)
	}
}

// A cursor is a position in a list of slices.
type cursor struct {
	rest [][]byte
	off  int // in rest[0]
}

// cursorAt returns the position after n bytes.
func cursorAt(list [][]byte, n int) cursor {
	c := cursor{rest: list}
	for n > 0 {
		n -= len(c.readRun(n))
	}
	return c
}

// peekRun returns the contiguous bytes at c, at most n and at least one. The list
// must not end at c.
func (c *cursor) peekRun(n int) []byte {
	for c.off == len(c.rest[0]) {
		c.rest, c.off = c.rest[1:], 0
	}
	s := c.rest[0][c.off:]
	return s[:min(n, len(s))]
}

// readRun returns the contiguous bytes at c, at most n, and moves c past them.
func (c *cursor) readRun(n int) []byte {
	s := c.peekRun(n)
	c.off += len(s)
	return s
}

// gather fills dst with the bytes at c.
func (c *cursor) gather(dst []byte) {
	for len(dst) > 0 {
		dst = dst[copy(dst, c.readRun(len(dst))):]
	}
}

// scatter writes src at c.
func (c *cursor) scatter(src []byte) {
	for len(src) > 0 {
		src = src[copy(c.readRun(len(src)), src):]
	}
}

// rotateLeft rotates the size bytes at start left by n, in place. It allocates only n bytes.
func rotateLeft(list [][]byte, start, size, n int) {
	to, from := cursorAt(list, start), cursorAt(list, start)
	first := make([]byte, n)
	from.gather(first)
	for left := size - n; left > 0; {
		s := from.peekRun(left)
		done := copy(to.readRun(len(s)), s)
		from.off += done
		left -= done
	}
	to.scatter(first)
}
