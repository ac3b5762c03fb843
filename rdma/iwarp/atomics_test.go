package iwarp

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// addRequest returns an Atomic Request that adds n.
func addRequest(stag rdma.STag, to uint64, n uint64) rdmap.AtomicRequest {
	return rdmap.AtomicRequest{Op: rdma.OpFetchAdd, STag: stag, TO: to, Atomic: rdma.Atomic{Operand: n}}
}

// swapRequest returns an Atomic Request that changes a word from old to new.
func swapRequest(stag rdma.STag, to uint64, old, new uint64) rdmap.AtomicRequest {
	return rdmap.AtomicRequest{Op: rdma.OpCompareSwap, STag: stag, TO: to, Atomic: rdma.Atomic{
		Operand: new, OperandMask: rdma.AllBits, Compare: old, CompareMask: rdma.AllBits,
	}}
}

// wordAt is rdma.Word.
func wordAt(t testing.TB, mem []byte, off int) *atomic.Uint64 {
	t.Helper()
	w, err := rdma.Word(mem, off)
	require.NoError(t, err)
	return w
}

// TestGoldenExtensions checks byte by byte the wire form of RFC 7306's work
// requests (R7306-4.1-1, R7306-4.1-3, R7306-4.1-5, R7306-4.1-6, R7306-4.1-7,
// R7306-4.2-1, R7306-5.2.1-2, R7306-5.2.1-8, R7306-5.2.1-1-1, R7306-5.2.1-5-1,
// R7306-6.2-1, R7306-6.3-1, R7306-6.3-4, R7306-6.3-5).
func TestGoldenExtensions(t *testing.T) {
	at := rdma.Remote{STag: 0x22222222, TO: 0x3000}
	for file, wr := range map[string]rdma.WR{
		"fetch-add.hex": {Op: rdma.OpFetchAdd, Remote: at, Atomic: rdma.Atomic{Operand: 1, Compare: 5, CompareMask: 6}, Solicited: true},
		"cmp-swap.hex": {Op: rdma.OpCompareSwap, Remote: rdma.Remote{STag: at.STag, TO: at.TO + 8}, Atomic: rdma.Atomic{
			Operand: 0x0102030405060708, OperandMask: 0xffffffff00000000,
			Compare: 0x1112131415161718, CompareMask: 0x00000000ffffffff,
		}},
		"immediate.hex":    {Op: rdma.OpImmediate, Immediate: [8]byte{0, 1, 2, 3, 4, 5, 6, 7}, Invalidate: 5, Remote: at},
		"immediate-se.hex": {Op: rdma.OpImmediate, Immediate: [8]byte{0, 1, 2, 3, 4, 5, 6, 7}, Solicited: true},
	} {
		t.Run(file, func(t *testing.T) {
			checkLeaks(t)
			want := wiretest.Hex(t, "rdmap/testdata/"+file)
			h, _, err := ddp.ParseUntagged(want)
			require.NoError(t, err)
			e, p := connectRaw(t, rawOptions{initiator: true, crc: true, before: func(c *Conn) {
				c.tx.sends, c.tx.requests, c.tx.atomicReqs = h.MSN-1, h.MSN-1, 5+h.MSN
			}})
			require.NoError(t, e.Post(wr))
			framed := frameFPDU(true, want)
			assert.Equal(t, framed, p.readBytes(len(framed)))
		})
	}
}

// TestGoldenAtomicResponse checks that the golden request gets the golden
// response, without the upper layer, which is not informed (R7306-5.2.1-3-1,
// R7306-5.2.1-3-2, R7306-5.2.1-8-1, R7306-5.2.2-1, R7306-5.2.2-2,
// R7306-5.2.2-3).
func TestGoldenAtomicResponse(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: crc, recvs: 1})
		mem := make([]byte, 0x4000)
		r, err := e.Register(mem, rdma.RemoteAtomic)
		require.NoError(t, err)
		word := wordAt(t, mem, 0x3000)
		word.Store(41)
		p.sendSegments(withWord(wiretest.Hex(t, "rdmap/testdata/fetch-add.hex"), ddp.UntaggedLen+8, uint32(r.STag())))
		assert.Equal(t, wiretest.Hex(t, "rdmap/testdata/atomic-response.hex"), p.readSegment())
		assert.EqualValues(t, 42, word.Load())
		assert.Empty(t, e.inbox.recvs)
		assert.EqualValues(t, 1, e.rx.recvs.Load())
		r.Deregister()
	}
}

// TestAtomics checks that both operations work as RFC 7306, Section 5.1,
// demands, over every transport (R7306-1.1-1, R7306-5-2, R7306-5-5,
// R7306-5.1.1-8, R7306-5.2.1-4, R7306-5.2.1-6, R7306-5.2.2-6-1, RX01-5-1).
func TestAtomics(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, o)
			mem := make([]byte, 64)
			r, err := b.Register(mem, rdma.RemoteAtomic)
			require.NoError(t, err)
			done := make(completionWaiter, 1)
			do := func(op rdma.Op, off uint64, x rdma.Atomic) uint64 {
				t.Helper()
				require.NoError(t, a.Post(rdma.WR{
					Op: op, Remote: rdma.Remote{STag: r.STag(), TO: r.TO() + off}, Atomic: x, Done: done, ID: 77,
				}))
				c := done.wait(t)
				require.NoError(t, c.Err)
				assert.Equal(t, rdma.Completion{ID: 77, Op: op, Original: c.Original}, c)
				return c.Original
			}
			middle := wordAt(t, mem, 24)
			middle.Store(0x0102030405060708)
			assert.EqualValues(t, 0x0102030405060708, do(rdma.OpFetchAdd, 24, rdma.Atomic{Operand: 0x10}))
			assert.EqualValues(t, 0x0102030405060718, middle.Load())

			// R7306-5.1.1-1, R7306-5.1.1-2, R7306-5.2.2-3
			fields := rdma.Atomic{Operand: 0x0001000100010001, OperandMask: 0x8000800080008000}
			word := wordAt(t, mem, 0)
			word.Store(0xffff0001ffff0001)
			assert.EqualValues(t, uint64(0xffff0001ffff0001), do(rdma.OpFetchAdd, 0, fields))
			assert.EqualValues(t, 0x0000000200000002, do(rdma.OpFetchAdd, 0, rdma.Atomic{Operand: rdma.AllBits}))
			assert.EqualValues(t, 0x0000000200000001, word.Load())

			// R7306-5.1.2-1, R7306-5.1.2-2, R7306-5.1.2-3
			masked := rdma.Atomic{Operand: 0xab00, OperandMask: 0xff00, Compare: 0x12, CompareMask: 0xff}
			last := wordAt(t, mem, 56)
			last.Store(0x0012)
			assert.EqualValues(t, 0x0012, do(rdma.OpCompareSwap, 56, masked))
			assert.EqualValues(t, 0xab12, last.Load())
			last.Store(0x3413)
			assert.EqualValues(t, 0x3413, do(rdma.OpCompareSwap, 56, masked))
			assert.EqualValues(t, 0x3413, last.Load())
			assert.Empty(t, b.inbox.recvs) // R7306-5.2.1-3-2
			r.Deregister()

			// The word has the host's byte order, and its value is transmitted:
			// R7306-5.1.1-7.
			a.Abort(nil)
			require.Error(t, b.inbox.closeError(t))
			assert.Equal(t, binary.NativeEndian.AppendUint64(nil, 0x0102030405060718), mem[24:32])
		})
	}
}

// TestAtomicAlignmentIsOfAddress checks that the word's address in memory must
// be aligned, not its offset in the region (R7306-5.2.1-7, RX01-5.2.1-3).
func TestAtomicAlignmentIsOfAddress(t *testing.T) {
	checkLeaks(t)
	for shift := range 8 {
		e, p := connectRaw(t, rawOptions{})
		mem := make([]byte, 32)
		r, err := e.Register(mem[shift:], rdma.RemoteAtomic)
		require.NoError(t, err)
		to := uint64(16 - shift)
		p.sendSegments(atomicSeg(1, addRequest(r.STag(), to, 1)))
		assert.Zero(t, p.expectAtomicResponse(1).Original)
		assert.EqualValues(t, 1, wordAt(t, mem, 16).Load())
		p.sendSegments(atomicSeg(2, addRequest(r.STag(), to-1, 1)))
		assert.Equal(t, rdmap.ErrStream, p.readTerminate().Cause)
		r.Deregister()
	}
}

// TestAtomicsComplete checks that an atomic operation completes only with its
// response, and that the MSNs distinguish several operations (R7306-5-7,
// R7306-5.2.2-5-1, R7306-5.4-1-1, R7306-5.4-7-1, RX01-5.4-1-1).
func TestAtomicsComplete(t *testing.T) {
	checkLeaks(t)
	const depth = 8
	e, p := connectRaw(t, rawOptions{initiator: true, ord: depth})
	done := make(completionWaiter, depth)
	for i := range uint64(depth) { // R7306-5.2.1-6-1: in posting order
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: 1, TO: 8 * i}, Done: done, ID: i}))
	}
	ids := map[uint32]bool{}
	var reqs []rdmap.AtomicRequest
	for i := range uint32(depth) {
		req, msn := p.expectAtomicRequest()
		assert.Equal(t, i+1, msn) // R7306-5.2.1-2-1
		assert.EqualValues(t, 8*i, req.TO)
		ids[req.ID] = true // R7306-5.2.1-5
		reqs = append(reqs, req)
	}
	assert.Len(t, ids, depth)
	p.expectSilence(10 * time.Millisecond)
	assert.Empty(t, done)
	for i, req := range reqs {
		p.sendSegments(atomicResponseSeg(uint32(i+1), rdmap.AtomicResponse{ID: req.ID, Original: uint64(100 + i)}))
		c := done.wait(t)
		assert.Equal(t, rdma.Completion{ID: uint64(i), Op: rdma.OpFetchAdd, Original: uint64(100 + i)}, c)
		assert.Empty(t, done)
	}
}

// TestAtomicsWait checks that RDMA Reads and atomic operations share ORD, and
// that a fence waits for both (R7306-5.2-1).
func TestAtomicsWait(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true, ord: 2})
	done, sink := make(completionWaiter, 5), make([]byte, 1)
	swap := rdma.WR{Op: rdma.OpCompareSwap, Done: done}
	require.NoError(t, e.Post(
		swap,
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Done: done},
		swap,
		rdma.WR{Op: rdma.OpImmediate, Fence: true, Done: done},
	))
	first, _ := p.expectAtomicRequest()
	read := p.expectReadRequest()
	p.expectSilence(20 * time.Millisecond)
	p.sendSegments(atomicResponseSeg(1, rdmap.AtomicResponse{ID: first.ID}))
	third, msn := p.expectAtomicRequest()
	assert.EqualValues(t, 3, msn)
	p.sendSegments(responseSeg(true, read.SinkSTag, read.SinkTO, []byte{9}))
	p.expectSilence(20 * time.Millisecond)
	p.sendSegments(atomicResponseSeg(2, rdmap.AtomicResponse{ID: third.ID}))
	assert.Equal(t, immediateSeg(1, false, make([]byte, 8)...), p.readSegment())
	for _, op := range []rdma.Op{rdma.OpCompareSwap, rdma.OpRead, rdma.OpCompareSwap, rdma.OpImmediate} {
		assert.Equal(t, op, done.wait(t).Op)
	}
}

// TestAtomicsBeyondIRD checks that a responder takes IRD Reads and atomic
// operations together, and that another request is an error (R7306-5.2-1,
// R7306-5.2.2-4-1, RX01-5.2.2-1).
func TestAtomicsBeyondIRD(t *testing.T) {
	checkLeaks(t)
	synctest.Test(t, func(t *testing.T) { // a slow machine takes none of the time for the Terminate
		e, p := connectRaw(t, rawOptions{pipe: true, ird: 3})
		mem := make([]byte, 4<<20)
		r, err := e.Register(mem, rdma.RemoteRead|rdma.RemoteAtomic)
		require.NoError(t, err)
		read := rdmap.ReadRequest{Size: uint32(len(mem) - 8), SourceSTag: r.STag(), SourceTO: 8}
		for round := range uint32(2) {
			msn := 3 * round
			p.sendSegments(requestSeg(msn+1, read), atomicSeg(msn+2, addRequest(r.STag(), 0, 1)), atomicSeg(msn+3, addRequest(r.STag(), 0, 1)))
			if round == 0 {
				p.readResponse()
				p.expectAtomicResponse(1)
				p.expectAtomicResponse(2)
			}
		}
		p.sendSegments(atomicSeg(7, addRequest(r.STag(), 0, 1)))
		segment := p.readSegment()
		for segment[0]&0x80 != 0 {
			segment = p.readSegment()
		}
		term := parseTerminate(t, segment)
		require.ErrorIs(t, term.Cause, ddp.ErrNoBuffer)
		p.expectEOF()
		require.ErrorIs(t, e.inbox.closeError(t), ddp.ErrNoBuffer)
		assert.EqualValues(t, 4, wordAt(t, mem, 0).Load())
	})
}

// TestPostRefusesExtensions checks that Post refuses invalid requests before
// they are queued, so that building their messages cannot fail (R7306-8.1-1-1).
func TestPostRefusesExtensions(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{initiator: true})
	for _, op := range []rdma.Op{rdma.OpFetchAdd, rdma.OpCompareSwap, rdma.OpImmediate} {
		assert.ErrorContains(t, e.Post(rdma.WR{Op: op, Data: [][]byte{nil}}), "it takes none")
	}
	assert.ErrorContains(t, e.Post(rdma.WR{Op: rdma.OpImmediate + 1}), "Op(6)")
	e, _ = connectRaw(t, rawOptions{initiator: true, ord: -1})
	assert.ErrorIs(t, e.Post(rdma.WR{Op: rdma.OpFetchAdd}), errNoReads)
}
