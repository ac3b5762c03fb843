package recorder

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// Flags in a start-up frame (RFC 5044, Section 7.1.1).
const (
	offFlags = 16 // in bytes
	flagM    = 0x80
	flagC    = 0x40
)

// A direction is the state for one direction on a recorded connection.
type direction struct {
	frame     []byte    // the start-up frame
	frameTime time.Time // when frame's last byte was sent or received

	markers    bool
	pos        int  // next byte's position in the Markers' interval
	midFPDU    bool // an FPDU has begun
	length     [mpa.LengthLen]byte
	lengthRead int // number of length bytes so far
	remaining  int // FPDU bytes still missing after length, without Markers

	droppedBytes int // bytes dropped by the ring
	droppedFPDUs int // FPDUs among the dropped bytes
}

// nextPiece returns the number of next bytes, at least one, that belong to one
// FPDU, and whether they include its first and its last byte. A Marker belongs
// to the FPDU after it.
func (l *direction) nextPiece(b []byte) (n int, starts, ends bool) {
	starts, l.midFPDU = !l.midFPDU, true
	for n < len(b) {
		run := len(b) - n
		if l.markers {
			if l.pos < mpa.MarkerLen {
				n += l.advancePos(min(run, mpa.MarkerLen-l.pos))
				continue
			}
			run = min(run, mpa.MarkerInterval-l.pos)
		}
		if l.lengthRead < mpa.LengthLen {
			l.length[l.lengthRead] = b[n]
			n += l.advancePos(1)
			if l.lengthRead++; l.lengthRead == mpa.LengthLen {
				l.remaining = mpa.FPDULen(mpa.ParseLength(l.length)) - mpa.LengthLen
			}
			continue
		}
		run = min(run, l.remaining)
		n += l.advancePos(run)
		if l.remaining -= run; l.remaining == 0 {
			l.midFPDU, l.lengthRead = false, 0
			return n, starts, true
		}
	}
	return n, starts, false
}

func (l *direction) advancePos(n int) int {
	l.pos = (l.pos + n) % mpa.MarkerInterval
	return n
}

// countDropped records that the ring has dropped p.
func (l *direction) countDropped(p piece) {
	l.droppedBytes += p.bytes
	if p.starts {
		l.droppedFPDUs++
	}
}
