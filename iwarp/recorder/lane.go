package recorder

import (
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// Flags of a start-up frame (RFC 5044, Section 7.1.1).
const (
	offFlags = 16 // in bytes
	flagM    = 0x80
	flagC    = 0x40
)

// A lane is one direction of a recorded connection.
type lane struct {
	frame  []byte // the start-up frame,
	framed time.Time
	// the time of its last byte

	markers bool
	pos     int  // position of the next byte in the Markers' interval
	within  bool // an FPDU has begun
	length  [mpa.LengthLen]byte
	got     int // bytes of length so far
	left    int // bytes of the FPDU still missing behind length, without Markers

	dropped int // bytes that the ring has dropped, and
	fpdus   int // FPDUs among them
}

// next returns how many of the next bytes, at least one, belong to one FPDU,
// and whether they include its first and its last byte. A Marker belongs to the
// FPDU behind it.
func (l *lane) next(b []byte) (n int, starts, ends bool) {
	starts, l.within = !l.within, true
	for n < len(b) {
		run := len(b) - n
		if l.markers {
			if l.pos < mpa.MarkerLen {
				n += l.advance(min(run, mpa.MarkerLen-l.pos))
				continue
			}
			run = min(run, mpa.MarkerInterval-l.pos)
		}
		if l.got < mpa.LengthLen {
			l.length[l.got] = b[n]
			n += l.advance(1)
			if l.got++; l.got == mpa.LengthLen {
				l.left = mpa.FPDULen(mpa.ParseLength(l.length)) - mpa.LengthLen
			}
			continue
		}
		run = min(run, l.left)
		n += l.advance(run)
		if l.left -= run; l.left == 0 {
			l.within, l.got = false, 0
			return n, starts, true
		}
	}
	return n, starts, false
}

func (l *lane) advance(n int) int {
	l.pos = (l.pos + n) % mpa.MarkerInterval
	return n
}

// drop notes that the ring has dropped p.
func (l *lane) drop(p piece) {
	l.dropped += p.bytes
	if p.starts {
		l.fpdus++
	}
}
