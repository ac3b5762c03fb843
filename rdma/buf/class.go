package buf

import (
	"fmt"
	"math/bits"
)

// Pooled buffer sizes are powers of two, and from 64 KiB on a little more.
// Payloads that large are powers of two and follow a header, for which twice
// the memory would be a waste. A smaller request gets the smallest size; a
// larger request is allocated individually.
const (
	minShift    = 9  // 512 bytes: a short RPC message
	headerShift = 16 // from here on there is space for a header
	maxShift    = 22 // 4 MiB: the largest payload

	// headerSpace is the number of bytes added to the power of two: the page to which the runtime
	// rounds up large allocations.
	headerSpace = 8 << 10

	classes = maxShift - minShift + 1
)

// maxIdle bounds the bytes that a pool keeps for reuse, per size. Buffers
// released beyond it are garbage collected.
const maxIdle = 16 << 20

// classSize returns the buffer length for class c, in bytes.
func classSize(c int) int {
	n := 1 << (c + minShift)
	if c+minShift >= headerShift {
		n += headerSpace
	}
	return n
}

// Size returns the memory used by a buffer for n bytes.
func Size(n int) int {
	if c := classOf(n); c >= 0 {
		return classSize(c)
	}
	return n
}

// classOf returns the index of the smallest size that holds n bytes, or -1 if
// none does.
func classOf(n int) int {
	if n < 0 {
		panic(fmt.Sprintf("buf: length %d", n))
	}
	if below := 1 << (headerShift - 1); n > below {
		n = max(n-headerSpace, below+1)
	}
	switch {
	case n > 1<<maxShift:
		return -1
	case n <= 1<<minShift:
		return 0
	}
	return bits.Len(uint(n-1)) - minShift
}
