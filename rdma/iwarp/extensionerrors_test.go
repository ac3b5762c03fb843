package iwarp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// untaggedSegment returns an untagged message's DDP header for a queue, followed by meaningless
// bytes.
func untaggedSegment(op rdmap.Opcode, msn uint32, size int) []byte {
	return append(rdmap.AppendUntagged(nil, op, true, 0, msn, 0), make([]byte, size)...)
}

// extensionFaultCases returns the errors in RFC 7306, Section 8.2, and the DDP
// and RDMAP errors that its messages can have too. Immediate Data is taken.
// Only words has the right to atomic operations, and no other right.
func extensionFaultCases(words rdma.STag) []faultCase {
	request := atomicSeg(1, addRequest(words, 0, 1))
	atomicTo := func(stag rdma.STag, to uint64) [][]byte { return [][]byte{atomicSeg(1, addRequest(stag, to, 1))} }
	swapTo := func(stag rdma.STag, to uint64) [][]byte { return [][]byte{atomicSeg(1, swapRequest(stag, to, 0, 1))} }
	immediate := immediateSeg(1, false, 1, 2, 3, 4, 5, 6, 7, 8)
	all := []faultCase{
		// R7306-9-1: the right, the bounds, and the Stream
		{"atomic on no STag", func(testRegions) [][]byte { return atomicTo(0, 0) }, rdmap.ErrInvalidSTag, false},
		{"atomic on a dead STag", func(g testRegions) [][]byte { return atomicTo(g.deregistered, 0) }, rdmap.ErrInvalidSTag, false},
		{"atomic on a foreign STag", func(g testRegions) [][]byte { return atomicTo(g.foreign, 0) }, rdmap.ErrSTagStream, false},
		{"atomic without the right", func(g testRegions) [][]byte { return atomicTo(g.rw, 0) }, rdmap.ErrAccess, false},
		{"atomic on what may be read", func(g testRegions) [][]byte { return swapTo(g.ro, 0) }, rdmap.ErrAccess, false},
		{"atomic behind the end", func(testRegions) [][]byte { return atomicTo(words, 32) }, rdmap.ErrBounds, false},
		{"atomic over the end", func(testRegions) [][]byte { return atomicTo(words, 25) }, rdmap.ErrBounds, false},
		{"atomic around the end", func(testRegions) [][]byte { return atomicTo(words, math.MaxUint64-6) }, rdmap.ErrTOWrap, false},
		{"atomic far away", func(testRegions) [][]byte { return atomicTo(words, 1<<63) }, rdmap.ErrBounds, false},
		{"Write where atomics may be", func(testRegions) [][]byte { return writeSegments(words, 0, 8) }, ddp.ErrInvalidSTag, false},
		{"Read where atomics may be", func(testRegions) [][]byte { return readSegments(words, 0, 8) }, rdmap.ErrAccess, true},

		{"the draft's Swap", oneSegment(withByte(request, ddp.UntaggedLen+3, 1)), rdmap.ErrOpcode, false},                                             // R7306-1.1-5, R7306-10.1-1, RX01-5.1.2-1, RX01-5.2.1-1
		{"the draft's Swap, unaligned", oneSegment(withByte(withByte(request, ddp.UntaggedLen+3, 1), ddp.UntaggedLen+19, 4)), rdmap.ErrOpcode, false}, // RX01-5.1.2-2

		// R7306-8.2-1: DDP's fields, on queues 0, 1 and 3
		{"Atomic Request MSN 0", oneSegment(withWord(request, 10, 0)), ddp.ErrMSNRange, false},
		{"Atomic Request again", func(testRegions) [][]byte { return [][]byte{request, request} }, ddp.ErrMSNRange, false}, // R7306-5.2.1-2-1
		{"Atomic Request MO 8", oneSegment(withWord(request, 14, 8)), ddp.ErrInvalidMO, false},
		{"Atomic Request too long", oneSegment(append(bytes.Clone(request), 0)), ddp.ErrTooLong, false}, // R7306-4.2-1
		{"Atomic Request too short", oneSegment(request[:len(request)-1]), rdmap.ErrUnspecified, false},
		{"Atomic Request in pieces", oneSegment(withByte(request, 0, 0x01)), rdmap.ErrUnspecified, false},
		{"Atomic Request DDP version 0", oneSegment(withByte(request, 0, 0x40)), ddp.ErrUntaggedVersion, false},
		{"Immediate Data MSN 2", oneSegment(withWord(immediate, 10, 2)), ddp.ErrMSNRange, false},
		{"Immediate Data again", func(testRegions) [][]byte { return [][]byte{immediate, immediate} }, ddp.ErrMSNRange, false},
		{"Immediate Data MO 1", oneSegment(withWord(immediate, 14, 1)), ddp.ErrInvalidMO, false},
		{"Immediate Data too long for DDP", oneSegment(untaggedSegment(rdmap.OpImmediate, 1, 65)), ddp.ErrTooLong, false},
		{"more Immediate Data than buffers", func(testRegions) [][]byte { // R7306-6.3-2
			return [][]byte{sendSeg(true, 1, 0, nil), withWord(immediate, 10, 2), withWord(immediate, 10, 3)}
		}, ddp.ErrNoBuffer, false},
		{"Immediate Data, then a Send without a buffer", func(testRegions) [][]byte { // R7306-6.3-2
			return [][]byte{immediate, withWord(immediate, 10, 2), sendSeg(true, 3, 0, nil)}
		}, ddp.ErrNoBuffer, false},
		{"Atomic Response unasked", oneSegment(untaggedSegment(rdmap.OpAtomicResponse, 1, 12)), ddp.ErrNoBuffer, false}, // R7306-5.2.2-7-1

		{"Immediate Data of 7", oneSegment(untaggedSegment(rdmap.OpImmediate, 1, 7)), rdmap.ErrUnspecified, false}, // R7306-6.3-7, R7306-6.1-3
		{"Immediate Data of 9", oneSegment(untaggedSegment(rdmap.OpImmediate, 1, 9)), rdmap.ErrUnspecified, false}, // R7306-6.3-7, R7306-6.1-3
		{"Immediate Data with SE of 9", oneSegment(untaggedSegment(rdmap.OpImmediateSE, 1, 9)), rdmap.ErrUnspecified, false},
		{"Immediate Data of none", oneSegment(untaggedSegment(rdmap.OpImmediate, 1, 0)), rdmap.ErrUnspecified, false},
		{"Immediate Data in pieces", oneSegment(withByte(immediate, 0, 0x01)), rdmap.ErrUnspecified, false}, // R7306-6.3-7
		{"Immediate Data within a Send", func(testRegions) [][]byte {
			return [][]byte{sendSeg(false, 1, 0, []byte{1}), withWord(immediate, 14, 1)}
		}, rdmap.ErrUnspecified, false},
		{"Immediate Data at the start of a Send", func(testRegions) [][]byte {
			return [][]byte{sendSeg(false, 1, 0, nil), immediate}
		}, rdmap.ErrUnspecified, false},
	}
	for n := range uint64(7) { // R7306-8.2-4, R7306-8.2-5, RX01-5.1.1-1, RX01-8.2-1
		all = append(all,
			// R7306-5.1.1-3, R7306-5.1.1-4, R7306-5.1.1-6
			faultCase{fmt.Sprintf("FetchAdd %d bytes off", n+1), func(testRegions) [][]byte { return atomicTo(words, n+1) }, rdmap.ErrStream, false},
			// R7306-5.1.2-4, R7306-5.1.2-7, R7306-5.1.2-8
			faultCase{fmt.Sprintf("CmpSwap %d bytes off", n+1), func(testRegions) [][]byte { return swapTo(words, n+9) }, rdmap.ErrStream, false})
	}
	for code := range byte(16) { // R7306-5.2.1-4-1, R7306-10.1-1, R7306-1.1-5, RX01-5.2.1-4-1
		if code > 2 {
			all = append(all, faultCase{fmt.Sprintf("AOpCode %d", code), oneSegment(withByte(request, ddp.UntaggedLen+3, code)), rdmap.ErrOpcode, false})
		}
	}
	for op := rdmap.OpImmediate; op <= rdmap.OpAtomicResponse; op++ {
		for _, rv := range []byte{0, 2, 3} { // R7306-8.2-3
			all = append(all, faultCase{fmt.Sprintf("%v, RDMAP version %d", op, rv), oneSegment(withByte(untaggedSegment(op, 1, 8), 1, rv<<6|byte(op))), rdmap.ErrVersion, false})
		}
		for qn := range uint32(6) { // R7306-4.1-6, R7306-8.2-2, R7306-10.2-1, RX01-4.1-1
			right := binary.BigEndian.Uint32(untaggedSegment(op, 1, 0)[6:])
			if qn == right {
				continue
			}
			cause := error(rdmap.ErrOpcode)
			if qn > rdmap.QueueAtomic {
				cause = ddp.ErrInvalidQN
			}
			all = append(all, faultCase{fmt.Sprintf("%v on queue %d", op, qn), oneSegment(withWord(untaggedSegment(op, 1, 8), 6, qn)), cause, false})
		}
		all = append(all, faultCase{fmt.Sprintf("%v, tagged", op), oneSegment(withByte(writeSeg(true, 1, 0, []byte{1}), 1, 0x40|byte(op))), rdmap.ErrOpcode, false})
	}
	return all
}

// TestTerminateExtensions checks that each error gets its Terminate, with the
// faulty segment's DDP header and never its RDMAP header, and that no memory
// changes (R7306-8.1-2-1).
func TestTerminateExtensions(t *testing.T) {
	for i, tt := range extensionFaultCases(0) {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			other, _ := connectRaw(t, rawOptions{})
			e, p := connectRaw(t, rawOptions{initiator: true, crc: i%2 == 0, recvs: 2, recvSize: 64, immediate: true})
			g, mem := registerRegions(t, e, other)
			words := make([]byte, 32)
			r, err := e.Register(words, rdma.RemoteAtomic)
			require.NoError(t, err)
			segments := extensionFaultCases(r.STag())[i].segments(g)
			bad := segments[len(segments)-1]
			p.sendSegments(append(segments, atomicSeg(1, addRequest(r.STag(), 0, 99)), atomicSeg(2, addRequest(r.STag(), 0, 99)))...)

			segment := p.readSegment()
			if segment[1] == 0x4b { // the answer to the valid request
				segment = p.readSegment()
			}
			got := parseTerminate(t, segment)
			p.expectEOF()
			assert.ErrorIs(t, got.Cause, tt.cause)
			header := ddp.HeaderLen(bad[0])
			want := rdmap.Terminate{Cause: got.Cause, HasLength: true, SegmentLen: uint16(len(bad)), DDPHeader: bad[:header]}
			if tt.rdmap {
				want.RDMAPHeader = bad[header:]
			}
			assert.Equal(t, want, got)
			requireFault(t, e.inbox.closeError(t), false, got.Cause) // R7306-6.1-3: the ULP is informed
			assert.Equal(t, make([]byte, len(mem)), mem)
			word := binary.NativeEndian.Uint64(words)
			if tt.name == "Atomic Request again" {
				assert.EqualValues(t, 1, word) // R7306-5.2.1-2-1
				word = 0
			}
			assert.Zero(t, word) // R7306-5.1.1-5, R7306-5.1.2-5, R7306-5.1.2-6
			assert.Equal(t, make([]byte, 24), words[8:])
		})
	}
}

// TestAtomicResponseWrong checks that an Atomic Response must answer the oldest
// request (R7306-5.2.2-7-1, R7306-8.2-1).
func TestAtomicResponseWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		send  func(id uint32) []byte
		cause error
	}{
		"of another request": {func(id uint32) []byte { return atomicResponseSeg(1, rdmap.AtomicResponse{ID: id + 1}) }, rdmap.ErrUnspecified},
		"MSN 2":              {func(id uint32) []byte { return atomicResponseSeg(2, rdmap.AtomicResponse{ID: id + 1}) }, ddp.ErrMSNRange},
		"MSN 0":              {func(id uint32) []byte { return atomicResponseSeg(0, rdmap.AtomicResponse{ID: id}) }, ddp.ErrMSNRange},
		"too short":          {func(uint32) []byte { return untaggedSegment(rdmap.OpAtomicResponse, 1, 11) }, rdmap.ErrUnspecified},
		"empty":              {func(uint32) []byte { return untaggedSegment(rdmap.OpAtomicResponse, 1, 0) }, rdmap.ErrUnspecified},
		"too long":           {func(uint32) []byte { return untaggedSegment(rdmap.OpAtomicResponse, 1, 32) }, ddp.ErrTooLong},
		"in pieces": {func(id uint32) []byte {
			return withByte(atomicResponseSeg(1, rdmap.AtomicResponse{ID: id}), 0, 0x01)
		}, rdmap.ErrUnspecified},
		"on the draft's queue 1": {func(id uint32) []byte { // RX01-4.1-1
			return withWord(atomicResponseSeg(1, rdmap.AtomicResponse{ID: id}), 6, 1)
		}, rdmap.ErrOpcode},
		"DDP version 3": {func(id uint32) []byte {
			return withByte(atomicResponseSeg(1, rdmap.AtomicResponse{ID: id}), 0, 0x43)
		}, ddp.ErrUntaggedVersion},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true})
			done := make(completionWaiter, 2)
			atomic := rdma.WR{Op: rdma.OpFetchAdd, Done: done}
			require.NoError(t, e.Post(atomic, atomic))
			req, _ := p.expectAtomicRequest()
			p.expectAtomicRequest()
			segment := tt.send(req.ID)
			p.sendSegments(segment)
			term := p.readTerminate()
			assert.ErrorIs(t, term.Cause, tt.cause)
			assert.Equal(t, segment[:ddp.UntaggedLen], term.DDPHeader)
			assert.Nil(t, term.RDMAPHeader)
			for range 2 {
				c := done.wait(t)
				assert.ErrorIs(t, c.Err, rdma.ErrFlushed)
				assert.Zero(t, c.Original)
			}
			requireFault(t, e.inbox.closeError(t), false, term.Cause)
		})
	}
}

// TestImmediateIsOptional checks that an upper layer that has not enabled
// Immediate Data gets none: the peer learns that the opcode is not known
// (R7306-1.1-2, R7306-1.1-3, R7306-1.1-5).
func TestImmediateIsOptional(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{recvs: 4})
	done := make(completionWaiter, 1)
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpImmediate, Done: done}))
	require.NoError(t, done.wait(t).Err)
	requireFault(t, b.inbox.closeError(t), false, rdmap.ErrOpcode)
	require.ErrorIs(t, a.inbox.closeError(t), rdma.ErrUnsupportedOp) // R7306-6.1-3
	assert.Empty(t, b.inbox.recvs)
}
