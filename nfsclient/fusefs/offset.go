package fusefs

import (
	"encoding/binary"
	"fmt"
	"os"
)

// offsets are the kernel's offsets in an open directory, which programs get from
// telldir and pass to seekdir. The offset of the position after an entry is the
// server's cookie, which is therefore also valid in another open directory and in
// another mount: an NFS server that exports the mount needs that. Two kinds of
// cookies cannot be offsets:
//
//   - from firstBig on, they would be negative; the map big has their offsets.
//   - from firstWide on, a 32-bit program may fail to read them (EOVERFLOW): without
//     large file support its off_t has 32 bits. The table wide has their offsets in a
//     directory that such a program has opened.
type offsets struct {
	big map[uint64]uint64

	is32Bit func() bool // reports on the program that opened the directory
	narrow  bool        // is32Bit returned true
	wide    wideCookies
}

const (
	firstBig  = 1 << 63
	firstWide = 1 << 30
	endNarrow = 1 << 31 // end of a 32-bit off_t's range
)

// offsetOf returns the kernel's offset for a cookie.
func (s *offsets) offsetOf(cookie uint64) uint64 {
	if cookie < firstWide {
		return cookie
	}
	if s.is32Bit != nil { // most directories of some servers have no wide cookie, and do not reach this point
		s.narrow, s.is32Bit = s.is32Bit(), nil
	}
	switch {
	case s.narrow:
		return s.wide.offsetOf(cookie)
	case cookie < firstBig:
		return cookie
	}
	return s.bigOffsetOf(cookie)
}

func (s *offsets) bigOffsetOf(cookie uint64) uint64 {
	off := cookie - firstBig
	for {
		if c, taken := s.big[off]; off != 0 && (!taken || c == cookie) {
			break
		}
		off = (off + 1) % firstBig
	}
	if s.big == nil {
		s.big = make(map[uint64]uint64)
	}
	s.big[off] = cookie
	return off
}

// cookieAt returns the cookie for an offset. It returns false for an offset that
// offsetOf did not return, or returned too long ago.
func (s *offsets) cookieAt(off uint64) (uint64, bool) {
	if s.narrow && off >= firstWide {
		return s.wide.cookieAt(off)
	}
	if c, ok := s.big[off]; ok {
		return c, true
	}
	return off, true
}

// rewind drops the offsets in wide: seekdir must not be called with a position from
// before rewinddir (POSIX, seekdir).
func (s *offsets) rewind() { s.wide = wideCookies{} }

// wideCookies are the last maxWide cookies of a listing, numbered from firstWide
// on. A cookie below firstWide is its own offset, so no two offsets are the same.
type wideCookies struct {
	numbers map[uint64]uint64 // by cookie
	ring    []uint64          // the cookie of number n is at n%maxWide
	next    uint64
}

func (w *wideCookies) offsetOf(cookie uint64) uint64 {
	if n, ok := w.numbers[cookie]; ok {
		return firstWide + n
	}
	if w.next == endNarrow-firstWide {
		*w = wideCookies{}
	}
	if w.numbers == nil {
		w.numbers = make(map[uint64]uint64)
	}
	n := w.next
	w.next++
	if n < maxWide {
		w.ring = append(w.ring, cookie)
	} else {
		delete(w.numbers, w.ring[n%maxWide])
		w.ring[n%maxWide] = cookie
	}
	w.numbers[cookie] = n
	return firstWide + n
}

func (w *wideCookies) cookieAt(off uint64) (uint64, bool) {
	n := off - firstWide
	if n >= w.next || n+maxWide < w.next {
		return 0, false
	}
	return w.ring[n%maxWide], true
}

// is32Bit reports whether a process is a 32-bit process. It does not read the
// program's file, which may be in this very mount.
func is32Bit(pid uint32) bool {
	if pid == 0 {
		return false
	}
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	return err == nil && is32BitVector(auxv)
}

// is32BitVector reports whether an auxiliary vector (getauxval(3)) has 32-bit
// words: its first word of 64 bits then holds a key and a value that is not 0, and
// otherwise a small key.
func is32BitVector(auxv []byte) bool {
	return len(auxv) >= 8 && binary.NativeEndian.Uint64(auxv) > 1<<32-1
}
