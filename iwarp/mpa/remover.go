package mpa

import "fmt"

// A Remover takes the Markers out of what a peer sends. They stand where they
// stand whatever the octets around them say, so that a reader can tell the
// socket beforehand to put them aside:
//
//	Scatter ─▶ readv ─▶ Took        stream:  M dddddd M dddd…
//	                                         │ └─▶ a  │ └─▶ a, b
//	                                         └────────┴───▶ put aside
//
// When an FPDU is known, CRC and Check look at the Markers in it, and End
// forgets them.
type Remover struct {
	pos  int    // in the interval, of the next octet to come
	came uint64 // octets other than Markers

	start uint64   // what came had reached, where the FPDU looked at starts
	kept  []marker // from there on

	vec   [][]byte
	aside [][MarkerLen]byte // of vec; the first may have come in part
}

type marker struct {
	at     uint64 // octets other than Markers in front of it
	octets [MarkerLen]byte
}

// NewRemover returns a Remover at the start of full operation.
func NewRemover() *Remover { return &Remover{aside: make([][MarkerLen]byte, 1)} }

// Scatter returns where the next octets of the stream go, so that those which are
// not Markers fill a and then b. The slices are valid until Took.
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

// Took notes that n octets came to where Scatter said, and returns how many of
// them are in a and b.
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
		r.aside[0] = r.aside[k] // the rest is to come
		break
	}
	clear(r.vec) // hold no caller's memory
	r.vec = r.vec[:0]
	return int(r.came - before)
}

// Begun tells whether a Marker in front of the next FPDU has come, in part at
// least. It belongs to that FPDU.
func (r *Remover) Begun() bool { return len(r.kept) > 0 || r.pos > 0 && r.pos < MarkerLen }

// CRC returns the CRC of the FPDU that starts here, whose octets in front of the
// CRC field are covered: they and the Markers that belong to it (RFC 5044,
// Section 4.4).
func (r *Remover) CRC(covered []byte) uint32 {
	crc, done := uint32(0), 0
	for i := range r.kept {
		m := &r.kept[i]
		at := int(m.at - r.start)
		if at > len(covered) {
			break
		}
		crc = UpdateCRC(crc, covered[done:at])
		crc = UpdateCRC(crc, m.octets[:])
		done = at
	}
	return UpdateCRC(crc, covered[done:])
}

// Check compares the Markers that have come of the FPDU that starts here, around
// a ULPDU of n octets, with where it starts. The error is ErrFPDUStart.
func (r *Remover) Check(n int) error {
	_, err := r.check(FPDULen(n))
	return err
}

// check returns how many Markers are the FPDU's: one behind it is the next one's.
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
		if got := parseMarker(m.octets); got != int(uint16(want)) {
			return 0, fmt.Errorf("%w: FPDUPTR %d, %d octets behind the start", ErrFPDUStart, got, want)
		}
	}
	return len(r.kept), nil
}

// End checks the Markers of the FPDU that starts here, all of which has come, and
// goes on to the next.
func (r *Remover) End(n int) error {
	size := FPDULen(n)
	own, err := r.check(size)
	r.kept = r.kept[:copy(r.kept, r.kept[own:])]
	r.start += uint64(size)
	return err
}
