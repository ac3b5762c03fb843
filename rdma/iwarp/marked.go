package iwarp

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A markedFPDU is an FPDU being appended to a batch, with the Markers that fall
// into it. The payload between the Markers is not copied.
type markedFPDU struct {
	b        *batch
	inserter *mpa.Inserter
	sum      checksum // CRC over the bytes appended so far
}

// appendMarkedFPDU is appendFPDU for a peer that requires Markers.
func (c *Conn) appendMarkedFPDU(b *batch, m *message) {
	n, last := ddp.NextSegment(m.length, m.offset, c.mulpdu, m.headerLen())
	ulpdu := m.headerLen() + m.bodyLen + n
	c.tx.counts.addFPDU(m.op, last, m.bodyLen+n)
	f := markedFPDU{b: b, inserter: &c.tx.markers, sum: checksum{on: c.params.CRC}}
	f.inserter.Begin()
	var header [maxHeaderLen]byte
	f.appendBytes(m.appendHeader(mpa.AppendLength(header[:0], ulpdu), last))
	for n > 0 {
		d := b.takePayload(m, n, new(checksum)) // appendPayload computes the CRC, including Markers
		n -= len(d)
		f.appendPayload(d)
	}
	var zeros [mpa.MaxTrailerLen]byte
	f.appendBytes(zeros[:mpa.PadLen(ulpdu)])
	f.appendMarker() // the CRC also covers a Marker before the CRC field
	f.appendBytes(binary.LittleEndian.AppendUint32(zeros[:0], f.sum.crc))
}

// appendMarker appends a Marker if one is due here.
func (f *markedFPDU) appendMarker() {
	start := len(f.b.headers)
	f.b.headers = f.inserter.Append(f.b.headers)
	f.addAppended(start)
}

// appendBytes appends a copy of b, with Markers.
func (f *markedFPDU) appendBytes(b []byte) {
	for len(b) > 0 {
		f.appendMarker()
		n, start := min(len(b), f.inserter.BytesToMarker()), len(f.b.headers)
		f.b.headers = append(f.b.headers, b[:n]...)
		f.addAppended(start)
		f.inserter.Advance(n)
		b = b[n:]
	}
}

// addAppended adds the bytes appended to the headers since start to the FPDU.
func (f *markedFPDU) addAppended(start int) {
	if start == len(f.b.headers) {
		return
	}
	f.sum.add(f.b.headers[start:])
	f.b.appendHeader(start)
}

// appendPayload appends b without a copy.
func (f *markedFPDU) appendPayload(b []byte) {
	for len(b) > 0 {
		f.appendMarker()
		n := min(len(b), f.inserter.BytesToMarker())
		f.b.vec = append(f.b.vec, b[:n])
		f.b.size += n
		f.sum.add(b[:n])
		f.inserter.Advance(n)
		b = b[n:]
	}
}
