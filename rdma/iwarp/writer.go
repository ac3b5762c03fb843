package iwarp

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// maxHeaderLen is the maximum header length before an FPDU's payload, in bytes.
const maxHeaderLen = mpa.LengthLen + ddp.UntaggedLen + maxBody

// maxBody is the maximum RDMAP header length, in bytes.
const maxBody = max(rdmap.TerminateMaxLen, rdmap.AtomicRequestLen)

// A batch is the content of one writev: complete FPDUs. A trailer and the
// following header are contiguous in headers, so that they form one element,
// together with short Send payloads.
type batch struct {
	headers      []byte
	vec          [][]byte
	writtenElems int // vec elements already written
	size         int // total bytes
	nextRequest  uint64
	regions      []*region  // pinned until the batch is written
	copies       []*buf.Buf // copies of payload that may change or vanish, held until then
	mapped       []mappedPart
	sends        []builtSend // Sends after mapped parts
	endsStream   bool        // send a FIN after the batch

	requests bool // the batch contains work request data
}

var batches = sync.Pool{New: func() any {
	return &batch{headers: make([]byte, 0, maxHeaders), vec: make([][]byte, 0, maxVectors)}
}}

func (b *batch) isEmpty() bool { return b.writtenElems == len(b.vec) }

// isFull reports whether another FPDU, with a payload in several slices and at
// most the given number of Markers, might not fit.
func (b *batch) isFull(markers int) bool {
	return b.size >= maxBatch || len(b.vec) >= maxVectors-8-2*markers ||
		len(b.headers)+maxHeaderLen+maxInlineSend+mpa.MaxTrailerLen+markers*mpa.MarkerLen > cap(b.headers)
}

// markWritten records that n more bytes are written.
func (b *batch) markWritten(n int) {
	for n > 0 {
		if k := len(b.vec[b.writtenElems]); n < k {
			b.vec[b.writtenElems] = b.vec[b.writtenElems][n:]
			return
		} else {
			n -= k
		}
		b.vec[b.writtenElems] = nil
		b.writtenElems++
	}
}

// reset clears the batch and unpins its regions.
func (b *batch) reset() {
	for i, r := range b.regions {
		r.unpin()
		b.regions[i] = nil
	}
	for i, lent := range b.copies {
		lent.Release()
		b.copies[i] = nil
	}
	clear(b.vec)
	clear(b.mapped)
	b.mapped, b.sends = b.mapped[:0], b.sends[:0]
	b.headers, b.vec, b.regions, b.copies = b.headers[:0], b.vec[:0], b.regions[:0], b.copies[:0]
	b.writtenElems, b.size, b.endsStream, b.requests = 0, 0, false, false
}

// appendHeader adds the bytes appended to headers since start to the batch.
func (b *batch) appendHeader(start int) {
	h := b.headers[start:]
	b.size += len(h)
	if k := len(b.vec) - 1; k >= 0 && start > 0 && b.endsAt(start) {
		last := b.vec[k]
		b.vec[k] = b.headers[start-len(last) : len(b.headers)]
		return
	}
	b.vec = append(b.vec, h)
}

// endsAt reports whether the batch's last element ends at headers[:n].
func (b *batch) endsAt(n int) bool {
	last := b.vec[len(b.vec)-1]
	return len(last) > 0 && len(last) <= n && &last[len(last)-1] == &b.headers[n-1]
}

// A message is the DDP message being cut into segments.
type message struct {
	active     bool
	op         rdmap.Opcode
	invalidate rdma.STag   // in a Send with Invalidate
	msn        uint32      // in an untagged message
	remote     rdma.Remote // destination, in a tagged message
	length     int         // payload length, in bytes
	offset     int         // payload bytes already cut
	data       [][]byte    // the rest of the payload,
	dataOffset int         // starting at this offset in data[0]
	read       inboundRead // the request for a Read Response
	region     *region     // pinned
	copied     bool        // copy data, which may change or vanish while this process uses it

	reread    rereadFunc // the WR's; nil: data cannot vanish
	wr        uint64     // WR index
	queue     *sendQueue // the writer holds its lock
	vanished  bool       // data has vanished
	readyUpTo int        // offset up to which the processor can read this batch's data

	body    [maxBody]byte // the message, if it is only an RDMAP header,
	bodyLen int           // and its length in bytes
}

// releaseRest drops the rest of the message and unpins its region.
func (m *message) releaseRest() {
	if m.region != nil {
		m.region.unpin()
	}
	*m = message{}
}

// headerLen returns the length of each segment's DDP header.
func (m *message) headerLen() int {
	if m.op.Tagged() {
		return ddp.TaggedLen
	}
	return ddp.UntaggedLen
}

// appendHeader appends the headers for the segment that starts at m.offset. A
// message that is neither a Send nor tagged has an RDMAP header instead of a
// payload.
func (m *message) appendHeader(b []byte, last bool) []byte {
	if m.op.Tagged() {
		return rdmap.AppendTagged(b, m.op, last, m.remote.STag, m.remote.TO+uint64(m.offset))
	}
	b = rdmap.AppendUntagged(b, m.op, last, m.invalidate, m.msn, uint32(m.offset))
	return append(b, m.body[:m.bodyLen]...)
}

// nextBytes returns the next bytes of m's data, at most n, and advances m.
func (m *message) nextBytes(n int) []byte {
	d := m.data[0][m.dataOffset:]
	if len(d) <= n {
		m.data, m.dataOffset = m.data[1:], 0
	} else {
		d = d[:n]
		m.dataOffset += n
	}
	m.offset += len(d)
	return d
}

// takePayload returns the next bytes of m's data for b, at most n, and adds them to sum. Data that
// the peer may change is copied, so that the sent bytes match the CRC.
func (b *batch) takePayload(m *message, n int, sum *checksum) []byte {
	d := m.nextBytes(n)
	switch {
	case m.vanished:
		d = zeros[:len(d)]
	case len(d) == 0:
	case m.copied:
		lent := m.copyPayload(d, sum)
		b.copies = append(b.copies, lent)
		return lent.B
	case m.reread != nil:
		b.mapped = append(b.mapped, mappedPart{len(b.vec), m.offset - len(d), len(d), m.reread, m.wr})
	}
	sum.add(d)
	return d
}

// appendFPDU appends m's next FPDU to b.
func (c *Conn) appendFPDU(b *batch, m *message) {
	if c.params.SendMarkers {
		c.appendMarkedFPDU(b, m)
		return
	}
	n, last := ddp.NextSegment(m.length, m.offset, c.mulpdu, m.headerLen())
	start := len(b.headers)
	ulpdu := m.headerLen() + m.bodyLen + n
	b.headers = mpa.AppendLength(b.headers, ulpdu)
	b.headers = m.appendHeader(b.headers, last)
	sum := checksum{on: c.params.CRC}
	sum.add(b.headers[start:])
	b.appendHeader(start)
	if len(b.mapped) > 0 && !m.op.Tagged() && m.bodyLen == 0 && m.offset == 0 && last {
		b.sends = append(b.sends, builtSend{m.wr, start, ulpdu, len(b.vec)})
	}
	if n <= maxInlineSend && !m.op.Tagged() && m.reread == nil && len(b.mapped) == 0 {
		b.copyToHeaders(m, n, &sum)
	} else {
		b.gatherPayload(m, n, &sum)
	}
	c.tx.counts.addFPDU(m.op, last, m.bodyLen+n)
	start = len(b.headers)
	if c.params.CRC {
		b.headers = mpa.AppendTrailer(b.headers, ulpdu, sum.crc)
	} else {
		b.headers = mpa.AppendTrailerNoCRC(b.headers, ulpdu)
	}
	b.appendHeader(start)
}

// copyToHeaders copies n bytes of m's data, which cannot vanish, after the last header, and adds
// them to sum.
func (b *batch) copyToHeaders(m *message, n int, sum *checksum) {
	start := len(b.headers)
	for n > 0 {
		d := m.nextBytes(n)
		n -= len(d)
		b.headers = append(b.headers, d...)
	}
	sum.add(b.headers[start:])
	b.appendHeader(start)
}

// gatherPayload adds n bytes of m's data to the batch and to sum.
func (b *batch) gatherPayload(m *message, n int, sum *checksum) {
	b.size += n
	for n > 0 {
		d := b.takePayload(m, n, sum)
		n -= len(d)
		if len(d) > 0 {
			b.vec = append(b.vec, d)
		}
	}
}

// A checksum is the running CRC over an FPDU's bytes. It stays 0 if CRCs are
// off.
type checksum struct {
	on  bool
	crc uint32
}

// add adds b.
func (s *checksum) add(b []byte) {
	if s.on {
		s.crc = mpa.UpdateCRC(s.crc, b)
	}
}

// copy copies src to dst and adds src, in one pass over src, which may not be
// in the processor's cache. With CRCs off it costs no more than a plain copy.
func (s *checksum) copy(dst, src []byte) {
	if s.on {
		s.crc = mpa.CopyCRC(s.crc, dst, src)
		return
	}
	copy(dst, src)
}
