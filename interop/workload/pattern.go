package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// fillPattern sets p to a pattern's bytes from offset off on. Each byte depends only on
// its offset, so any piece of a pattern can be checked.
func fillPattern(p []byte, pattern uint64, off int64) {
	var word [8]byte
	for len(p) > 0 {
		w := mixBits(pattern + uint64(off)/8*0x9e3779b97f4a7c15)
		at := int(off % 8)
		if at == 0 && len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, w)
			p, off = p[8:], off+8
			continue
		}
		binary.LittleEndian.PutUint64(word[:], w)
		n := copy(p, word[at:])
		p, off = p[n:], off+int64(n)
	}
}

// mixBits spreads x over all result bits (splitmix64's finalizer).
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// patternBytes returns a pattern's first n bytes.
func patternBytes(pattern uint64, n int) []byte {
	p := make([]byte, n)
	fillPattern(p, pattern, 0)
	return p
}

// patternOf derives a pattern from a name.
func patternOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// findDifference returns the first difference between got and want, or "".
func findDifference(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("byte %d of %d is %#02x instead of %#02x", i, len(want), got[i], want[i])
		}
	}
	return fmt.Sprintf("%d bytes instead of %d", len(got), len(want))
}
