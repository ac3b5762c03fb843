package recorder

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// A recording is the content of a Recorder at one moment.
type recording struct {
	ends   [2]netip.AddrPort
	opened time.Time
	lanes  [2]lane
	pieces []byte // as in the ring
}

// Write writes the record as a capture in pcap form: TCP's opening, the start-up
// frames, and the FPDUs that the ring holds.
func (r *Recorder) Write(w io.Writer) error {
	f := pcap.NewFile(w)
	r.copy().write(f)
	return f.Flush()
}

// copy copies the record, so that the recorder can continue while the copy is
// written.
func (r *Recorder) copy() *recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := &recording{r.ends, r.opened, r.lanes, make([]byte, r.ring.used)}
	r.ring.read(rec.pieces, 0)
	return rec
}

// inTime returns the pieces with their bytes in the order of their times. The
// pieces of one direction already are in this order.
func (r *recording) inTime() []recorded {
	var all []recorded
	for b := r.pieces; len(b) > 0; {
		p := parsePiece([pieceLen]byte(b))
		b = b[pieceLen:]
		all = append(all, recorded{p, b[:p.bytes]})
		b = b[p.bytes:]
	}
	slices.SortStableFunc(all, func(a, b recorded) int { return cmp.Compare(a.time, b.time) })
	return all
}

type recorded struct {
	piece
	bytes []byte
}

// write writes the recording. Each FPDU is dated when its last byte was given
// to TCP or received from TCP; incomplete FPDUs come at the end.
func (r *recording) write(f *pcap.File) {
	c := f.Connect(r.opened, r.ends[pcap.Client], r.ends[pcap.Server])
	crc := false
	for _, side := range []pcap.Side{pcap.Client, pcap.Server} {
		if l := &r.lanes[side]; len(l.frame) > offFlags {
			crc = crc || l.frame[offFlags]&flagC != 0
			frame := bytes.Clone(l.frame)
			frame[offFlags] &^= flagM
			c.Write(l.framed, side, frame)
		}
	}
	var fpdus [2]*assembly
	for side := range fpdus {
		fpdus[side] = &assembly{c: c, side: pcap.Side(side), lane: &r.lanes[side], crc: crc}
	}
	last := r.opened
	for _, p := range r.inTime() {
		last = time.Unix(0, p.time)
		fpdus[p.from].add(p.piece, p.bytes)
	}
	for _, a := range fpdus {
		a.flush(last)
	}
}

// An assembly joins the pieces of one direction to FPDUs.
type assembly struct {
	c    *pcap.Conversation
	side pcap.Side
	lane *lane
	crc  bool

	resumed bool // the first FPDU of the record has begun
	pos     int  // position of fpdu in the Markers' interval
	fpdu    []byte
	bare    []byte // without Markers
}

// add adds a piece. It drops the rest of an FPDU whose beginning is dropped.
func (a *assembly) add(p piece, data []byte) {
	if !a.resumed && !p.starts {
		a.lane.drop(p)
		return
	}
	if !a.resumed {
		a.resumed = true
		a.c.Skip(a.side, a.lane.fpdus)
		a.pos = a.lane.dropped % mpa.MarkerInterval
	}
	a.fpdu = append(a.fpdu, data...)
	if p.ends {
		a.flush(time.Unix(0, p.time))
	}
}

// flush writes the FPDU, even if incomplete.
func (a *assembly) flush(at time.Time) {
	if len(a.fpdu) == 0 {
		return
	}
	data := a.fpdu
	if a.lane.markers {
		data = a.strip()
	}
	a.c.Write(at, a.side, data)
	a.pos = (a.pos + len(a.fpdu)) % mpa.MarkerInterval
	a.fpdu = a.fpdu[:0]
}

// strip returns the FPDU without its Markers. The CRC covers the Markers; if
// the CRC is correct, strip replaces it by the correct CRC of the result.
func (a *assembly) strip() []byte {
	a.bare = a.bare[:0]
	pos := a.pos
	for b := a.fpdu; len(b) > 0; {
		n := min(len(b), mpa.MarkerLen-pos)
		if pos >= mpa.MarkerLen {
			n = min(len(b), mpa.MarkerInterval-pos)
			a.bare = append(a.bare, b[:n]...)
		}
		b, pos = b[n:], (pos+n)%mpa.MarkerInterval
	}
	if end := len(a.fpdu) - mpa.CRCLen; a.crc && len(a.bare) > mpa.CRCLen &&
		mpa.CheckTrailer(a.fpdu[end:], mpa.UpdateCRC(0, a.fpdu[:end])) == nil {
		covered := a.bare[:len(a.bare)-mpa.CRCLen]
		a.bare = binary.LittleEndian.AppendUint32(covered, mpa.UpdateCRC(0, covered))
	}
	return a.bare
}
