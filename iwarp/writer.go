package iwarp

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// maxHeaderLen is the longest header before one FPDU's payload, in bytes.
const maxHeaderLen = mpa.LengthLen + ddp.UntaggedLen + maxBody

// maxBody is the longest RDMAP header, in bytes.
const maxBody = max(rdmap.TerminateMaxLen, rdmap.AtomicRequestLen)

// A batch is the content of one writev: whole FPDUs. A trailer and the header
// that follows are contiguous in headers, so that they form one element, with
// the payload of short Sends.
type batch struct {
	headers []byte
	vec     [][]byte
	sent    int // elements of vec already written
	size    int // total bytes
	upTo    uint64
	regions []*region  // pinned until the batch is written
	copies  []*buf.Buf // copies of payload that may change or vanish, until then
	mapped  []mappedPart
	sends   []builtSend // behind mapped parts
	last    bool        // the stream ends after the batch

	requests bool // the batch contains parts of work requests
}

var batches = sync.Pool{New: func() any {
	return &batch{headers: make([]byte, 0, maxHeaders), vec: make([][]byte, 0, maxVectors)}
}}

func (b *batch) empty() bool { return b.sent == len(b.vec) }

// full reports whether another FPDU, with a payload of some slices and at most
// the given number of Markers, might not fit.
func (b *batch) full(markers int) bool {
	return b.size >= maxBatch || len(b.vec) >= maxVectors-8-2*markers ||
		len(b.headers)+maxHeaderLen+maxInside+mpa.MaxTrailerLen+markers*mpa.MarkerLen > cap(b.headers)
}

// advance notes that n more bytes are written.
func (b *batch) advance(n int) {
	for n > 0 {
		if k := len(b.vec[b.sent]); n < k {
			b.vec[b.sent] = b.vec[b.sent][n:]
			return
		} else {
			n -= k
		}
		b.vec[b.sent] = nil
		b.sent++
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
	b.sent, b.size, b.last, b.requests = 0, 0, false, false
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

// endsAt reports whether the batch's last element is the end of headers[:n].
func (b *batch) endsAt(n int) bool {
	last := b.vec[len(b.vec)-1]
	return len(last) > 0 && len(last) <= n && &last[len(last)-1] == &b.headers[n-1]
}

// A message is the DDP message being cut into segments.
type message struct {
	active bool
	op     rdmap.Opcode
	inv    rdma.STag   // of a Send with Invalidate
	msn    uint32      // of an untagged message
	remote rdma.Remote // of a tagged message
	length int         // of the payload, in bytes
	offset int         // bytes of the payload already cut
	data   [][]byte    // the rest of the payload,
	at     int         // from this offset of data[0] on
	read   askedRead   // the request that a Read Response answers
	region *region     // pinned
	copied bool        // copy data, which may change or vanish while this process uses it

	reread reread     // of the WR; nil: data cannot vanish
	wr     uint64     // index of the WR
	queue  *sendQueue // the writer holds its lock
	gone   bool       // data has vanished

	body    [maxBody]byte // the message, if it is only an RDMAP header,
	bodyLen int           // and its length in bytes
}

// release drops the rest of the message.
func (m *message) release() {
	if m.region != nil {
		m.region.unpin()
	}
	*m = message{}
}

// headerLen returns the length of the DDP header of each segment.
func (m *message) headerLen() int {
	if m.op.Tagged() {
		return ddp.TaggedLen
	}
	return ddp.UntaggedLen
}

// appendHeader appends the headers of the segment that starts at m.offset. A
// message that is neither a Send nor tagged has an RDMAP header instead of a
// payload.
func (m *message) appendHeader(b []byte, last bool) []byte {
	if m.op.Tagged() {
		return rdmap.AppendTagged(b, m.op, last, m.remote.STag, m.remote.TO+uint64(m.offset))
	}
	b = rdmap.AppendUntagged(b, m.op, last, m.inv, m.msn, uint32(m.offset))
	return append(b, m.body[:m.bodyLen]...)
}

// next returns the next bytes of m's data, at most n, and advances m.
func (m *message) next(n int) []byte {
	d := m.data[0][m.at:]
	if len(d) <= n {
		m.data, m.at = m.data[1:], 0
	} else {
		d = d[:n]
		m.at += n
	}
	m.offset += len(d)
	return d
}

// take takes the next bytes of m's data for b, at most n, and adds them to sum.
// Data that the peer may change is copied, so that the sent bytes match the
// CRC.
func (b *batch) take(m *message, n int, sum *checksum) []byte {
	d := m.next(n)
	switch {
	case m.gone:
		d = zeros[:len(d)]
	case len(d) == 0:
	case m.copied:
		lent := m.lend(d, sum)
		b.copies = append(b.copies, lent)
		return lent.B
	case m.reread != nil:
		b.mapped = append(b.mapped, mappedPart{len(b.vec), m.offset - len(d), len(d), m.reread, m.wr})
	}
	sum.add(d)
	return d
}

// cut appends the next FPDU of m to b.
func (c *Conn) cut(b *batch, m *message) {
	if c.params.SendMarkers {
		c.cutMarked(b, m)
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
	if n <= maxInside && !m.op.Tagged() && m.reread == nil && len(b.mapped) == 0 {
		b.copyIn(m, n, &sum)
	} else {
		b.gather(m, n, &sum)
	}
	c.tx.counts.add(m.op, last, m.bodyLen+n)
	start = len(b.headers)
	if c.params.CRC {
		b.headers = mpa.AppendTrailer(b.headers, ulpdu, sum.crc)
	} else {
		b.headers = mpa.AppendTrailerNoCRC(b.headers, ulpdu)
	}
	b.appendHeader(start)
}

// copyIn copies n bytes of m's data, which cannot vanish, behind the last header, and adds
// them to sum.
func (b *batch) copyIn(m *message, n int, sum *checksum) {
	start := len(b.headers)
	for n > 0 {
		d := m.next(n)
		n -= len(d)
		b.headers = append(b.headers, d...)
	}
	sum.add(b.headers[start:])
	b.appendHeader(start)
}

// gather moves n bytes of m's data into the batch, and adds them to sum.
func (b *batch) gather(m *message, n int, sum *checksum) {
	b.size += n
	for n > 0 {
		d := b.take(m, n, sum)
		n -= len(d)
		if len(d) > 0 {
			b.vec = append(b.vec, d)
		}
	}
}

// A checksum is the CRC of the part of an FPDU that has been cut so far. It
// stays 0 if CRCs are off.
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
