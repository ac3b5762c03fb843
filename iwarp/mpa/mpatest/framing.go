// Package mpatest frames ULPDUs as RFC 5044 describes it, one octet after the
// other, to compare package mpa and what is built on it with. It shares no code
// with them.
package mpatest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A Stream is one direction of a connection in full operation.
type Stream struct {
	Markers, CRC bool
	At           int // octets that have gone, the Markers included
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Frame returns the octets of the FPDU around ulpdu that comes next, and goes on
// behind it.
func (s *Stream) Frame(ulpdu []byte) []byte {
	var out []byte
	start := -1 // of the ULPDU_Length field, in out
	marker := func() {
		if !s.Markers || (s.At+len(out))%512 != 0 {
			return
		}
		back := 0
		if start >= 0 {
			back = len(out) - start
		}
		out = append(out, 0, 0, byte(back>>8), byte(back))
	}
	put := func(octets []byte) {
		for _, o := range octets {
			marker()
			if start < 0 {
				start = len(out)
			}
			out = append(out, o)
		}
	}
	put([]byte{byte(len(ulpdu) >> 8), byte(len(ulpdu))})
	put(ulpdu)
	for n := 2 + len(ulpdu); n%4 != 0; n++ {
		put([]byte{0})
	}
	marker() // the CRC covers it
	var sum [4]byte
	if s.CRC {
		binary.LittleEndian.PutUint32(sum[:], crc32.Checksum(out, castagnoli))
	}
	put(sum[:])
	s.At += len(out)
	return out
}

// Cut returns the ULPDU of the FPDU that b begins with, and how many octets the
// FPDU takes, or 0 where b does not hold all of it. It goes on behind the FPDU,
// which must be as Frame makes it.
func (s *Stream) Cut(b []byte) (ulpdu []byte, n int, err error) {
	var plain []byte // without Markers
	size := 2
	for n = 0; len(plain) < size; n++ {
		if s.Markers && (s.At+n)%512 == 0 {
			n += 4
		}
		if n >= len(b) {
			return nil, 0, nil
		}
		if plain = append(plain, b[n]); len(plain) == 2 {
			length := 2 + int(plain[0])<<8 + int(plain[1])
			size = (length+3)/4*4 + 4
		}
	}
	ulpdu = plain[2 : 2+int(plain[0])<<8+int(plain[1])]
	if want := s.Frame(ulpdu); string(want) != string(b[:n]) {
		return nil, 0, fmt.Errorf("mpatest: no FPDU, or not at the right place: %x, want %x", b[:n], want)
	}
	return ulpdu, n, nil
}
