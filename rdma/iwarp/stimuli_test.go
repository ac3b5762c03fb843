package iwarp

import (
	"bytes"
	"fmt"
	"math"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// testRegions holds the STags that the fault cases of TestTerminate use at the end under test.
type testRegions struct {
	rw, ro, wo   rdma.STag // 100 byte regions, by the peer's rights
	foreign      rdma.STag // belongs to another connection
	deregistered rdma.STag // deregistered
}

// A faultCase is a segment sequence from a peer; the last segment is wrong.
type faultCase struct {
	name     string
	segments func(g testRegions) [][]byte
	cause    error
	rdmap    bool // the Terminate carries the RDMAP header too
}

// oneSegment returns a fault case with a single segment.
func oneSegment(segment []byte) func(testRegions) [][]byte {
	return func(testRegions) [][]byte { return [][]byte{segment} }
}

// readSegments returns a Read Request for size bytes at to.
func readSegments(stag rdma.STag, to uint64, size uint32) [][]byte {
	return [][]byte{requestSeg(1, rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: size, SourceSTag: stag, SourceTO: to})}
}

// writeSegments returns an RDMA Write with size bytes at to.
func writeSegments(stag rdma.STag, to uint64, size int) [][]byte {
	return [][]byte{writeSeg(true, stag, to, bytes.Repeat([]byte{0xee}, size))}
}

// faultCases returns the errors in RFC 5040, Section 7.2, and RFC 5041, Section
// 7.1.
func faultCases() []faultCase {
	send, write := sendSeg(true, 1, 0, []byte("hello")), writeSeg(true, 1, 0, []byte{1})
	read := requestSeg(1, rdmap.ReadRequest{Size: 1})
	all := []faultCase{
		// R5041-7.1-U2-1, U3-1, U4-1, U5-1
		{"Send too long", oneSegment(sendSeg(true, 1, 0, make([]byte, 65))), ddp.ErrTooLong, false}, // R5040-5.3-4
		{"second segment too long", func(testRegions) [][]byte {
			return [][]byte{sendSeg(false, 1, 0, make([]byte, 64)), sendSeg(true, 1, 64, []byte{1})}
		}, ddp.ErrTooLong, false},
		{"more Sends than buffers", func(testRegions) [][]byte {
			return [][]byte{sendSeg(true, 1, 0, nil), sendSeg(true, 2, 0, nil), sendSeg(true, 3, 0, nil)} // R5040-5.3-11
		}, ddp.ErrNoBuffer, false},
		{"Send MSN 0", oneSegment(sendSeg(true, 0, 0, nil)), ddp.ErrMSNRange, false}, // R5041-4.3-6
		{"Send MSN 2", oneSegment(sendSeg(true, 2, 0, nil)), ddp.ErrMSNRange, false},
		{"Send again", func(testRegions) [][]byte { return [][]byte{send, send} }, ddp.ErrMSNRange, false}, // R5041-5.3-5
		{"next Send within a Send", func(testRegions) [][]byte {
			return [][]byte{sendSeg(false, 1, 0, []byte{1}), sendSeg(true, 2, 0, []byte{1})}
		}, ddp.ErrMSNRange, false},
		{"Send MO 1", oneSegment(sendSeg(true, 1, 1, nil)), ddp.ErrInvalidMO, false}, // R5041-4.3-9
		{"Send MO behind the buffer", oneSegment(sendSeg(true, 1, math.MaxUint32, []byte{1})), ddp.ErrInvalidMO, false},
		{"Send MO again", func(testRegions) [][]byte {
			return [][]byte{sendSeg(false, 1, 0, []byte{1, 2}), sendSeg(true, 1, 1, []byte{1})}
		}, ddp.ErrInvalidMO, false},
		{"Read Request MSN 0", oneSegment(withWord(read, 10, 0)), ddp.ErrMSNRange, false}, // R5040-7.2-R1-1
		{"Read Request MSN 2", oneSegment(withWord(read, 10, 2)), ddp.ErrMSNRange, false},
		{"Read Request MO 1", oneSegment(withWord(read, 14, 1)), ddp.ErrInvalidMO, false},
		{"Read Request too long", oneSegment(append(bytes.Clone(read), 0)), ddp.ErrTooLong, false},
		{"Read Request too short", oneSegment(read[:len(read)-1]), rdmap.ErrUnspecified, false},
		{"Read Request in pieces", oneSegment(withByte(read, 0, 0x01)), rdmap.ErrUnspecified, false},
		{"Terminate MSN 2", oneSegment(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 2, 0)), ddp.ErrMSNRange, false},
		{"Terminate too long", oneSegment(append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0), make([]byte, 53)...)), ddp.ErrTooLong, false},

		// R5041-7.1-T1-1, R5041-7.1-1
		{"Write to no STag", oneSegment(writeSeg(true, 0, 0, []byte{1})), ddp.ErrInvalidSTag, false},
		{"Write to a foreign STag", func(g testRegions) [][]byte { return writeSegments(g.foreign, 0, 1) }, ddp.ErrSTagStream, false},    // R5042-6.1.1-3
		{"Write to a dead STag", func(g testRegions) [][]byte { return writeSegments(g.deregistered, 0, 1) }, ddp.ErrInvalidSTag, false}, // R5040-3.2-13
		{"Write without the right", func(g testRegions) [][]byte { return writeSegments(g.ro, 0, 1) }, ddp.ErrInvalidSTag, false},        // R5041-7.1-T2-1
		// R5041-7.1-T3-1, T4-1, T5-1
		{"Write behind the end", func(g testRegions) [][]byte { return writeSegments(g.wo, 100, 1) }, ddp.ErrBounds, false},
		{"Write beyond the end", func(g testRegions) [][]byte { return writeSegments(g.rw, 99, 2) }, ddp.ErrBounds, false},
		{"Write too long", func(g testRegions) [][]byte { return writeSegments(g.rw, 0, 101) }, ddp.ErrBounds, false},
		{"Write before the start", func(g testRegions) [][]byte { return writeSegments(g.rw, math.MaxUint64, 1) }, ddp.ErrTOWrap, false},
		{"Write around the end", func(g testRegions) [][]byte { return writeSegments(g.rw, math.MaxUint64, 2) }, ddp.ErrTOWrap, false},
		{"Write far away", func(g testRegions) [][]byte { return writeSegments(g.rw, 1<<32, 1) }, ddp.ErrBounds, false},
		{"second Write segment beyond", func(g testRegions) [][]byte {
			return [][]byte{writeSeg(false, g.rw, 90, make([]byte, 10)), writeSeg(true, g.rw, 100, []byte{1})}
		}, ddp.ErrBounds, false},

		// R5040-7.2-R4a-1 to R4e-1
		{"Read of no STag", func(testRegions) [][]byte { return readSegments(0, 0, 1) }, rdmap.ErrInvalidSTag, true},
		{"Read of a dead STag", func(g testRegions) [][]byte { return readSegments(g.deregistered, 0, 1) }, rdmap.ErrInvalidSTag, true},
		{"Read of a foreign STag", func(g testRegions) [][]byte { return readSegments(g.foreign, 0, 1) }, rdmap.ErrSTagStream, true},
		{"Read without the right", func(g testRegions) [][]byte { return readSegments(g.wo, 0, 1) }, rdmap.ErrAccess, true}, // R5042-6.3.5-1
		{"Read behind the end", func(g testRegions) [][]byte { return readSegments(g.ro, 100, 1) }, rdmap.ErrBounds, true},
		{"Read beyond the end", func(g testRegions) [][]byte { return readSegments(g.ro, 99, 2) }, rdmap.ErrBounds, true},
		{"Read too long", func(g testRegions) [][]byte { return readSegments(g.rw, 0, math.MaxUint32) }, rdmap.ErrBounds, true},
		{"Read around the end", func(g testRegions) [][]byte { return readSegments(g.rw, math.MaxUint64, 2) }, rdmap.ErrTOWrap, true},

		// R5040-5.3-13, R5040-5.3-14, R5040-7.2-4-1, R5040-7.2-5-1
		{"invalidation of no STag", oneSegment(invalidateSeg(1, 0, nil)), rdmap.ErrCannotInvalidate, false},
		{"invalidation of a dead STag", func(g testRegions) [][]byte { return [][]byte{invalidateSeg(1, g.deregistered, nil)} }, rdmap.ErrCannotInvalidate, false},
		{"invalidation of a foreign STag", func(g testRegions) [][]byte { return [][]byte{invalidateSeg(1, g.foreign, nil)} }, rdmap.ErrCannotInvalidate, false},
		{"invalidation twice", func(g testRegions) [][]byte {
			return [][]byte{invalidateSeg(1, g.rw, nil), invalidateSeg(2, g.rw, nil)}
		}, rdmap.ErrCannotInvalidate, false},
		{"Write after invalidation", func(g testRegions) [][]byte {
			return append([][]byte{invalidateSeg(1, g.rw, nil)}, writeSegments(g.rw, 0, 1)...)
		}, ddp.ErrInvalidSTag, false},
		{"Read after invalidation", func(g testRegions) [][]byte {
			return append([][]byte{invalidateSeg(1, g.rw, nil)}, readSegments(g.rw, 0, 1)...)
		}, rdmap.ErrInvalidSTag, true},

		// R5040-5.2.2-5
		{"Read Response unasked", oneSegment(responseSeg(true, 1, 0, []byte{1})), ddp.ErrInvalidSTag, false},
	}
	for _, qn := range []uint32{4, 5, math.MaxUint32} { // R5041-7.1-U1-1
		all = append(all, faultCase{fmt.Sprintf("queue %d", qn), oneSegment(withWord(send, 6, qn)), ddp.ErrInvalidQN, false})
	}
	for _, dv := range []byte{0, 2, 3} { // R5041-4.1-11
		all = append(all,
			faultCase{fmt.Sprintf("DDP version %d, untagged", dv), oneSegment(withByte(send, 0, 0x40|dv)), ddp.ErrUntaggedVersion, false},
			faultCase{fmt.Sprintf("DDP version %d, tagged", dv), oneSegment(withByte(write, 0, 0xc0|dv)), ddp.ErrTaggedVersion, false})
	}
	for _, rv := range []byte{0, 2, 3} { // R5040-7.2-3-1, R5040-7.2-R3-1
		all = append(all,
			faultCase{fmt.Sprintf("RDMAP version %d, Send", rv), oneSegment(withByte(send, 1, rv<<6|3)), rdmap.ErrVersion, false},
			faultCase{fmt.Sprintf("RDMAP version %d, Read Request", rv), oneSegment(withByte(read, 1, rv<<6|1)), rdmap.ErrVersion, false},
			faultCase{fmt.Sprintf("RDMAP version %d, Write", rv), oneSegment(withByte(write, 1, rv<<6)), rdmap.ErrVersion, false})
	}
	for op := range byte(16) { // R5040-4.1-13, R5040-7.2-2-1, R5040-7.2-R2-1
		if op != 0 && op != 2 {
			all = append(all, faultCase{fmt.Sprintf("opcode %d, tagged", op), oneSegment(withByte(write, 1, 0x40|op)), rdmap.ErrOpcode, false})
		}
		for qn := range uint32(4) {
			if op >= 3 && op <= 6 && qn == 0 || op == 1 && qn == 1 || op == 7 && qn == 2 || op == 10 && qn == 1 || op == 11 && qn == 3 {
				continue
			}
			all = append(all, faultCase{fmt.Sprintf("opcode %d, queue %d", op, qn), oneSegment(withWord(withByte(send, 1, 0x40|op), 6, qn)), rdmap.ErrOpcode, false})
		}
	}
	return all
}
