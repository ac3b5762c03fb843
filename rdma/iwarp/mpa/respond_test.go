package mpa

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// TestAcceptLinux checks that the Linux client gets the answer that the
// captures' server gave, except for private data.
func TestAcceptLinux(t *testing.T) {
	tests := []struct {
		request, reply string
		local          Local
		params         Params
	}{
		{
			"request-siw.hex", "reply-siw.hex",
			Local{CRC: CRCAuto, IRD: 128, ORD: 128},
			Params{Rev: 2, ORD: 128},
		},
		{
			"request-siw-crc.hex", "reply-siw-crc.hex",
			Local{CRC: CRCAuto, IRD: 128, ORD: 128},
			Params{Rev: 2, CRC: true, ORD: 128},
		},
		{
			"request-siw-p2p.hex", "reply-siw-p2p.hex",
			Local{CRC: CRCOff, IRD: 128, ORD: 128, RTR: RTRWrite},
			Params{Rev: 2, IRD: 1, ORD: 128, PeerToPeer: true, RTR: RTRWrite},
		},
	}
	for _, tt := range tests {
		t.Run(tt.request, func(t *testing.T) {
			req, err := ParseRequest(wiretest.Hex(t, "testdata/"+tt.request))
			require.NoError(t, err)
			reply, params, err := Accept(req, tt.local)
			require.NoError(t, err)
			assert.Equal(t, tt.params, params)
			reply.PrivateData = linuxServer
			assert.Equal(t, wiretest.Hex(t, "testdata/"+tt.reply), reply.AppendTo(nil))
		})
	}
}

func TestAcceptDepths(t *testing.T) {
	const nn = NotNegotiated
	tests := []struct {
		name             string
		reqIRD, reqORD   uint16
		ird, ord         uint16 // the responder's
		wantIRD, wantORD uint16 // in its Reply
		params           Params
	}{
		{"R6581-9.1-3 ORD at most initiator IRD", 5, 0, 16, 64, 0, 5, Params{IRD: 0, ORD: 5}},
		{"own ORD is less", 128, 0, 16, 64, 0, 64, Params{IRD: 0, ORD: 64}},
		{"IRD as asked", 8, 4, 16, 16, 4, 8, Params{IRD: 4, ORD: 8}},
		{"IRD less than asked", 8, 200, 16, 16, 16, 8, Params{IRD: 16, ORD: 8}},
		{"R6581-9.1-11 initiator ORD not negotiated", 8, nn, 16, 16, nn, 8, Params{IRD: 16, ORD: 8}},
		{"R6581-9.1-13 initiator IRD not negotiated", nn, 4, 16, 32, 4, nn, Params{IRD: 4, ORD: 32}},
		{"neither", nn, nn, 16, 32, nn, nn, Params{IRD: 16, ORD: 32}},
		{"own limits are clipped", MaxDepth, MaxDepth, 0xffff, 0xffff, MaxDepth, MaxDepth, Params{IRD: MaxDepth, ORD: MaxDepth}},
		{"nothing at all", 0, 0, 0, 0, 0, 0, Params{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := enhancedFrame(Enhanced{IRD: tt.reqIRD, ORD: tt.reqORD})
			reply, params, err := Accept(req, Local{CRC: CRCAuto, IRD: tt.ird, ORD: tt.ord})
			require.NoError(t, err)
			assert.Equal(t, Enhanced{IRD: tt.wantIRD, ORD: tt.wantORD}, reply.Enhanced)
			tt.params.Rev = Rev2
			assert.Equal(t, tt.params, params)
		})
	}
}

func TestAcceptMinORD(t *testing.T) {
	for _, ird := range []uint16{0, 3, 4, NotNegotiated} {
		reply, params, err := Accept(enhancedFrame(Enhanced{IRD: ird}), Local{ORD: 16, MinORD: 4})
		if ird >= 4 {
			require.NoError(t, err)
			assert.GreaterOrEqual(t, params.ORD, 4)
			continue
		}
		assert.ErrorIs(t, err, ErrIRD) // R6581-9.1-7
		assert.Zero(t, params)
		assert.True(t, reply.Reject)
		assert.EqualValues(t, 4, reply.Enhanced.ORD) // R6581-9.1-6
	}
}

func TestAcceptRTR(t *testing.T) {
	for offered := range allRTR + 1 {
		for known := range allRTR + 1 {
			req := enhancedFrame(Enhanced{PeerToPeer: true, RTR: offered, IRD: 1})
			reply, params, err := Accept(req, Local{ORD: 1, RTR: known})
			require.NoError(t, err)
			own := known
			if own == 0 {
				own = allRTR // R6581-9.2-2
			}
			assert.True(t, reply.Enhanced.PeerToPeer) // R6581-9.2-3
			assert.True(t, params.PeerToPeer)
			assert.Equal(t, reply.Enhanced.RTR, params.RTR)
			assert.NotZero(t, params.RTR) // R6581-9.2-5
			assert.Zero(t, params.RTR&^own)
			if offered&own != 0 {
				assert.Equal(t, offered&own, params.RTR) // R6581-9.2-4
			}
			// R6581-9.1-4: a Read needs a place, even if the Request asks for
			// none.
			assert.Equal(t, params.RTR&RTRRead != 0, params.IRD == 1)
			assert.EqualValues(t, params.IRD, reply.Enhanced.IRD)
		}
	}
	_, params, err := Accept(enhancedFrame(Enhanced{PeerToPeer: true, RTR: RTRRead, ORD: NotNegotiated}), Local{})
	require.NoError(t, err)
	assert.Equal(t, 1, params.IRD)
}

func TestReject(t *testing.T) {
	for _, req := range []Frame{
		{Rev: Rev1},
		{Rev: Rev2, CRC: true},
		enhancedFrame(Enhanced{PeerToPeer: true, RTR: RTRWrite, IRD: 8, ORD: 2}),
	} {
		reply := Reject(req, Local{CRC: CRCAuto, IRD: 4, ORD: 4})
		reply.PrivateData = []byte("no") // R5044-7.1.2-2-4
		assert.Equal(t, Frame{
			Reply: true, CRC: req.CRC, Reject: true, Rev: req.Rev, // R5044-7.1.2-2-3
			HasEnhanced: req.HasEnhanced, // R6581-10-1
			Enhanced:    reply.Enhanced, PrivateData: []byte("no"),
		}, reply)
		if req.HasEnhanced { // R6581-9.1-10: a reject also contains the numbers
			assert.Equal(t, Enhanced{PeerToPeer: true, RTR: RTRWrite, IRD: 2, ORD: 4}, reply.Enhanced)
		}
		got, err := ParseReply(reply.AppendTo(nil))
		require.NoError(t, err)
		_, err = Complete(req, got, Local{})
		assert.ErrorIs(t, err, ErrRejected) // R5044-7.1.1-12
		assert.NotErrorIs(t, err, ErrFrame, "R5044-7.1.2-3-3: TCP may stay open")
	}
	// A rejection is valid even if other fields are wrong.
	_, err := Complete(enhancedFrame(Enhanced{}), Frame{Reply: true, Rev: Rev1, Reject: true, Markers: true}, Local{})
	assert.ErrorIs(t, err, ErrRejected)
}
