package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// fill sets p to the bytes of a pattern from offset off on. A byte of a pattern
// depends only on its offset, so any piece of a pattern can be checked.
func fill(p []byte, pattern uint64, off int64) {
	var word [8]byte
	for len(p) > 0 {
		w := mix(pattern + uint64(off)/8*0x9e3779b97f4a7c15)
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

// mix spreads x over all bits of the result (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// patternBytes returns the first n bytes of a pattern.
func patternBytes(pattern uint64, n int) []byte {
	p := make([]byte, n)
	fill(p, pattern, 0)
	return p
}

// patternOf derives a pattern from a name.
func patternOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// differ returns the first difference between got and want, or "".
func differ(want, got []byte) string {
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
