// Package mpatest frames ULPDUs literally as RFC 5044 describes, byte by byte,
// as a reference for package mpa and its users. The two packages share no code.
package mpatest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A Stream is one direction on a connection in full operation.
type Stream struct {
	Markers, CRC bool
	At           int // bytes so far, the Markers included
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Frame returns the next FPDU, with the given ULPDU, and advances the stream.
func (s *Stream) Frame(ulpdu []byte) []byte {
	out := make([]byte, 0, len(ulpdu)+len(ulpdu)/100+32)
	start := -1 // ULPDU_Length field offset in out
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
	put := func(data ...byte) {
		for _, o := range data {
			marker()
			if start < 0 {
				start = len(out)
			}
			out = append(out, o)
		}
	}
	put(byte(len(ulpdu)>>8), byte(len(ulpdu)))
	put(ulpdu...)
	for n := 2 + len(ulpdu); n%4 != 0; n++ {
		put(0)
	}
	marker() // covered by the CRC
	sum := make([]byte, 4)
	if s.CRC {
		binary.LittleEndian.PutUint32(sum, crc32.Checksum(out, castagnoli))
	}
	put(sum...)
	s.At += len(out)
	return out
}

// Lacks returns a lower bound for the number of bytes missing from the first
// FPDU in b, or 0 if that FPDU is complete.
func (s *Stream) Lacks(b []byte) int {
	plain, size, length := 0, 2, 0 // bytes except Markers: present, in total
	for i := 0; i < len(b); i++ {
		if s.Markers && (s.At+i)%512 == 0 {
			i += 3
			continue
		}
		if plain++; plain <= 2 {
			length = length<<8 | int(b[i])
		}
		if plain == 2 {
			size = (2+length+3)/4*4 + 4
		}
		if plain == size {
			return 0
		}
	}
	return size - plain
}

// Cut returns the ULPDU in the FPDU that b begins with, and the FPDU length, or
// 0 if the FPDU in b is incomplete. The stream advances past the FPDU, which
// must equal Frame's result.
func (s *Stream) Cut(b []byte) (ulpdu []byte, n int, err error) {
	if s.Lacks(b) > 0 {
		return nil, 0, nil
	}
	var plain []byte
	for i := 0; i < len(b); i++ {
		if s.Markers && (s.At+i)%512 == 0 {
			i += 3
			continue
		}
		plain = append(plain, b[i])
	}
	ulpdu = plain[2:][:int(plain[0])<<8|int(plain[1])]
	want := s.Frame(ulpdu)
	if string(want) != string(b[:len(want)]) {
		return nil, 0, fmt.Errorf("mpatest: no FPDU, or at the wrong position: %x, want %x", b[:len(want)], want)
	}
	return ulpdu, len(want), nil
}
