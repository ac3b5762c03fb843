package iwarp

import (
	"bytes"
	"encoding/binary"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// fuzzScripts are the initial scripts of FuzzPeer. A byte's low half is a step;
// a nonzero high half changes the step's first FPDU.
var fuzzScripts = []string{
	"\x00\x05\x01\x00\x00\x09\x03\x00\x01\x01\x05\x04\x01\x02\x00\x10\x07\x00\x04\x09\x0a",
	"\x05\x02\x09\x03\x05\x03\x07\x06\x01\x02\x07\x05\x02\x09\x03\x05\x03\x07\x06\x02\x04\x07",
	"\x01\xf0\x08\x05\x03\x04\x02\x01\x40\x07\x00\xff\x02\x04\x05\x0b\x01\x05\x01\x00\x02",
	"\x03\x00\x01\x05\x03\x01\x02\x06\x03\x00\x03\x07\x03\x01\x04\x08\x02\x00\x05\x00",
	"\x05\x00\x10\x05\x01\x10\x05\x04\x05\x05\x05\x02\xf0\x06\x03\x04\x08\x0c\x00\x03\x01",
	"\x00\x05\x03\x00\x11\x00\x05\x00\x03\x21\x07\x01\x00\x03\x33\x07\x01",
	"\x05\x02\x10\x05\x02\x11\x05\x03\x05\x02\x12\x06\x01\x03\x07\x06\x03\x06\x02",
	"\x01\x7f\x00\x02\x01\x01\x00\x7f\x02\x02\x0d\x01\x05\x07\x02",
}

// playScript executes the script.
func (p *scriptPeer) playScript() {
	for len(p.script) > 0 {
		step := p.nextByte()
		p.change = step >> 4
		switch step & 0x0f {
		case 0:
			p.sendMessage()
		case 1:
			p.sendWrite()
		case 2:
			p.sendReadRequest()
		case 3:
			p.sendAtomicRequest()
		case 4:
			p.sendImmediate()
		case 5:
			p.postRequest()
		case 6:
			p.answerRead()
		case 7:
			p.answerAtomic()
		case 8: // placed nowhere: R5041-5.2-9
			p.queueSegment(writeSeg(p.nextByte()&1 != 0, rdma.STag(p.nextByte()), uint64(p.nextByte())<<56, nil))
		case 9:
			p.flushFPDUs()
		case 10:
			p.sendInvalidate()
		case 11: // garbage
			p.out = append(p.out, p.nextBytes(p.nextSize())...)
			p.broken, p.change = true, 0
		case 12:
			p.flushFPDUs()
			p.broken = true
			_ = p.c.PostRecv(1)
		default:
			p.sendTerminate()
		}
	}
}

// splitData cuts data into segments as the script directs.
func (p *scriptPeer) splitData(data []byte, add func(last bool, off int, part []byte)) {
	n := 1 + int(p.nextByte()&3)
	for i, off := 0, 0; i < n; i++ {
		part := data[off:]
		if i < n-1 {
			part = part[:len(part)/2]
		}
		add(i == n-1, off, part[:min(len(part), 60_000)])
		off += len(part)
	}
}

// expectMessage adds a message on queue 0 to the model and returns its MSN.
func (p *scriptPeer) expectMessage(want string) uint32 {
	if len(p.want) == fuzzRecvs {
		p.broken = true
	}
	if !p.broken && p.change == 0 {
		p.want = append(p.want, want)
	}
	p.msn[0]++
	return p.msn[0]
}

func (p *scriptPeer) sendMessage() {
	kind := p.nextByte()
	data := p.nextBytes(p.nextSize())
	op := rdmap.OpSend
	if kind&1 != 0 {
		op = rdmap.OpSendSE
	}
	msn := p.expectMessage(formatMessage(string(data), kind&1 != 0, false, false))
	p.splitData(data, func(last bool, off int, part []byte) {
		p.queueSegment(append(rdmap.AppendUntagged(nil, op, last, 0, msn, uint32(off)), part...))
	})
}

// sendInvalidate first waits for the answers to all Reads, because it would cut
// them short.
func (p *scriptPeer) sendInvalidate() {
	if n := int(p.msn[1]); n > 0 && !p.broken {
		p.awaitState("an answer", func() bool { return p.answers >= n })
	}
	msn := p.expectMessage(formatMessage("", false, true, false))
	p.queueSegment(invalidateSeg(msn, p.stag, nil))
	if p.dead {
		p.broken = true
	}
	p.dead = true
}

func (p *scriptPeer) sendImmediate() {
	data := p.nextBytes(rdmap.ImmediateLen)
	msn := p.expectMessage(formatMessage(string(data), false, false, true))
	p.queueSegment(append(rdmap.AppendUntagged(nil, rdmap.OpImmediate, true, 0, msn, 0), data...))
}

// choosePlace chooses a place for n bytes in the region, and shortens n to keep the
// bytes within the region.
func (p *scriptPeer) choosePlace(n int) (at, size int) {
	at = int(p.nextByte()) * 150
	if n > fuzzRegion-at {
		n = fuzzRegion - at
	}
	return at, n
}

// useRegion records that the peer uses the region.
func (p *scriptPeer) useRegion() {
	if p.dead {
		p.broken = true
	}
}

func (p *scriptPeer) sendWrite() {
	at, n := p.choosePlace(p.nextSize())
	data := p.nextBytes(n)
	if n > 0 {
		p.useRegion()
	}
	if !p.broken && p.change == 0 {
		copy(p.mem[at:], data)
	}
	p.splitData(data, func(last bool, off int, part []byte) {
		p.queueSegment(writeSeg(last, p.stag, uint64(at+off), part))
	})
}

// nextRequestMSN returns the MSN for the peer's next request. It first waits
// until fewer than IRD requests are outstanding.
func (p *scriptPeer) nextRequestMSN() uint32 {
	p.useRegion()
	p.msn[1]++
	n := int(p.msn[1])
	if n > fuzzDepth && !p.broken {
		p.awaitState("an answer to an earlier request", func() bool { return p.answers > n-1-fuzzDepth })
	}
	return p.msn[1]
}

func (p *scriptPeer) sendReadRequest() {
	at, n := p.choosePlace(p.nextSize())
	p.queueSegment(requestSeg(p.nextRequestMSN(), rdmap.ReadRequest{
		SinkSTag: 7, SinkTO: 9, Size: uint32(n), SourceSTag: p.stag, SourceTO: uint64(at),
	}))
}

func (p *scriptPeer) sendAtomicRequest() {
	kind, at := p.nextByte(), int(p.nextByte())*8
	a := rdma.Atomic{Operand: uint64(p.nextByte()), OperandMask: uint64(p.nextByte()) << 32, Compare: 0, CompareMask: uint64(p.nextByte())}
	op := rdma.OpFetchAdd
	if kind&1 != 0 {
		op = rdma.OpCompareSwap
	}
	msn := p.nextRequestMSN()
	if !p.broken && p.change == 0 {
		word := binary.NativeEndian.Uint64(p.mem[at:])
		if op == rdma.OpFetchAdd {
			word = a.FetchAdd(word)
		} else {
			word = a.CompareSwap(word)
		}
		binary.NativeEndian.PutUint64(p.mem[at:], word)
	}
	req := rdmap.AtomicRequest{Op: op, ID: uint32(kind), STag: p.stag, TO: uint64(at), Atomic: a}
	p.queueSegment(req.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpAtomicRequest, true, 0, msn, 0)))
}

// postRequest makes the Conn send a message.
func (p *scriptPeer) postRequest() {
	p.flushFPDUs()
	wr := rdma.WR{Done: p.completions, ID: p.posted}
	switch p.nextByte() & 7 {
	case 0:
		wr.Op, wr.Data, wr.Solicited = rdma.OpSend, [][]byte{p.nextBytes(p.nextSize())}, true
	case 1:
		wr.Op, wr.Data = rdma.OpWrite, [][]byte{p.nextBytes(p.nextSize()), nil, p.nextBytes(3)}
	case 2:
		s := &scriptSink{mem: make([]byte, p.nextSize()+2*around), to: uint64(len(p.order)+1) << 32}
		wr.Op, wr.Data = rdma.OpRead, [][]byte{s.mem[around : len(s.mem)-around]}
		p.sinks = append(p.sinks, s)
		p.reads++
		p.order = append(p.order, scriptRequest{fence: p.fence})
	case 3:
		wr.Op = rdma.OpFetchAdd
		p.atomics++
		p.order = append(p.order, scriptRequest{atomic: true, fence: p.fence})
	case 4:
		wr.Op = rdma.OpImmediate
	default:
		wr.Op, wr.Fence = rdma.OpSend, true
		p.fence = len(p.order)
	}
	if err := p.c.Post(wr); err != nil {
		require.ErrorIs(p.t, err, rdma.ErrClosed)
		p.broken = true
		return
	}
	p.posted++
}

// awaitRequest waits for the n-th request with its kind from the Conn, and
// reports whether that request exists.
func (p *scriptPeer) awaitRequest(n int, atomic bool) bool {
	at := 0
	for i, r := range p.order {
		if r.atomic != atomic {
			continue
		}
		if at++; at == n {
			if p.broken || !p.opened || p.readsDone+p.adsDone < max(r.fence, i+1-fuzzDepth) {
				return p.broken
			}
			return p.awaitState("a request", func() bool { return p.requests > i })
		}
	}
	return p.broken
}

func (p *scriptPeer) answerRead() {
	if p.readsDone == len(p.sinks) || !p.awaitRequest(p.readsDone+1, false) {
		p.change = 0
		return
	}
	s := p.sinks[p.readsDone]
	data := p.nextBytes(len(s.mem) - 2*around)
	s.want, s.answered = bytes.Clone(data), p.change == 0
	p.readsDone++
	p.splitData(data, func(last bool, off int, part []byte) {
		p.queueSegment(responseSeg(last, p.c.tx.sinkSTag, s.to+uint64(off), part))
	})
}

func (p *scriptPeer) answerAtomic() {
	if p.adsDone == p.atomics || !p.awaitRequest(p.adsDone+1, true) {
		p.change = 0
		return
	}
	p.adsDone++
	p.msn[2]++
	resp := rdmap.AtomicResponse{ID: uint32(p.adsDone), Original: uint64(p.nextByte())}
	p.queueSegment(resp.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpAtomicResponse, true, 0, p.msn[2], 0)))
}

// sendTerminate sends a Terminate from the peer, which ends the stream.
func (p *scriptPeer) sendTerminate() {
	term := rdmap.Terminate{Cause: rdmap.Error{Layer: p.nextByte() & 3, Type: p.nextByte() & 3, Code: p.nextByte() & 15}}
	p.queueSegment(term.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0)))
	p.broken = true
}

// odd are unusual field values.
var odd = []uint32{0, 1, 2, 3, 7, 0x7fffffff, 0x80000000, 0xffffffff}

// corruptFPDU returns a segment's FPDU with an error in it.
func (p *scriptPeer) corruptFPDU(segment, framed []byte) []byte {
	at := int(p.nextByte())
	switch s := bytes.Clone(segment); p.change % 8 {
	case 1: // a bit in the segment, with a valid CRC
		s[at%len(s)] ^= 1 << (p.nextByte() & 7)
		return frameFPDU(p.crc, s)
	case 2: // a bit in a header
		s[at%min(len(s), 18)] ^= 1 << (p.nextByte() & 7)
		return frameFPDU(p.crc, s)
	case 3: // a field
		at = min(at%18, len(s)-4)
		binary.BigEndian.PutUint32(s[at:], odd[int(p.nextByte())%len(odd)])
		return frameFPDU(p.crc, s)
	case 4: // cut short, or extended
		if n := at % (len(s) + 8); n < len(s) {
			return frameFPDU(p.crc, s[:n])
		}
		return frameFPDU(p.crc, append(s, 1, 2, 3, 4))
	case 5: // twice
		return append(bytes.Clone(framed), framed...)
	case 6: // a wrong length
		framed[at&1] ^= p.nextByte()
		return framed
	case 7: // a bit in the FPDU
		framed[at%len(framed)] ^= 1 << (p.nextByte() & 7)
		return framed
	default: // no FPDU at all
		return nil
	}
}
