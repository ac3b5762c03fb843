package mpa

import "fmt"

// A Remover removes the Markers from a received stream. Marker positions do not
// depend on the bytes around them, so that a reader can direct the socket in
// advance to store them separately:
//
//	Scatter ─▶ readv ─▶ Took        stream:  M dddddd M dddd…
//	                                         │ └─▶ a  │ └─▶ a, b
//	                                         └────────┴───▶ aside
//
// When an FPDU's length is known, CRC and Check examine the Markers in the
// FPDU, and End drops them.
type Remover struct {
	pos      int    // next byte's position in the interval
	received uint64 // bytes received, other than Markers

	start   uint64   // value of received at the current FPDU's start
	markers []marker // Markers from there on

	vec        [][]byte
	markerBufs [][MarkerLen]byte // Marker destinations in vec; the first may be partly received
}

type marker struct {
	offset uint64 // bytes before it, other than Markers
	bytes  [MarkerLen]byte
}

// NewRemover returns a Remover at the start of full operation.
func NewRemover() *Remover { return &Remover{markerBufs: make([][MarkerLen]byte, 1)} }

// Scatter returns the destinations for the next stream bytes, so that the bytes
// other than Markers fill a and then b. The slices are valid until Took.
func (r *Remover) Scatter(a, b []byte) [][]byte {
	if n := maxMarkers(len(a) + len(b)); n > len(r.markerBufs) {
		r.markerBufs = append(r.markerBufs, make([][MarkerLen]byte, n-len(r.markerBufs))...)
	}
	pos, k := r.pos, 0
	for _, dst := range [...][]byte{a, b} {
		for len(dst) > 0 {
			if pos < MarkerLen {
				r.vec = append(r.vec, r.markerBufs[k][pos:])
				pos, k = MarkerLen, k+1
			}
			n := min(len(dst), MarkerInterval-pos)
			r.vec = append(r.vec, dst[:n])
			dst, pos = dst[n:], (pos+n)%MarkerInterval
		}
	}
	return r.vec
}

// Took records that n bytes arrived in Scatter's slices, and returns the number
// of them in a and b.
func (r *Remover) Took(n int) int {
	before, k := r.received, 0
	for _, dst := range r.vec {
		if n == 0 {
			break
		}
		m := min(n, len(dst))
		n -= m
		if r.pos >= MarkerLen {
			r.received += uint64(m)
			r.pos = (r.pos + m) % MarkerInterval
			continue
		}
		if r.pos += m; r.pos == MarkerLen {
			r.markers = append(r.markers, marker{r.received, r.markerBufs[k]})
			k++
			continue
		}
		r.markerBufs[0] = r.markerBufs[k] // the rest has not arrived yet
		break
	}
	clear(r.vec) // drop references to the caller's memory
	r.vec = r.vec[:0]
	return int(r.received - before)
}

// Begun reports whether at least part of a Marker before the next FPDU has
// arrived. The Marker belongs to that FPDU.
func (r *Remover) Begun() bool { return len(r.markers) > 0 || r.pos > 0 && r.pos < MarkerLen }

// CRC computes the CRC for the FPDU that starts here. covered is the FPDU's
// bytes before the CRC field; the CRC covers them and the Markers among them
// (RFC 5044, Section 4.4).
func (r *Remover) CRC(covered []byte) uint32 {
	crc, done := uint32(0), 0
	for i := range r.markers {
		m := &r.markers[i]
		at := int(m.offset - r.start)
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
	_, err := r.checkMarkers(FPDULen(n))
	return err
}

// checkMarkers returns the number of Markers in the FPDU: a Marker after the FPDU belongs to the
// next one.
func (r *Remover) checkMarkers(size int) (int, error) {
	inside := 0
	for i, m := range r.markers {
		at := int(m.offset - r.start)
		if at >= size {
			return i, nil
		}
		want := at
		if at > 0 {
			want += inside * MarkerLen
			inside++
		}
		if got := parseMarker(m.bytes); got != int(uint16(want)) {
			return 0, fmt.Errorf("%w: FPDUPTR %d, %d bytes after the start", ErrFPDUStart, got, want)
		}
	}
	return len(r.markers), nil
}

// End checks the Markers in the FPDU that starts here, which must have arrived
// completely, and advances to the next FPDU.
func (r *Remover) End(n int) error {
	size := FPDULen(n)
	count, err := r.checkMarkers(size)
	r.markers = r.markers[:copy(r.markers, r.markers[count:])]
	r.start += uint64(size)
	return err
}
