package iwarp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// readMessage is a message as received over the wire.
type ddpMessage struct {
	tagged   bool
	rsvdULP  [5]byte // only the first byte, if tagged
	stag     rdma.STag
	to       uint64
	qn, msn  uint32
	payload  []byte
	segments int
}

// readMessage reads the next message's segments, and checks RFC 5041's rules
// for their headers.
func (p *rawPeer) readMessage(mulpdu int) (m ddpMessage) {
	p.t.Helper()
	for {
		segment := p.readSegment()
		assert.LessOrEqual(p.t, len(segment), mulpdu) // R5041-5.2-1
		require.Zero(p.t, segment[0]&0x3c)            // R5041-4.1-8
		require.EqualValues(p.t, 1, segment[0]&0x03)  // R5041-4.1-10, R5041-4.1-11
		last := segment[0]&0x40 != 0
		if segment[0]&0x80 != 0 {
			p.taggedPart(&m, segment)
		} else {
			p.untaggedPart(&m, segment)
		}
		m.segments++
		if last { // R5041-4.1-3, R5041-4.1-5: the message ends with the L bit
			return m
		}
		require.Equal(p.t, mulpdu, len(segment)) // R5041-4.1-4: more follows, and would not have fitted
	}
}

func (p *rawPeer) taggedPart(m *ddpMessage, segment []byte) {
	h, payload, err := ddp.ParseTagged(segment)
	require.NoError(p.t, err)
	if m.segments == 0 {
		*m = ddpMessage{tagged: true, rsvdULP: [5]byte{h.RsvdULP}, stag: h.STag, to: h.TO}
	}
	assert.True(p.t, m.tagged)
	assert.Equal(p.t, m.rsvdULP[0], h.RsvdULP)           // R5041-4.2-4
	assert.Equal(p.t, m.stag, h.STag)                    // R5041-4.2-6
	assert.Equal(p.t, m.to+uint64(len(m.payload)), h.TO) // R5041-5.2-7, R5041-5.3-2
	m.payload = append(m.payload, payload...)            // R5041-5.2-3
}

func (p *rawPeer) untaggedPart(m *ddpMessage, segment []byte) {
	h, payload, err := ddp.ParseUntagged(segment)
	require.NoError(p.t, err)
	if m.segments == 0 {
		assert.Zero(p.t, h.MO) // R5041-4.3-9
		*m = ddpMessage{rsvdULP: [5]byte(segment[1:6]), qn: h.QN, msn: h.MSN}
	}
	assert.False(p.t, m.tagged)
	assert.Equal(p.t, m.rsvdULP, [5]byte(segment[1:6])) // R5041-4.3-2
	assert.Equal(p.t, m.qn, h.QN)                       // R5041-4.3-4
	assert.Equal(p.t, m.msn, h.MSN)                     // R5041-4.3-8
	assert.EqualValues(p.t, len(m.payload), h.MO)       // R5041-5.2-5, with increasing MO: R5041-4.1-6, R5041-5.3-2
	m.payload = append(m.payload, payload...)
}

// TestDDPSource checks the segments that a Data Source sends: all message
// kinds, with lengths that just fill or exceed one, two and many segments (RFC
// 5041, Sections 4 and 5.2).
func TestDDPSource(t *testing.T) {
	const mulpdu = 128
	untagged, tagged := mulpdu-ddp.UntaggedLen, mulpdu-ddp.TaggedLen
	for _, n := range []int{0, 1, untagged - 1, untagged, untagged + 1, tagged, tagged + 1, 2 * untagged, 2*tagged + 1, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) { c.mulpdu = mulpdu }})
			data := patternBytes(n)
			source, err := e.Register(data, rdma.RemoteRead)
			require.NoError(t, err)
			send := rdma.WR{Op: rdma.OpSend, Data: [][]byte{data[:n/2], data[n/2:]}}
			invalidate, solicited := send, send
			invalidate.Invalidate, invalidate.WithInvalidate, solicited.Solicited = 0xa1b2c3d4, true, true
			require.NoError(t, e.Post( // R5041-5.2-6: an odd TO (R5041-4.2-8)
				rdma.WR{Op: rdma.OpWrite, Data: send.Data, Remote: rdma.Remote{STag: 0x12345678, TO: 1<<63 + 3}},
				send, invalidate, solicited,
			))
			p.sendSegments(requestSeg(1, rdmap.ReadRequest{SinkSTag: 7, SinkTO: 9, Size: uint32(n), SourceSTag: source.STag()}))
			segments := func(maxPayload int) int { return max(1, (n+maxPayload-1)/maxPayload) } // R5041-5.2-8, R5041-4.4-1: an empty message has 1
			for _, want := range []ddpMessage{                                                  // R5041-5.3-1: in posting order
				{tagged: true, rsvdULP: [5]byte{0x40}, stag: 0x12345678, to: 1<<63 + 3}, // R5041-4.2-2
				{rsvdULP: [5]byte{0x43}, msn: 1},                                        // R5041-4.3-6
				{rsvdULP: [5]byte{0x44, 0xa1, 0xb2, 0xc3, 0xd4}, msn: 2},                // R5041-4.3-5
				{rsvdULP: [5]byte{0x45}, msn: 3},
				{tagged: true, rsvdULP: [5]byte{0x42}, stag: 7, to: 9},
			} {
				want.payload, want.segments = data, segments(untagged)
				if want.tagged {
					want.segments = segments(tagged)
				}
				got := p.readMessage(mulpdu)
				got.payload = append([]byte{}, got.payload...)
				assert.Equal(t, want, got)
			}
			source.Deregister()
		})
	}
}

// TestDDPLongestMessage checks that Post rejects messages with 2^32 bytes or
// more (R5041-5.2-2).
func TestDDPLongestMessage(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{initiator: true})
	data := make([][]byte, 1<<12)
	for i := range data {
		data[i] = patternSource[:1<<20]
	}
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
		err := e.Post(rdma.WR{Op: op, Data: data})
		assert.EqualError(t, err, fmt.Sprintf("iwarp: %v of 4294967296 bytes: the limit is 4294967295", op))
	}
}
