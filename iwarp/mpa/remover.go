package mpa

import "fmt"

// A Remover removes the Markers from a received stream. The positions of the
// Markers do not depend on the bytes around them, so that a reader can direct
// the socket in advance to store them separately:
//
//	Scatter ─▶ readv ─▶ Took        stream:  M dddddd M dddd…
//	                                         │ └─▶ a  │ └─▶ a, b
//	                                         └────────┴───▶ aside
//
// When the length of an FPDU is known, CRC and Check examine the Markers in the
// FPDU, and End drops them.
type Remover struct {
	pos  int    // position of the next byte in the interval
	came uint64 // bytes received, other than Markers

	start uint64   // value of came at the start of the current FPDU
	kept  []marker // Markers from there on

	vec   [][]byte
	aside [][MarkerLen]byte // targets of vec; the first may be partly received
}

type marker struct {
	at    uint64 // bytes before it, other than Markers
	bytes [MarkerLen]byte
}

// NewRemover returns a Remover at the start of full operation.
func NewRemover() *Remover { return &Remover{aside: make([][MarkerLen]byte, 1)} }

// Scatter returns the destinations of the next bytes of the stream, so that the
// bytes other than Markers fill a and then b. The slices are valid until Took.
func (r *Remover) Scatter(a, b []byte) [][]byte {
	if n := maxMarkers(len(a) + len(b)); n > len(r.aside) {
		r.aside = append(r.aside, make([][MarkerLen]byte, n-len(r.aside))...)
	}
	pos, k := r.pos, 0
	for _, dst := range [...][]byte{a, b} {
		for len(dst) > 0 {
			if pos < MarkerLen {
				r.vec = append(r.vec, r.aside[k][pos:])
				pos, k = MarkerLen, k+1
			}
			n := min(len(dst), MarkerInterval-pos)
			r.vec = append(r.vec, dst[:n])
			dst, pos = dst[n:], (pos+n)%MarkerInterval
		}
	}
	return r.vec
}

// Took notes that n bytes arrived in the slices of Scatter, and returns how
// many of them are in a and b.
func (r *Remover) Took(n int) int {
	before, k := r.came, 0
	for _, dst := range r.vec {
		if n == 0 {
			break
		}
		m := min(n, len(dst))
		n -= m
		if r.pos >= MarkerLen {
			r.came += uint64(m)
			r.pos = (r.pos + m) % MarkerInterval
			continue
		}
		if r.pos += m; r.pos == MarkerLen {
			r.kept = append(r.kept, marker{r.came, r.aside[k]})
			k++
			continue
		}
		r.aside[0] = r.aside[k] // the rest is still to come
		break
	}
	clear(r.vec) // reference no memory of the caller
	r.vec = r.vec[:0]
	return int(r.came - before)
}

// Begun reports whether at least a part of a Marker before the next FPDU has
// arrived. The Marker belongs to that FPDU.
func (r *Remover) Begun() bool { return len(r.kept) > 0 || r.pos > 0 && r.pos < MarkerLen }

// CRC returns the CRC of the FPDU that starts here. covered is the FPDU's bytes
// before the CRC field; the CRC covers them and the Markers among them (RFC
// 5044, Section 4.4).
func (r *Remover) CRC(covered []byte) uint32 {
	crc, done := uint32(0), 0
	for i := range r.kept {
		m := &r.kept[i]
		at := int(m.at - r.start)
		if at > len(covered) {
			break
		}
		crc = UpdateCRC(crc, covered[done:at])
		crc = UpdateCRC(crc, m.bytes[:])
		done = at
	}
	return UpdateCRC(crc, covered[done:])
}

// Check compares the FPDU's Markers that have arrived with the FPDU's start.
// The FPDU starts here and has a ULPDU of n bytes. The error is ErrFPDUStart.
func (r *Remover) Check(n int) error {
	_, err := r.check(FPDULen(n))
	return err
}

// check returns how many Markers belong to the FPDU: a Marker behind the FPDU
// belongs to the next.
func (r *Remover) check(size int) (int, error) {
	within := 0
	for i, m := range r.kept {
		at := int(m.at - r.start)
		if at >= size {
			return i, nil
		}
		want := at
		if at > 0 {
			want += within * MarkerLen
			within++
		}
		if got := parseMarker(m.bytes); got != int(uint16(want)) {
			return 0, fmt.Errorf("%w: FPDUPTR %d, %d bytes behind the start", ErrFPDUStart, got, want)
		}
	}
	return len(r.kept), nil
}

// End checks the Markers of the FPDU that starts here, which must have arrived
// completely, and moves to the next FPDU.
func (r *Remover) End(n int) error {
	size := FPDULen(n)
	own, err := r.check(size)
	r.kept = r.kept[:copy(r.kept, r.kept[own:])]
	r.start += uint64(size)
	return err
}
