package mpa

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// TestCompleteLinux checks that the captured replies are taken as by the
// captured client.
func TestCompleteLinux(t *testing.T) {
	tests := []struct {
		request, reply string
		local          Local
		params         Params
	}{
		{
			"request-siw.hex", "reply-siw.hex",
			Local{CRC: CRCOff, IRD: 128},
			Params{Rev: 2, IRD: 128},
		},
		{
			"request-siw-crc.hex", "reply-siw-crc.hex",
			Local{CRC: CRCOn, IRD: 128},
			Params{Rev: 2, CRC: true, IRD: 128},
		},
		{
			"request-siw-p2p.hex", "reply-siw-p2p.hex",
			Local{CRC: CRCOff, IRD: 128, ORD: 1, PeerToPeer: true, RTR: RTRWrite | RTRRead},
			Params{Rev: 2, IRD: 128, ORD: 1, PeerToPeer: true, RTR: RTRWrite},
		},
	}
	for _, tt := range tests {
		t.Run(tt.request, func(t *testing.T) {
			req := NewRequest(tt.local)
			req.PrivateData = linuxClient
			assert.Equal(t, wiretest.Hex(t, "testdata/"+tt.request), req.AppendTo(nil))
			reply, err := ParseReply(wiretest.Hex(t, "testdata/"+tt.reply))
			require.NoError(t, err)
			params, err := Complete(req, reply, tt.local)
			require.NoError(t, err)
			assert.Equal(t, tt.params, params)
		})
	}
}

func TestCompleteDepths(t *testing.T) {
	const nn = NotNegotiated
	tests := []struct {
		name       string
		ird, ord   uint16 // in the Reply
		wantIRD    int
		wantORD    int
		wantErr    error
		local      Local
		peerToPeer bool
	}{
		{name: "R6581-9.1-8 ORD at most responder IRD", ird: 3, ord: 16, local: Local{IRD: 16, ORD: 8}, wantIRD: 16, wantORD: 3},
		{name: "responder IRD is more", ird: 100, ord: 2, local: Local{IRD: 16, ORD: 8}, wantIRD: 16, wantORD: 8},
		{name: "R6581-9.1-9 responder ORD is more", ird: 8, ord: 17, local: Local{IRD: 16, ORD: 8}, wantErr: ErrIRD},
		{name: "R6581-9.1-12 responder IRD not negotiated", ird: nn, ord: 1, local: Local{IRD: 16, ORD: 8}, wantIRD: 16, wantORD: 8},
		{name: "R6581-9.1-14 responder ORD not negotiated", ird: 1, ord: nn, local: Local{IRD: 16, ORD: 8}, wantIRD: 16, wantORD: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply := enhancedFrame(Enhanced{IRD: tt.ird, ORD: tt.ord})
			params, err := Complete(NewRequest(tt.local), reply, tt.local)
			assert.ErrorIs(t, err, tt.wantErr)
			assert.Equal(t, tt.wantIRD, params.IRD)
			assert.Equal(t, tt.wantORD, params.ORD)
		})
	}
}

func TestRequestRTR(t *testing.T) {
	req := NewRequest(Local{PeerToPeer: true, RTR: RTRRead})
	assert.Equal(t, Enhanced{PeerToPeer: true, RTR: RTRRead, ORD: 1}, req.Enhanced, "a Read needs a place")
	req = NewRequest(Local{PeerToPeer: true, RTR: RTRWrite})
	assert.Equal(t, Enhanced{PeerToPeer: true, RTR: RTRWrite}, req.Enhanced) // R6581-9.2-1
}

func TestCompleteRTR(t *testing.T) {
	tests := []struct {
		name  string
		reply Enhanced
		local RTR
		want  RTR
		err   error
	}{
		{"R6581-9.2-7 Write first", Enhanced{PeerToPeer: true, RTR: allRTR, IRD: 1}, 0, RTRWrite, nil},
		{"Read before Send", Enhanced{PeerToPeer: true, RTR: RTRRead | RTRSend, IRD: 1}, 0, RTRRead, nil},
		{"Read with no place for it", Enhanced{PeerToPeer: true, RTR: RTRRead | RTRSend}, 0, RTRSend, nil},
		{"Read not negotiated", Enhanced{PeerToPeer: true, RTR: RTRRead, IRD: NotNegotiated}, 0, RTRRead, nil},
		{"Send alone", Enhanced{PeerToPeer: true, RTR: RTRSend}, 0, RTRSend, nil},
		{"R6581-9.2-8 no common kind", Enhanced{PeerToPeer: true, RTR: RTRSend}, RTRWrite, 0, ErrRTR},
		{"R6581-9.2-8 none at all", Enhanced{PeerToPeer: true}, 0, 0, ErrRTR},
		{"R6581-9.2-8 Read alone, no place", Enhanced{PeerToPeer: true, RTR: RTRRead}, 0, 0, ErrRTR},
		{"R6581-9.2-8 A not echoed", Enhanced{RTR: RTRWrite}, 0, 0, ErrRTR},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			local := Local{PeerToPeer: true, RTR: tt.local}
			params, err := Complete(NewRequest(local), enhancedFrame(tt.reply), local)
			assert.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.want, params.RTR)
			assert.Equal(t, tt.err == nil, params.PeerToPeer)
			assert.Equal(t, tt.want == RTRRead, params.ORD == 1)
		})
	}
}

func TestEnhancedMismatch(t *testing.T) {
	// R6581-10-1, R6581-10-6: the caller may try again with Unenhanced.
	_, err := Complete(enhancedFrame(Enhanced{}), Frame{Reply: true, Rev: Rev2}, Local{})
	assert.ErrorIs(t, err, ErrEnhanced)
	reply := enhancedFrame(Enhanced{})
	reply.Reply = true
	_, err = Complete(Frame{Rev: Rev1}, reply, Local{})
	assert.ErrorIs(t, err, ErrEnhanced)
	assert.ErrorIs(t, err, ErrFrame)
}
