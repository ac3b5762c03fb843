package mpa

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

const allRTR = RTRSend | RTRWrite | RTRRead

func enhancedFrame(e Enhanced) Frame { return Frame{Rev: Rev2, HasEnhanced: true, Enhanced: e} }

func TestCRCMatrix(t *testing.T) {
	tests := []struct {
		initiator, responder CRC
		request, reply       bool // bit C
	}{
		{CRCOn, CRCOn, true, true},
		{CRCOn, CRCAuto, true, true},
		{CRCOn, CRCOff, true, true}, // R5044-4.4-6
		{CRCAuto, CRCOn, true, true},
		{CRCAuto, CRCAuto, true, true}, // R5044-4.4-2
		{CRCAuto, CRCOff, true, true},
		{CRCOff, CRCOn, false, true}, // R5044-7.1.1-8
		{CRCOff, CRCAuto, false, false},
		{CRCOff, CRCOff, false, false}, // R5044-4.4-3, R5044-7.1.1-9
	}
	for _, tt := range tests {
		for _, unenhanced := range []bool{false, true} {
			initiator := Local{CRC: tt.initiator, Unenhanced: unenhanced}
			req := NewRequest(initiator)
			assert.Equal(t, tt.request, req.CRC, "%+v", tt)
			reply, at, err := Accept(req, Local{CRC: tt.responder})
			require.NoError(t, err)
			assert.Equal(t, tt.reply, reply.CRC, "%+v", tt)
			params, err := Complete(req, reply, initiator)
			require.NoError(t, err)
			assert.Equal(t, tt.reply, at.CRC)
			assert.Equal(t, tt.reply, params.CRC)
		}
	}
	// CRCs are on even if a responder does not echo C: R5044-7.1.1-8.
	params, err := Complete(Frame{Rev: 1, CRC: true}, Frame{Reply: true, Rev: 1}, Local{})
	require.NoError(t, err)
	assert.True(t, params.CRC)
	assert.True(t, NewRequest(Local{}).CRC, "R5044-4.4-2, R5044-4.4-4: the default")
}

func TestUnenhanced(t *testing.T) {
	local := Local{IRD: 7, ORD: 9, PeerToPeer: true, Unenhanced: true}
	assert.Equal(t, Frame{Rev: Rev1, CRC: true}, NewRequest(local)) // R6581-6-3
	for _, rev := range []uint8{Rev1, Rev2} {
		// R6581-6-4, R6581-10-2, R6581-10-4
		reply, params, err := Accept(Frame{Rev: rev}, Local{CRC: CRCAuto, IRD: 7, ORD: 9, MinORD: 1})
		require.NoError(t, err)
		assert.Equal(t, Frame{Reply: true, Rev: rev}, reply)
		want := Params{Rev: rev, IRD: 7, ORD: 9} // R5044-7.1.1-17
		assert.Equal(t, want, params)
		params, err = Complete(Frame{Rev: rev}, reply, local)
		require.NoError(t, err)
		assert.Equal(t, want, params)
	}
}

// TestMarkersMatrix checks that each end decides on the Markers in its
// receiving direction.
func TestMarkersMatrix(t *testing.T) {
	for bits := range 8 {
		initiator := Local{Markers: bits&1 != 0, Unenhanced: bits&4 != 0}
		responder := Local{Markers: bits&2 != 0}
		req, err := ParseRequest(NewRequest(initiator).AppendTo(nil))
		require.NoError(t, err)
		assert.Equal(t, initiator.Markers, req.Markers) // R5044-7.1.1-5
		reply, r, err := Accept(req, responder)
		require.NoError(t, err)
		reply, err = ParseReply(reply.AppendTo(nil))
		require.NoError(t, err)
		assert.Equal(t, responder.Markers, reply.Markers) // R5044-7.1.1-5
		i, err := Complete(req, reply, initiator)
		require.NoError(t, err)
		// R5044-7.1.1-6, R5044-7.1.1-7
		assert.Equal(t, [2]bool{initiator.Markers, responder.Markers}, [2]bool{r.SendMarkers, r.RecvMarkers})
		assert.Equal(t, [2]bool{responder.Markers, initiator.Markers}, [2]bool{i.SendMarkers, i.RecvMarkers})
	}
}

func TestClientServerIgnoresFlags(t *testing.T) {
	// R6581-9.2-10, R6581-9.2-9: A is clear in the Request, but not B, C, D.
	reply, params, err := Accept(enhancedFrame(Enhanced{RTR: allRTR, IRD: 1, ORD: 0}), Local{IRD: 1, ORD: 1})
	require.NoError(t, err)
	assert.Equal(t, Enhanced{ORD: 1}, reply.Enhanced)
	assert.False(t, params.PeerToPeer)
	assert.Zero(t, params.RTR)

	// A is set in the Reply to a Request without A.
	local := Local{IRD: 1, ORD: 1}
	params, err = Complete(NewRequest(local), enhancedFrame(Enhanced{PeerToPeer: true, RTR: RTRSend, IRD: 1, ORD: 1}), local)
	require.NoError(t, err)
	assert.False(t, params.PeerToPeer)
}

// TestBothEnds checks all combinations of settings between two ends that this
// implementation provides: R6581-9.1-2, R6581-9.1-5.
func TestBothEnds(t *testing.T) {
	depths := []uint16{0, 1, 5, 128, MaxDepth, 0xffff}
	for _, p2p := range []bool{false, true} {
		for i := range len(depths) * len(depths) * len(depths) * len(depths) {
			at := func(n int) uint16 { return depths[i/power(len(depths), n)%len(depths)] }
			initiator := Local{IRD: at(0), ORD: at(1), PeerToPeer: p2p, RTR: RTRRead}
			responder := Local{IRD: at(2), ORD: at(3)}
			name := fmt.Sprintf("%+v %+v", initiator, responder)

			req, err := ParseRequest(NewRequest(initiator).AppendTo(nil))
			require.NoError(t, err, name)
			reply, r, err := Accept(req, responder)
			require.NoError(t, err, name)
			reply, err = ParseReply(reply.AppendTo(nil))
			require.NoError(t, err, name)
			p, err := Complete(req, reply, initiator)
			require.NoError(t, err, name)

			require.LessOrEqual(t, p.ORD, r.IRD, name)
			require.LessOrEqual(t, r.ORD, p.IRD, name)
			require.Equal(t, p2p, r.PeerToPeer, name)
			require.Equal(t, p2p, p.PeerToPeer, name)
			require.Equal(t, r.CRC, p.CRC, name)
			require.Equal(t, r.RTR, p.RTR, name)
		}
	}
}

func power(x, n int) int {
	r := 1
	for range n {
		r *= x
	}
	return r
}

// FuzzNegotiate answers any Request and takes any Reply: R6581-12-1.
func FuzzNegotiate(f *testing.F) {
	for _, tt := range frames {
		f.Add(wiretest.Hex(f, "testdata/"+tt.file), uint16(16), uint16(16), uint16(0), uint8(0))
	}
	f.Fuzz(func(t *testing.T, wire []byte, ird, ord, minORD uint16, rtr uint8) {
		local := Local{IRD: ird, ORD: ord, MinORD: minORD, RTR: RTR(rtr) & allRTR}
		if req, err := ParseRequest(wire); err == nil {
			reply, params, err := Accept(req, local)
			again, perr := ParseReply(reply.AppendTo(nil))
			require.NoError(t, perr)
			assertFrame(t, reply, again)
			assert.Equal(t, err != nil, reply.Reject)
			assert.Equal(t, req.Rev, reply.Rev)
			assert.Equal(t, req.HasEnhanced, reply.HasEnhanced)
			assert.Equal(t, local.Markers, reply.Markers)
			if req.HasEnhanced && err == nil && req.Enhanced.IRD != NotNegotiated {
				assert.LessOrEqual(t, params.ORD, int(req.Enhanced.IRD))
			}
		}
		if reply, err := ParseReply(wire); err == nil {
			params, err := Complete(NewRequest(local), reply, local)
			assert.LessOrEqual(t, params.IRD, int(ird))
			if err == nil && reply.Enhanced.ORD != NotNegotiated {
				assert.GreaterOrEqual(t, params.IRD, int(reply.Enhanced.ORD))
			}
		}
	})
}
