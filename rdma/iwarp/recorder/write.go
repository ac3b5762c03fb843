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
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A recording is a snapshot of a Recorder.
type recording struct {
	addrs      [2]netip.AddrPort
	opened     time.Time
	directions [2]direction
	pieces     []byte // as in the ring
}

// Write writes the record as a pcap file: a TCP handshake, the MPA start-up frames, and the FPDUs in
// the ring.
func (r *Recorder) Write(w io.Writer) error {
	f := pcap.NewFile(w)
	r.snapshot().writeTo(f)
	return f.Flush()
}

// snapshot copies the record, so that the recorder can continue while the copy is
// written.
func (r *Recorder) snapshot() *recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := &recording{r.addrs, r.opened, r.directions, make([]byte, r.ring.used)}
	r.ring.readAt(rec.pieces, 0)
	return rec
}

// sortedPieces returns the pieces with their bytes, sorted by time. The sort is stable, because
// pieces of one direction are already in order.
func (r *recording) sortedPieces() []recordedPiece {
	var all []recordedPiece
	for b := r.pieces; len(b) > 0; {
		p := parsePiece([pieceLen]byte(b))
		b = b[pieceLen:]
		all = append(all, recordedPiece{p, b[:p.bytes]})
		b = b[p.bytes:]
	}
	slices.SortStableFunc(all, func(a, b recordedPiece) int { return cmp.Compare(a.time, b.time) })
	return all
}

type recordedPiece struct {
	piece
	bytes []byte
}

// writeTo writes the recording. An FPDU's timestamp is when its last byte was
// passed to TCP or received from TCP; incomplete FPDUs come last.
func (r *recording) writeTo(f *pcap.File) {
	c := f.Connect(r.opened, r.addrs[pcap.Client], r.addrs[pcap.Server])
	crc := false
	for _, side := range []pcap.Side{pcap.Client, pcap.Server} {
		if l := &r.directions[side]; len(l.frame) > offFlags {
			crc = crc || l.frame[offFlags]&flagC != 0
			frame := bytes.Clone(l.frame)
			frame[offFlags] &^= flagM
			c.Write(l.frameTime, side, frame)
		}
	}
	var fpdus [2]*fpduAssembler
	for side := range fpdus {
		fpdus[side] = &fpduAssembler{c: c, side: pcap.Side(side), direction: &r.directions[side], crc: crc}
	}
	last := r.opened
	for _, p := range r.sortedPieces() {
		last = time.Unix(0, p.time)
		fpdus[p.from].addPiece(p.piece, p.bytes)
	}
	for _, a := range fpdus {
		a.flushFPDU(last)
	}
}

// An fpduAssembler joins one direction's pieces to FPDUs.
type fpduAssembler struct {
	c         *pcap.Conversation
	side      pcap.Side
	direction *direction
	crc       bool

	started  bool // the record's first FPDU has begun
	pos      int  // fpdu's position in the Markers' interval
	fpdu     []byte
	stripped []byte // without Markers
}

// addPiece adds a piece. It drops the rest of an FPDU whose beginning was
// dropped.
func (a *fpduAssembler) addPiece(p piece, data []byte) {
	if !a.started && !p.starts {
		a.direction.countDropped(p)
		return
	}
	if !a.started {
		a.started = true
		a.c.Skip(a.side, a.direction.droppedFPDUs)
		a.pos = a.direction.droppedBytes % mpa.MarkerInterval
	}
	a.fpdu = append(a.fpdu, data...)
	if p.ends {
		a.flushFPDU(time.Unix(0, p.time))
	}
}

// flushFPDU writes the FPDU, even if incomplete.
func (a *fpduAssembler) flushFPDU(at time.Time) {
	if len(a.fpdu) == 0 {
		return
	}
	data := a.fpdu
	if a.direction.markers {
		data = a.stripMarkers()
	}
	a.c.Write(at, a.side, data)
	a.pos = (a.pos + len(a.fpdu)) % mpa.MarkerInterval
	a.fpdu = a.fpdu[:0]
}

// stripMarkers returns the FPDU without its Markers. The CRC covers the Markers; if the CRC is
// correct, stripMarkers replaces it with the correct CRC for the result.
func (a *fpduAssembler) stripMarkers() []byte {
	a.stripped = a.stripped[:0]
	pos := a.pos
	for b := a.fpdu; len(b) > 0; {
		n := min(len(b), mpa.MarkerLen-pos)
		if pos >= mpa.MarkerLen {
			n = min(len(b), mpa.MarkerInterval-pos)
			a.stripped = append(a.stripped, b[:n]...)
		}
		b, pos = b[n:], (pos+n)%mpa.MarkerInterval
	}
	if end := len(a.fpdu) - mpa.CRCLen; a.crc && len(a.stripped) > mpa.CRCLen &&
		mpa.CheckTrailer(a.fpdu[end:], mpa.UpdateCRC(0, a.fpdu[:end])) == nil {
		covered := a.stripped[:len(a.stripped)-mpa.CRCLen]
		a.stripped = binary.LittleEndian.AppendUint32(covered, mpa.UpdateCRC(0, covered))
	}
	return a.stripped
}
