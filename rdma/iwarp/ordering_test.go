package iwarp

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// steppedHandler is a Handler that blocks in each message until the test lets it
// continue.
type steppedHandler struct {
	received chan rdma.Recv
	proceed  chan struct{}
	closed   chan error
}

func newSteppedHandler() steppedHandler {
	return steppedHandler{make(chan rdma.Recv, 9), make(chan struct{}), make(chan error, 1)}
}

func (s steppedHandler) Receive(m rdma.Recv) {
	releaseRecv(m)
	s.received <- m
	<-s.proceed
}

func (s steppedHandler) Closed(err error) { s.closed <- err }

// The tests below check the rows in RFC 7306, Section 7, that guarantee an
// order at the responder. The peer sends its messages with one call, and the
// tests check the responder's answers and their timing.

// TestNoResponseBeforeReceive checks that a Read or an atomic operation is not
// answered before the preceding Send or Immediate Data (any kind) is completed
// (R7306-7-2, R7306-6.4-1: rows Immediate Data-RDMA Read, Immediate
// Data-Atomic, Send-Atomic).
func TestNoResponseBeforeReceive(t *testing.T) {
	data := make([]byte, 8)
	for name, first := range map[string][]byte{
		"Send": sendSeg(true, 1, 0, nil), "Immediate Data": immediateSeg(1, false, data...), "Immediate Data with SE": immediateSeg(1, true, data...),
	} {
		for _, second := range []rdmap.Opcode{rdmap.OpReadRequest, rdmap.OpAtomicRequest} {
			t.Run(name+", "+second.String(), func(t *testing.T) {
				checkLeaks(t)
				s := newSteppedHandler()
				e, p := connectRaw(t, rawOptions{recvs: 1, immediate: true, before: func(c *Conn) { c.handler = s }})
				mem := make([]byte, 8)
				r, err := e.Register(mem, rdma.RemoteRead|rdma.RemoteAtomic)
				require.NoError(t, err)
				segment := atomicSeg(1, addRequest(r.STag(), 0, 1))
				if second == rdmap.OpReadRequest {
					segment = requestSeg(1, rdmap.ReadRequest{Size: 8, SourceSTag: r.STag()})
				}
				p.sendSegments(first, segment)
				<-s.received
				p.expectSilence(10 * time.Millisecond)
				assert.Zero(t, wordAt(t, mem, 0).Load())
				s.proceed <- struct{}{}
				p.readSegment()
				r.Deregister()
			})
		}
	}
}

// TestImmediateAndSendInOrder checks that Immediate Data and Sends complete in
// order (rows Immediate Data-Send and Immediate Data or Send-Immediate Data:
// R7306-6.3-3).
func TestImmediateAndSendInOrder(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 5, immediate: true})
	data := func(n byte) []byte { return []byte{n, 0, 0, 0, 0, 0, 0, 0} }
	p.sendSegments(
		immediateSeg(1, false, data(1)...),
		sendSeg(true, 2, 0, []byte{2}),
		immediateSeg(3, true, data(3)...),
		immediateSeg(4, false, data(4)...),
		sendSeg(true, 5, 0, []byte{5}),
	)
	for _, n := range []byte{1, 2, 3, 4, 5} {
		if m := e.inbox.nextRecv(t); m.WithImmediate {
			assert.Equal(t, n, m.Immediate[0])
		} else {
			assert.Equal(t, []byte{n}, m.Buf.B)
			m.Buf.Release()
		}
	}
}

// TestResponsesInOrder checks that all kinds of responses come in the requests'
// order, and that each atomic operation sees the previous one's result (rows
// Atomic-RDMA Read, RDMA Read-Atomic and Atomic-Atomic: R7306-7-3, R7306-7-4,
// R7306-5.2.1-7-1, R7306-5.2.2-2, R7306-5.2.2-8-1, R7306-5.4-8-1,
// R7306-5.4-8-2, RX01-7-1).
func TestResponsesInOrder(t *testing.T) {
	for _, pipe := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: !pipe, pipe: pipe, ird: 6})
		mem := make([]byte, 1<<20)
		r, err := e.Register(mem, rdma.RemoteRead|rdma.RemoteAtomic)
		require.NoError(t, err)
		read := func(msn, size uint32, to uint64) []byte {
			return requestSeg(msn, rdmap.ReadRequest{SinkSTag: rdma.STag(msn), Size: size, SourceSTag: r.STag(), SourceTO: to})
		}
		do := func(msn uint32, req rdmap.AtomicRequest) []byte {
			req.ID = 1000 + msn
			return atomicSeg(msn, req)
		}
		word := uint64(0)
		if pipe {
			word = 8 // a word must not be copied while an atomic operation changes it
		}
		p.sendSegments(
			read(1, 1<<20-8, 8), // through a pipe, all requests are sent before any response is read
			do(2, swapRequest(r.STag(), 0, 0, 1)),
			do(3, swapRequest(r.STag(), 0, 1, 2)),
			read(4, 8, word),
			do(5, swapRequest(r.STag(), 0, 2, 3)),
			do(6, addRequest(r.STag(), 0, 4)),
		)
		h, got := p.readResponse()
		assert.Len(t, got, 1<<20-8)
		assert.EqualValues(t, 1, h.STag)
		assert.Equal(t, rdmap.AtomicResponse{ID: 1002, Original: 0}, p.expectAtomicResponse(1))
		assert.Equal(t, rdmap.AtomicResponse{ID: 1003, Original: 1}, p.expectAtomicResponse(2))
		h, got = p.readResponse()
		assert.EqualValues(t, 4, h.STag)
		if !pipe { // earlier results, and possibly later ones
			assert.GreaterOrEqual(t, binary.NativeEndian.Uint64(got), uint64(2))
		}
		assert.Equal(t, rdmap.AtomicResponse{ID: 1005, Original: 2}, p.expectAtomicResponse(3))
		assert.Equal(t, rdmap.AtomicResponse{ID: 1006, Original: 3}, p.expectAtomicResponse(4))
		assert.EqualValues(t, 7, wordAt(t, mem, 0).Load())
		r.Deregister()
	}
}

// TestAtomicAfterWrite checks that an atomic operation uses earlier RDMA
// Writes' data, so its response shows that they are placed (row RDMA
// Write-Atomic: R7306-5.4-3-1, R7306-5.4-5-1, RX01-7-2).
func TestAtomicAfterWrite(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: crc})
		mem := make([]byte, 70_000)
		r, err := e.Register(mem, rdma.RemoteWrite|rdma.RemoteAtomic)
		require.NoError(t, err)
		word := binary.NativeEndian.AppendUint64(nil, 41)
		p.sendSegments(
			writeSeg(true, r.STag(), 0, word), atomicSeg(1, addRequest(r.STag(), 0, 1)),
			writeSeg(false, r.STag(), 64, patternBytes(65_000)), writeSeg(true, r.STag(), 65_064, word), atomicSeg(2, addRequest(r.STag(), 65_064, 1)),
		)
		assert.EqualValues(t, 41, p.expectAtomicResponse(1).Original)
		assert.EqualValues(t, 41, p.expectAtomicResponse(2).Original)
		assert.EqualValues(t, 42, wordAt(t, mem, 0).Load())
		r.Deregister()
		assert.Equal(t, patternBytes(65_000), mem[64:65_064])
	}
}

// TestAtomicNotBeforeDelivery checks that an Atomic Request which is
// incomplete, or has a wrong CRC, is neither delivered nor begun
// (R7306-5.4-3-1, R7306-5.4-5-1).
func TestAtomicNotBeforeDelivery(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: crc, initiator: true})
		mem := make([]byte, 8)
		r, err := e.Register(mem, rdma.RemoteAtomic)
		require.NoError(t, err)
		data := p.frameFPDU(atomicSeg(1, addRequest(r.STag(), 0, 1)))
		p.writeBytes(data[:len(data)-1])
		p.expectSilence(10 * time.Millisecond)
		word := wordAt(t, mem, 0)
		assert.Zero(t, word.Load())
		if crc {
			p.writeBytes([]byte{data[len(data)-1] ^ 1})
			p.readTerminate()
			assert.Zero(t, word.Load())
			continue
		}
		p.writeBytes(data[len(data)-1:])
		p.expectAtomicResponse(1)
		assert.EqualValues(t, 1, word.Load())
		r.Deregister()
	}
}

// TestNothingWaitsForResponses checks that messages after an atomic operation
// do not wait for its response (the rows with MAY: R7306-5.4-4-1,
// R7306-5.4-6-1, R7306-7-5).
func TestNothingWaitsForResponses(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true, recvs: 2, immediate: true})
	mem := make([]byte, 1<<20)
	r, err := e.Register(mem, rdma.RemoteRead|rdma.RemoteWrite|rdma.RemoteAtomic)
	require.NoError(t, err)
	p.sendSegments(
		requestSeg(1, rdmap.ReadRequest{Size: 1<<20 - 16, SourceSTag: r.STag(), SourceTO: 16}), // the peer does not read the response yet
		atomicSeg(2, addRequest(r.STag(), 0, 1)),
		sendSeg(true, 1, 0, []byte("send")),
		writeSeg(true, r.STag(), 8, []byte("write")),
		immediateSeg(2, false, make([]byte, 8)...),
	)
	assert.Equal(t, "send", string(e.inbox.nextMessage(t)))
	assert.True(t, e.inbox.nextRecv(t).WithImmediate)
	assert.Equal(t, "write", string(mem[8:13]))
	p.readResponse()
	assert.Zero(t, p.expectAtomicResponse(1).Original)
	r.Deregister()
}

// TestFencedAtomic checks two guarantees end to end: a fenced atomic operation
// is executed after a Read's data has arrived, and an atomic operation after a
// Write is executed once the Write's data is placed.
func TestFencedAtomic(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, o)
			mem := make([]byte, 1<<20)
			r, err := b.Register(mem, rdma.RemoteRead|rdma.RemoteWrite|rdma.RemoteAtomic)
			require.NoError(t, err)
			at := rdma.Remote{STag: r.STag(), TO: 1<<20 - 8}
			sink, done := make([]byte, 1<<20), make(completionWaiter, 3)
			for i := range uint64(20) {
				require.NoError(t, a.Post(
					rdma.WR{Op: rdma.OpWrite, Data: [][]byte{binary.NativeEndian.AppendUint64(nil, i)}, Remote: at, Done: done},
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Remote: rdma.Remote{STag: r.STag()}, Done: done},
					rdma.WR{Op: rdma.OpFetchAdd, Remote: at, Atomic: rdma.Atomic{Operand: 1 << 40}, Fence: true, Done: done},
				))
				for range 2 {
					require.NoError(t, done.wait(t).Err)
				}
				assert.Equal(t, i, done.wait(t).Original)
				assert.Equal(t, i, binary.NativeEndian.Uint64(sink[1<<20-8:]))
			}
			r.Deregister()
		})
	}
}
