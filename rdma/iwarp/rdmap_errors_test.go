package iwarp

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// mistakes are the errors in RFC 5040, Figure 9, each with a situation that
// causes it. The last segment in send is the faulty one. control is the
// resulting Terminate's first word: layer and type, code, M D R, reserved.
// words is contained in the error text.
var mistakes = []struct {
	name    string
	send    func(g testRegions) [][]byte
	control string
	words   string
}{
	// For a remote protection error in an RDMA Read Request, the Terminate has
	// all headers.
	{"invalid source STag", func(testRegions) [][]byte { return readSegments(0, 0, 1) }, "01 00 e0 00", "protection error: invalid STag, RDMA Read Request on queue 1"},                               // R5040-7.2-R4a-1, R5040-4.8-8
	{"dead source STag", func(g testRegions) [][]byte { return readSegments(g.deregistered, 0, 1) }, "01 00 e0 00", "invalid STag, RDMA Read Request"},                                                // R5040-3.2-13, R5040-8.1.1-4-1
	{"source of another Stream", func(g testRegions) [][]byte { return readSegments(g.foreign, 0, 1) }, "01 03 e0 00", "STag not associated with RDMAP stream, RDMA Read Request"},                    // R5040-7.2-R4b-1, R5040-8.1.1-2-1
	{"source offset out of range", func(g testRegions) [][]byte { return readSegments(g.ro, 100, 1) }, "01 01 e0 00", "base or bounds violation, RDMA Read Request"},                                  // R5040-7.2-R4c-1
	{"source sum out of range", func(g testRegions) [][]byte { return readSegments(g.ro, 99, 2) }, "01 01 e0 00", "of 2 bytes from STag"},                                                             // R5040-7.2-R4d-1
	{"source offset wraps", func(g testRegions) [][]byte { return readSegments(g.rw, math.MaxUint64, 2) }, "01 04 e0 00", "TO wrap, RDMA Read Request"},                                               // R5040-7.2-R4e-1
	{"source not readable", func(g testRegions) [][]byte { return readSegments(g.wo, 0, 1) }, "01 02 e0 00", "access rights violation, RDMA Read Request"},                                            // R5040-5.2.1-14
	{"Invalidate of no STag", oneSegment(invalidateSeg(1, 0xdeadbeef, nil)), "01 09 c0 00", "STag cannot be invalidated, Send with Invalidate on queue 0, MSN 1, MO 0, invalidating STag 0xdeadbeef"}, // R5040-7.2-4-1
	{"Invalidate of another Stream's", func(g testRegions) [][]byte { return [][]byte{invalidateSeg(1, g.foreign, nil)} }, "01 09 c0 00", "STag cannot be invalidated"},                               // R5040-7.2-5-1, R5040-5.3-13, R5040-5.3-14, R5040-4.8-20
	{"Invalidate with SE", func(g testRegions) [][]byte {
		return [][]byte{withByte(invalidateSeg(1, g.deregistered, nil), 1, 0x46)}
	}, "01 09 c0 00", "Send with SE and Invalidate on queue 0"}, // R5040-7.2-4-1

	// For a remote operation error, the Terminate has only the DDP header.
	{"version 0, Send", oneSegment(withByte(sendSeg(true, 1, 0, nil), 1, 0x03)), "02 05 c0 00", "invalid RDMAP version, Send on queue 0"}, // R5040-7.2-3-1, R5040-4.1-8, R5040-5.3-7
	{"version 2, Write", func(g testRegions) [][]byte { return [][]byte{withByte(writeSegments(g.rw, 0, 1)[0], 1, 0x80)} }, "02 05 c0 00", "invalid RDMAP version, RDMA Write to STag"},
	{"version 3, Read Request", func(g testRegions) [][]byte { return [][]byte{withByte(readSegments(g.rw, 0, 1)[0], 1, 0xc1)} }, "02 05 c0 00", "invalid RDMAP version, RDMA Read Request"}, // R5040-7.2-R3-1
	{"version 0, Terminate", oneSegment(rdmapVersion0Terminate), "02 05 c0 00", "invalid RDMAP version, Terminate on queue 2"},
	{"opcode 12", oneSegment(withByte(sendSeg(true, 1, 0, nil), 1, 0x4c)), "02 06 c0 00", "unexpected opcode, opcode 12 on queue 0"},                                                  // R5040-7.2-2-1, R5040-4.1-13, R5040-4.8-9
	{"opcode 15, tagged", func(g testRegions) [][]byte { return [][]byte{withByte(writeSegments(g.rw, 0, 1)[0], 1, 0x4f)} }, "02 06 c0 00", "unexpected opcode, opcode 15 to STag"},   // R5040-4.1-13
	{"Send as a tagged message", func(g testRegions) [][]byte { return [][]byte{withByte(writeSegments(g.rw, 0, 1)[0], 1, 0x43)} }, "02 06 c0 00", "unexpected opcode, Send to STag"}, // R5040-4.1-5
	{"Write as an untagged message", oneSegment(withByte(sendSeg(true, 1, 0, nil), 1, 0x40)), "02 06 c0 00", "unexpected opcode, RDMA Write on queue 0"},                              // R5040-4.1-5
	{"Send on the queue of Read Requests", oneSegment(withWord(sendSeg(true, 1, 0, nil), 6, 1)), "02 06 c0 00", "unexpected opcode, Send on queue 1"},                                 // R5040-7.2-R2-1
	{"Read Request on the queue of Sends", oneSegment(withWord(requestSeg(1, rdmap.ReadRequest{}), 6, 0)), "02 06 c0 00", "unexpected opcode, RDMA Read Request on queue 0"},
	{"Read Request cut short", oneSegment(requestSeg(1, rdmap.ReadRequest{})[:45]), "02 ff c0 00", "unspecified, RDMA Read Request"},

	// For an error that DDP finds, the Terminate has only the DDP header, even
	// for a Read Request.
	{"sink STag invalid", oneSegment(writeSeg(true, 0, 0, []byte{0xee})), "11 00 c0 00", "invalid STag, RDMA Write to STag 0x00000000, TO 0x0"}, // R5040-3.2-8, R5040-5.1-3
	{"sink not writable", func(g testRegions) [][]byte { return writeSegments(g.ro, 0, 1) }, "11 00 c0 00", "invalid STag, RDMA Write"},
	{"sink out of bounds", func(g testRegions) [][]byte { return writeSegments(g.rw, 99, 2) }, "11 01 c0 00", "base or bounds violation, RDMA Write"},
	{"sink of another Stream", func(g testRegions) [][]byte { return writeSegments(g.foreign, 0, 1) }, "11 02 c0 00", "STag not associated with DDP stream, RDMA Write"}, // R5040-8.1.1-2-1
	{"sink offset wraps", func(g testRegions) [][]byte { return writeSegments(g.rw, math.MaxUint64, 2) }, "11 03 c0 00", "TO wrap, RDMA Write"},
	{"DDP version 0, tagged", func(g testRegions) [][]byte { return [][]byte{withByte(writeSegments(g.rw, 0, 1)[0], 0, 0xc0)} }, "11 04 c0 00", "invalid DDP version, RDMA Write"},
	{"Read Response unasked", oneSegment(responseSeg(true, 5, 0, []byte{0xee})), "11 00 c0 00", "invalid STag, RDMA Read Response to STag 0x00000005"}, // R5040-5.2.2-5
	{"queue 4", oneSegment(withWord(sendSeg(true, 1, 0, nil), 6, 4)), "12 01 c0 00", "invalid QN, Send on queue 4"},                                    // R5040-7.2-1-1
	{"no receive posted", func(testRegions) [][]byte {
		return [][]byte{sendSeg(true, 1, 0, nil), sendSeg(true, 2, 0, nil), sendSeg(true, 3, 0, nil)}
	}, "12 02 c0 00", "no buffer available, Send on queue 0, MSN 3"}, // R5040-5.3-2, R5040-5.3-11
	{"MSN out of range", oneSegment(sendSeg(true, 2, 0, nil)), "12 03 c0 00", "out of range, Send on queue 0, MSN 2"},
	{"Read Request, MSN out of range", oneSegment(withWord(requestSeg(1, rdmap.ReadRequest{}), 10, 2)), "12 03 c0 00", "out of range, RDMA Read Request on queue 1, MSN 2"}, // R5040-7.2-R1-1
	{"MO", oneSegment(sendSeg(true, 1, 7, nil)), "12 04 c0 00", "invalid MO, Send on queue 0, MSN 1, MO 7"},
	{"Send too long", oneSegment(sendSeg(true, 1, 0, make([]byte, 65))), "12 05 c0 00", "message too long for available buffer, Send"}, // R5040-5.3-4
	{"DDP version 3, untagged", oneSegment(withByte(sendSeg(true, 1, 0, nil), 0, 0x43)), "12 06 c0 00", "invalid DDP version, Send"},
	{"Terminate too long", oneSegment(append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0), make([]byte, 53)...)), "12 05 c0 00", "too long for available buffer, Terminate"}, // R5040-5.4-7

	// A Terminate for a ULPDU that is no segment has no header.
	{"no header", oneSegment([]byte{0x41}), "02 ff 00 00", "remote operation error: unspecified"},
}

var rdmapVersion0Terminate = withByte(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0), 1, 0x07)

// terminateBytes returns the expected Terminate for the segment bad, assembled
// by hand.
func terminateBytes(t testing.TB, control string, bad []byte) []byte {
	// R5040-4.1-9, R5040-4.1-11, R5040-4.8-2, R5040-5.4-1, R5040-5.4-2, R5040-5.4-3
	want := append(wiretest.Bytes(t, "41 47 00000000 00000002 00000001 00000000"), wiretest.Bytes(t, control)...)
	flags := want[20]
	if flags&0xc0 != 0 { // R5040-4.8-15, R5040-4.8-16, R5040-4.8-17
		want = binary.BigEndian.AppendUint16(want, uint16(len(bad)))
		want = append(want, bad[:ddp.HeaderLen(bad[0])]...)
	}
	if flags&0x20 != 0 { // R5040-4.8-19, R5040-4.8-21
		want = append(want, bad[18:46]...)
	}
	return want
}

// TestRDMAPErrors checks that each error causes exactly one Terminate and no
// other message, with the layer, type, code and headers in RFC 5040, Figures 9
// and 10. The TCP stream then ends gracefully, and this end's upper layer
// learns the same error (R5040-3.1-11, R5040-3.2-5, R5040-4.8-1, R5040-4.8-3,
// R5040-4.8-4, R5040-4.8-5, R5040-4.8-10, R5040-4.8-11, R5040-4.8-12,
// R5040-4.8-13, R5040-4.8-23, R5040-5.4-9, R5040-6.2.1-1, R5040-7-1,
// R5040-7.1-2-1, R5040-7.1-3-1).
func TestRDMAPErrors(t *testing.T) {
	for _, tt := range mistakes {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			other, _ := connectRaw(t, rawOptions{})
			e, p := connectRaw(t, rawOptions{initiator: true, recvs: 2, recvSize: 64})
			g, mem := registerRegions(t, e, other)
			segments := tt.send(g)
			bad := segments[len(segments)-1]
			p.sendSegments(append(segments, sendSeg(true, 99, 0, nil))...) // R5040-7.1-4-1: a second error has no effect

			want := terminateBytes(t, tt.control, bad)
			assert.Equal(t, want, p.readSegment()) // R5040-7.1-2-2: at once
			p.expectEOF()                          // R5040-6.2.1-4, R5040-7-4
			err := e.inbox.closeError(t)           // R5040-7.1-1
			var f *Fault
			require.ErrorAs(t, err, &f) // R5040-3.2-14
			assert.False(t, f.Remote)
			assert.Equal(t, want[18:], f.Terminate.AppendTo(nil))
			assert.Contains(t, err.Error(), tt.words)
			assert.NotContains(t, string(mem), "\xee")
		})
	}
}

// TestRDMAPErrorOfMPA checks that the lower layer's errors keep their numbers,
// and that a Terminate for an MPA error has no header (R5040-4.8-6,
// R5040-4.8-23).
func TestRDMAPErrorOfMPA(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true, crc: true})
	broken := p.frameFPDU(sendSeg(true, 1, 0, nil))
	broken[7]++
	p.writeBytes(broken)
	assert.Equal(t, terminateBytes(t, "20 02 00 00", nil), p.readSegment())
	p.expectEOF()
	err := e.inbox.closeError(t)
	require.ErrorIs(t, err, mpa.ErrCRC)
	assert.Contains(t, err.Error(), "MPA error: CRC mismatch")
}

// TestRDMAPReadsBeyondIRD checks that exceeding IRD is an error regardless of
// the Read Request's content, and that other Streams' Reads are unaffected
// (R5040-6.1-7, R5040-8.1.2-7-1, R5040-8.1.1-11-1).
func TestRDMAPReadsBeyondIRD(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true, ird: 1})
	_, q := connectRaw(t, rawOptions{ird: 1})
	mem := make([]byte, 4<<20)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	bad := requestSeg(2, rdmap.ReadRequest{})
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()}), bad)
	segment := p.readSegment()
	for ; segment[0]&0x80 != 0; segment = p.readSegment() {
	}
	assert.Equal(t, terminateBytes(t, "12 02 c0 00", bad), segment)
	p.expectEOF()
	require.ErrorIs(t, e.inbox.closeError(t), ddp.ErrNoBuffer)
	q.sendSegments(requestSeg(1, rdmap.ReadRequest{}))
	q.readResponse()
}
