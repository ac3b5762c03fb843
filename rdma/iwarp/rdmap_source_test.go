package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// TestRDMAPSource checks that each operation is one DDP message with the fields
// in RFC 5040, Figures 4 and 5, in posting order, and that the stream contains
// nothing else (R5040-3.1-1, R5040-5.1-6, R5040-5.2.1-7, R5040-5.3-9,
// R5040-5.5-13-1, R5040-6.1-1).
func TestRDMAPSource(t *testing.T) {
	const mulpdu = 128
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) {
		c.mulpdu, c.tx.sinkSTag = mulpdu, 0x53494e4b
	}})
	data := patternBytes(300)
	source, err := e.Register(data, rdma.RemoteRead)
	require.NoError(t, err)
	send := func(invalidate, solicited bool) rdma.WR { // R5040-3.2-2
		return rdma.WR{Op: rdma.OpSend, Data: [][]byte{data[:200], data[200:]}, Invalidate: 0xa1a2a3a4, WithInvalidate: invalidate, Solicited: solicited}
	}
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{data}, Remote: rdma.Remote{STag: 0x12345678, TO: 77}}, // R5040-3.2-6, R5040-5.1-8: one STag
		send(false, false), send(true, false), send(false, true), send(true, true),
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 500)}, Remote: rdma.Remote{STag: 0x22222222, TO: 0x3001}}, // R5040-3.2-9, R5040-5.2.1-9, R5040-4.4-6
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Remote: rdma.Remote{STag: 0x33333333, TO: 5}},                    // R5040-5.2.1-13
		rdma.WR{Op: rdma.OpSend},                                                // R5040-5.3-10
		rdma.WR{Op: rdma.OpSend, WithInvalidate: true},                          // R5040-3.2-2: STag 0 is valid too
		rdma.WR{Op: rdma.OpWrite, Remote: rdma.Remote{STag: 0x12345678, TO: 1}}, // R5040-5.1-9
	))
	first := wiretest.Bytes(t, "53494e4b 0000000100000000 000001f4 22222222 0000000000003001")
	second := wiretest.Bytes(t, "53494e4b 0000000200000000 00000000 33333333 0000000000000005")
	require.Len(t, first, 28)
	for _, want := range []ddpMessage{ // segments with the L bit: one each, R5040-3.1-5
		// R5040-3.1-6, R5040-4.1-5, R5040-4.1-7, R5040-5.1-1: tagged, with STag and TO;
		// R5040-4.3-1, R5040-4.2-2: data alone
		{tagged: true, rsvdULP: [5]byte{0x40}, stag: 0x12345678, to: 77, payload: data},
		// R5040-3.1-2, R5040-5.3-1, R5040-5.3-8: untagged, queue 0; R5040-4.6-1; R5040-4.1-11: no
		// STag
		{rsvdULP: [5]byte{0x43}, qn: 0, msn: 1, payload: data},
		{rsvdULP: [5]byte{0x44, 0xa1, 0xa2, 0xa3, 0xa4}, qn: 0, msn: 2, payload: data}, // R5040-4.1-3, R5040-4.7-1, R5040-5.3-12
		{rsvdULP: [5]byte{0x45}, qn: 0, msn: 3, payload: data},
		{rsvdULP: [5]byte{0x46, 0xa1, 0xa2, 0xa3, 0xa4}, qn: 0, msn: 4, payload: data},
		// R5040-3.1-3, R5040-5.2.1-1, R5040-5.2.1-6: untagged, queue 1; R5040-4-2, R5040-4-3,
		// R5040-4.2-1, R5040-4.4-1, R5040-4.4-2: a header and no more; R5040-5.2.1-2: the MSN goes
		// up by one; R5040-5.2.1-10: one source
		{rsvdULP: [5]byte{0x41}, qn: 1, msn: 1, payload: first},
		{rsvdULP: [5]byte{0x41}, qn: 1, msn: 2, payload: second},
		{rsvdULP: [5]byte{0x43}, qn: 0, msn: 5},
		{rsvdULP: [5]byte{0x44}, qn: 0, msn: 6},
		{tagged: true, rsvdULP: [5]byte{0x40}, stag: 0x12345678, to: 1},
	} {
		p.expectMessage(t, mulpdu, want)
	}

	asked := wiretest.Bytes(t, "41 41 00000000 00000001 00000001 00000000 0000ffff fffffffffffffff0 00000064")
	asked = append(asked, byte(source.STag()>>24), byte(source.STag()>>16), byte(source.STag()>>8), byte(source.STag()), 0, 0, 0, 0, 0, 0, 0, 7)
	p.sendSegments(asked)
	// R5040-4.5-1, R5040-5.2.2-1, R5040-5.2.2-2, R5040-5.2.2-9: tagged, to the
	// named sink (R5040-4.4-3, R5040-4.4-4, R5040-4.4-5, R5040-5.2.2-6)
	p.expectMessage(t, mulpdu, ddpMessage{tagged: true, rsvdULP: [5]byte{0x42}, stag: 0xffff, to: 0xfffffffffffffff0, payload: data[7:107]})
	// R5040-3.1-4, R5040-5.4-1, R5040-5.4-2
	bad := withWord(sendSeg(true, 1, 0, nil), 6, 4)
	p.sendSegments(bad)
	p.expectMessage(t, mulpdu, ddpMessage{rsvdULP: [5]byte{0x47}, qn: 2, msn: 1, payload: terminateBytes(t, "12 01 c0 00", bad)[18:]})
	p.expectEOF()
	e.inbox.closeError(t)
}

// expectMessage reads the next message and compares it with want. The
// comparison includes the RsvdULP bytes that RDMAP supplied: one or five, in 14
// and 18 byte headers (R5040-3.1-8, R5040-3.1-10, R5040-4-1, R5040-4.1-1,
// R5040-4.1-2, R5040-4.1-4, R5040-4.1-6, R5040-4.1-8, R5040-4.1-9).
func (p *rawPeer) expectMessage(t testing.TB, mulpdu int, want ddpMessage) {
	t.Helper()
	maxPayload := mulpdu - ddp.UntaggedLen
	if want.tagged {
		maxPayload = mulpdu - ddp.TaggedLen
	}
	want.segments = max(1, (len(want.payload)+maxPayload-1)/maxPayload)
	got := p.readMessage(mulpdu)
	if len(got.payload) == 0 {
		got.payload = nil
	}
	assert.Equal(t, want, got)
}
