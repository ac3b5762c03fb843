package buf

import (
	"fmt"
	"math/bits"
)

// The sizes of pooled buffers are powers of two, and from 64 KiB on a little
// more. Payloads of that size are powers of two and come behind a header, for
// which twice the memory would be a waste. A smaller request gets a buffer of
// the smallest size; a larger request is allocated individually.
const (
	minShift  = 9  // 512 bytes: a short RPC message
	roomShift = 16 // from here on there is room for a header
	maxShift  = 22 // 4 MiB: the largest payload

	// room is how many bytes are added to the power of two: the page that the
	// runtime rounds large allocations up to.
	room = 8 << 10

	classes = maxShift - minShift + 1
)

// maxIdle bounds the bytes that a pool keeps for reuse, per size. Buffers
// released beyond it go to the garbage collector.
const maxIdle = 16 << 20

// size returns the length in bytes of a buffer of class c.
func size(c int) int {
	n := 1 << (c + minShift)
	if c+minShift >= roomShift {
		n += room
	}
	return n
}

// Size returns the bytes of memory of a buffer for n bytes.
func Size(n int) int {
	if c := classOf(n); c >= 0 {
		return size(c)
	}
	return n
}

// classOf returns the index of the smallest size that holds n bytes, or -1 if
// none does.
func classOf(n int) int {
	if n < 0 {
		panic(fmt.Sprintf("buf: length %d", n))
	}
	if below := 1 << (roomShift - 1); n > below {
		n = max(n-room, below+1)
	}
	switch {
	case n > 1<<maxShift:
		return -1
	case n <= 1<<minShift:
		return 0
	}
	return bits.Len(uint(n-1)) - minShift
}
