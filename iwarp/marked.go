package iwarp

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// A markedFPDU is an FPDU being appended to a batch, with the Markers that fall
// into it. The payload between the Markers is not copied.
type markedFPDU struct {
	b   *batch
	at  *mpa.Inserter
	sum checksum // of everything appended so far
}

// cutMarked is cut for a peer that requires Markers.
func (c *Conn) cutMarked(b *batch, m *message) {
	n, last := ddp.NextSegment(m.length, m.offset, c.mulpdu, m.headerLen())
	ulpdu := m.headerLen() + m.bodyLen + n
	c.tx.counts.add(m.op, last, m.bodyLen+n)
	f := markedFPDU{b: b, at: &c.tx.markers, sum: checksum{on: c.params.CRC}}
	f.at.Begin()
	var header [maxHeaderLen]byte
	f.bytes(m.appendHeader(mpa.AppendLength(header[:0], ulpdu), last))
	for n > 0 {
		d := b.take(m, n, new(checksum)) // Markers come in between: payload adds the bytes
		n -= len(d)
		f.payload(d)
	}
	var zeros [mpa.MaxTrailerLen]byte
	f.bytes(zeros[:mpa.PadLen(ulpdu)])
	f.marker() // the CRC also covers a Marker before the CRC field
	f.bytes(binary.LittleEndian.AppendUint32(zeros[:0], f.sum.crc))
}

// marker appends a Marker if one is due here.
func (f *markedFPDU) marker() {
	start := len(f.b.headers)
	f.b.headers = f.at.Append(f.b.headers)
	f.appended(start)
}

// bytes appends a copy of b.
func (f *markedFPDU) bytes(b []byte) {
	for len(b) > 0 {
		f.marker()
		n, start := min(len(b), f.at.Room()), len(f.b.headers)
		f.b.headers = append(f.b.headers, b[:n]...)
		f.appended(start)
		f.at.Advance(n)
		b = b[n:]
	}
}

// appended makes the bytes appended to the headers since start a part of the
// FPDU.
func (f *markedFPDU) appended(start int) {
	if start == len(f.b.headers) {
		return
	}
	f.sum.add(f.b.headers[start:])
	f.b.appendHeader(start)
}

// payload appends b without a copy.
func (f *markedFPDU) payload(b []byte) {
	for len(b) > 0 {
		f.marker()
		n := min(len(b), f.at.Room())
		f.b.vec = append(f.b.vec, b[:n])
		f.b.size += n
		f.sum.add(b[:n])
		f.at.Advance(n)
		b = b[n:]
	}
}
