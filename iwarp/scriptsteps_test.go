package iwarp

import (
	"bytes"
	"encoding/binary"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// fuzzScripts are the initial scripts of FuzzPeer. The low half of a byte is a
// step; a nonzero high half is a change of the step's first FPDU.
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

// play executes the script.
func (p *scriptPeer) play() {
	for len(p.script) > 0 {
		step := p.next()
		p.change = step >> 4
		switch step & 0x0f {
		case 0:
			p.send()
		case 1:
			p.write()
		case 2:
			p.read()
		case 3:
			p.atomic()
		case 4:
			p.immediate()
		case 5:
			p.post()
		case 6:
			p.answerRead()
		case 7:
			p.answerAtomic()
		case 8: // placed nowhere: R5041-5.2-9
			p.segment(writeSeg(p.next()&1 != 0, rdma.STag(p.next()), uint64(p.next())<<56, nil))
		case 9:
			p.flush()
		case 10:
			p.invalidate()
		case 11: // garbage
			p.out = append(p.out, p.bytes(p.size())...)
			p.broken, p.change = true, 0
		case 12:
			p.flush()
			p.broken = true
			_ = p.c.PostRecv(1)
		default:
			p.terminate()
		}
	}
}

// pieces cuts data into segments as the script directs.
func (p *scriptPeer) pieces(data []byte, add func(last bool, off int, part []byte)) {
	n := 1 + int(p.next()&3)
	for i, off := 0, 0; i < n; i++ {
		part := data[off:]
		if i < n-1 {
			part = part[:len(part)/2]
		}
		add(i == n-1, off, part[:min(len(part), 60_000)])
		off += len(part)
	}
}

// message adds a message of queue 0 to the model and returns its MSN.
func (p *scriptPeer) message(want string) uint32 {
	if len(p.want) == fuzzRecvs {
		p.broken = true
	}
	if !p.broken && p.change == 0 {
		p.want = append(p.want, want)
	}
	p.msn[0]++
	return p.msn[0]
}

func (p *scriptPeer) send() {
	kind := p.next()
	data := p.bytes(p.size())
	op := rdmap.OpSend
	if kind&1 != 0 {
		op = rdmap.OpSendSE
	}
	msn := p.message(delivered(string(data), kind&1 != 0, false, false))
	p.pieces(data, func(last bool, off int, part []byte) {
		p.segment(append(rdmap.AppendUntagged(nil, op, last, 0, msn, uint32(off)), part...))
	})
}

// invalidate first waits for the answers to all Reads, because it would cut
// them short.
func (p *scriptPeer) invalidate() {
	if n := int(p.msn[1]); n > 0 && !p.broken {
		p.await("an answer", func() bool { return p.answers >= n })
	}
	msn := p.message(delivered("", false, true, false))
	p.segment(invalidateSeg(msn, p.stag, nil))
	if p.dead {
		p.broken = true
	}
	p.dead = true
}

func (p *scriptPeer) immediate() {
	data := p.bytes(rdmap.ImmediateLen)
	msn := p.message(delivered(string(data), false, false, true))
	p.segment(append(rdmap.AppendUntagged(nil, rdmap.OpImmediate, true, 0, msn, 0), data...))
}

// place chooses a place for n bytes in the region, and shortens n to keep the
// bytes within the region.
func (p *scriptPeer) place(n int) (at, room int) {
	at = int(p.next()) * 150
	if n > fuzzRegion-at {
		n = fuzzRegion - at
	}
	return at, n
}

// uses records that the peer uses the region.
func (p *scriptPeer) uses() {
	if p.dead {
		p.broken = true
	}
}

func (p *scriptPeer) write() {
	at, n := p.place(p.size())
	data := p.bytes(n)
	if n > 0 {
		p.uses()
	}
	if !p.broken && p.change == 0 {
		copy(p.mem[at:], data)
	}
	p.pieces(data, func(last bool, off int, part []byte) {
		p.segment(writeSeg(last, p.stag, uint64(at+off), part))
	})
}

// request returns the MSN of the peer's next request. It first waits until
// fewer than IRD requests are outstanding.
func (p *scriptPeer) request() uint32 {
	p.uses()
	p.msn[1]++
	n := int(p.msn[1])
	if n > fuzzDepth && !p.broken {
		p.await("an answer to an earlier request", func() bool { return p.answers > n-1-fuzzDepth })
	}
	return p.msn[1]
}

func (p *scriptPeer) read() {
	at, n := p.place(p.size())
	p.segment(requestSeg(p.request(), rdmap.ReadRequest{
		SinkSTag: 7, SinkTO: 9, Size: uint32(n), SourceSTag: p.stag, SourceTO: uint64(at),
	}))
}

func (p *scriptPeer) atomic() {
	kind, at := p.next(), int(p.next())*8
	a := rdma.Atomic{Operand: uint64(p.next()), OperandMask: uint64(p.next()) << 32, Compare: 0, CompareMask: uint64(p.next())}
	op := rdma.OpFetchAdd
	if kind&1 != 0 {
		op = rdma.OpCompareSwap
	}
	msn := p.request()
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
	p.segment(req.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpAtomicRequest, true, 0, msn, 0)))
}

// post makes the Conn send a message.
func (p *scriptPeer) post() {
	p.flush()
	wr := rdma.WR{Done: p.fates, ID: p.posted}
	switch p.next() & 7 {
	case 0:
		wr.Op, wr.Data, wr.Solicited = rdma.OpSend, [][]byte{p.bytes(p.size())}, true
	case 1:
		wr.Op, wr.Data = rdma.OpWrite, [][]byte{p.bytes(p.size()), nil, p.bytes(3)}
	case 2:
		s := &scriptSink{mem: make([]byte, p.size()+2*around), to: uint64(len(p.order)+1) << 32}
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

// asked waits for the n-th request of its kind from the Conn, and reports
// whether that request exists.
func (p *scriptPeer) asked(n int, atomic bool) bool {
	at := 0
	for i, r := range p.order {
		if r.atomic != atomic {
			continue
		}
		if at++; at == n {
			if p.broken || !p.opened || p.readsDone+p.adsDone < max(r.fence, i+1-fuzzDepth) {
				return p.broken
			}
			return p.await("a request", func() bool { return p.requests > i })
		}
	}
	return p.broken
}

func (p *scriptPeer) answerRead() {
	if p.readsDone == len(p.sinks) || !p.asked(p.readsDone+1, false) {
		p.change = 0
		return
	}
	s := p.sinks[p.readsDone]
	data := p.bytes(len(s.mem) - 2*around)
	s.want, s.answered = bytes.Clone(data), p.change == 0
	p.readsDone++
	p.pieces(data, func(last bool, off int, part []byte) {
		p.segment(responseSeg(last, p.c.tx.sinkSTag, s.to+uint64(off), part))
	})
}

func (p *scriptPeer) answerAtomic() {
	if p.adsDone == p.atomics || !p.asked(p.adsDone+1, true) {
		p.change = 0
		return
	}
	p.adsDone++
	p.msn[2]++
	resp := rdmap.AtomicResponse{ID: uint32(p.adsDone), Original: uint64(p.next())}
	p.segment(resp.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpAtomicResponse, true, 0, p.msn[2], 0)))
}

// terminate sends a Terminate from the peer, which ends the stream.
func (p *scriptPeer) terminate() {
	term := rdmap.Terminate{Cause: rdmap.Error{Layer: p.next() & 3, Type: p.next() & 3, Code: p.next() & 15}}
	p.segment(term.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0)))
	p.broken = true
}

// odd are unusual field values.
var odd = []uint32{0, 1, 2, 3, 7, 0x7fffffff, 0x80000000, 0xffffffff}

// changed returns the FPDU of a segment with an error in it.
func (p *scriptPeer) changed(segment, framed []byte) []byte {
	at := int(p.next())
	switch s := bytes.Clone(segment); p.change % 8 {
	case 1: // a bit of the segment, with a valid CRC
		s[at%len(s)] ^= 1 << (p.next() & 7)
		return fpdu(p.crc, s)
	case 2: // a bit of a header
		s[at%min(len(s), 18)] ^= 1 << (p.next() & 7)
		return fpdu(p.crc, s)
	case 3: // a field
		at = min(at%18, len(s)-4)
		binary.BigEndian.PutUint32(s[at:], odd[int(p.next())%len(odd)])
		return fpdu(p.crc, s)
	case 4: // cut short, or extended
		if n := at % (len(s) + 8); n < len(s) {
			return fpdu(p.crc, s[:n])
		}
		return fpdu(p.crc, append(s, 1, 2, 3, 4))
	case 5: // twice
		return append(bytes.Clone(framed), framed...)
	case 6: // a wrong length
		framed[at&1] ^= p.next()
		return framed
	case 7: // a bit of the FPDU
		framed[at%len(framed)] ^= 1 << (p.next() & 7)
		return framed
	default: // no FPDU at all
		return nil
	}
}
