package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// Flags of a start-up frame (RFC 5044, Section 7.1.1).
const (
	offFlags = 16 // octets
	flagM    = 0x80
	flagC    = 0x40
)

// A lane is one direction of a connection that is recorded.
type lane struct {
	frame  []byte // the start-up frame,
	framed time.Time
	// and when its last octet went

	markers bool
	pos     int  // in the Markers' interval, of the next octet
	within  bool // an FPDU has begun
	length  [mpa.LengthLen]byte
	got     int // octets of length that have gone
	left    int // octets of the FPDU behind length, without Markers

	dropped int // octets that the ring has no more, and
	fpdus   int // FPDUs among them
}

// next tells how many of the next octets, at least one, are of one FPDU, and
// whether they are its first and its last. A Marker belongs to the FPDU behind
// it.
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

// drop notes that the ring has p no more.
func (l *lane) drop(p piece) {
	l.dropped += p.octets
	if p.starts {
		l.fpdus++
	}
}
