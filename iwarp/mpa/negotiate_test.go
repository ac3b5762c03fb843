package mpa

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

const allRTR = RTRSend | RTRWrite | RTRRead

func enhanced(e Enhanced) Frame { return Frame{Rev: Rev2, HasEnhanced: true, Enhanced: e} }

// TestAcceptLinux answers the Linux client as the captures' server did, in all
// but private data.
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

// TestCompleteLinux takes the captured replies as the captured client did.
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
	// A responder that does not echo C has CRCs on all the same: R5044-7.1.1-8.
	params, err := Complete(Frame{Rev: 1, CRC: true}, Frame{Reply: true, Rev: 1}, Local{})
	require.NoError(t, err)
	assert.True(t, params.CRC)
	assert.True(t, NewRequest(Local{}).CRC, "R5044-4.4-2: the default")
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

func TestEnhancedMismatch(t *testing.T) {
	// R6581-10-1, R6581-10-6: the caller may try again with Unenhanced.
	_, err := Complete(enhanced(Enhanced{}), Frame{Reply: true, Rev: Rev2}, Local{})
	assert.ErrorIs(t, err, ErrEnhanced)
	reply := enhanced(Enhanced{})
	reply.Reply = true
	_, err = Complete(Frame{Rev: Rev1}, reply, Local{})
	assert.ErrorIs(t, err, ErrEnhanced)
	assert.ErrorIs(t, err, ErrFrame)
}

func TestMarkers(t *testing.T) {
	for _, req := range []Frame{{Rev: Rev1}, enhanced(Enhanced{IRD: 16})} {
		req.Markers = true
		reply, params, err := Accept(req, Local{IRD: 1, ORD: 1})
		assert.ErrorIs(t, err, ErrMarkers)
		assert.NotErrorIs(t, err, ErrFrame, "it is answered, not closed at once")
		assert.Zero(t, params)
		assert.True(t, reply.Reject)
		assert.False(t, reply.Markers) // R5044-7.1.1-5: never asked for
		assert.Equal(t, req.Rev, reply.Rev)
		assert.Equal(t, req.HasEnhanced, reply.HasEnhanced)

		_, err = Complete(req, Frame{Reply: true, Rev: req.Rev, Markers: true}, Local{})
		assert.ErrorIs(t, err, ErrMarkers)
	}
}

func TestReject(t *testing.T) {
	for _, req := range []Frame{
		{Rev: Rev1},
		{Rev: Rev2, CRC: true},
		enhanced(Enhanced{PeerToPeer: true, RTR: RTRWrite, IRD: 8, ORD: 2}),
	} {
		reply := Reject(req, Local{CRC: CRCAuto, IRD: 4, ORD: 4})
		reply.PrivateData = []byte("no") // R5044-7.1.2-2-4
		assert.Equal(t, Frame{
			Reply: true, CRC: req.CRC, Reject: true, Rev: req.Rev, // R5044-7.1.2-2-3
			HasEnhanced: req.HasEnhanced, // R6581-10-1
			Enhanced:    reply.Enhanced, PrivateData: []byte("no"),
		}, reply)
		if req.HasEnhanced { // R6581-9.1-10: the numbers are there on a reject too
			assert.Equal(t, Enhanced{PeerToPeer: true, RTR: RTRWrite, IRD: 2, ORD: 4}, reply.Enhanced)
		}
		got, err := ParseReply(reply.AppendTo(nil))
		require.NoError(t, err)
		_, err = Complete(req, got, Local{})
		assert.ErrorIs(t, err, ErrRejected) // R5044-7.1.1-12
		assert.NotErrorIs(t, err, ErrFrame, "R5044-7.1.2-3-3: TCP may stay open")
	}
	// A rejection counts whatever else is odd about it.
	_, err := Complete(enhanced(Enhanced{}), Frame{Reply: true, Rev: Rev1, Reject: true, Markers: true}, Local{})
	assert.ErrorIs(t, err, ErrRejected)
}

func TestAcceptDepths(t *testing.T) {
	const nn = NotNegotiated
	tests := []struct {
		name             string
		reqIRD, reqORD   uint16
		ird, ord         uint16 // of the responder
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
			req := enhanced(Enhanced{IRD: tt.reqIRD, ORD: tt.reqORD})
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
		reply, params, err := Accept(enhanced(Enhanced{IRD: ird}), Local{ORD: 16, MinORD: 4})
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

func TestCompleteDepths(t *testing.T) {
	const nn = NotNegotiated
	tests := []struct {
		name       string
		ird, ord   uint16 // of the Reply
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
			reply := enhanced(Enhanced{IRD: tt.ird, ORD: tt.ord})
			params, err := Complete(NewRequest(tt.local), reply, tt.local)
			assert.ErrorIs(t, err, tt.wantErr)
			assert.Equal(t, tt.wantIRD, params.IRD)
			assert.Equal(t, tt.wantORD, params.ORD)
		})
	}
}

func TestClientServerIgnoresFlags(t *testing.T) {
	// R6581-9.2-10, R6581-9.2-9: A clear in the Request, B, C, D not.
	reply, params, err := Accept(enhanced(Enhanced{RTR: allRTR, IRD: 1, ORD: 0}), Local{IRD: 1, ORD: 1})
	require.NoError(t, err)
	assert.Equal(t, Enhanced{ORD: 1}, reply.Enhanced)
	assert.False(t, params.PeerToPeer)
	assert.Zero(t, params.RTR)

	// A in the Reply to a Request without.
	local := Local{IRD: 1, ORD: 1}
	params, err = Complete(NewRequest(local), enhanced(Enhanced{PeerToPeer: true, RTR: RTRSend, IRD: 1, ORD: 1}), local)
	require.NoError(t, err)
	assert.False(t, params.PeerToPeer)
}

func TestAcceptRTR(t *testing.T) {
	for offered := range allRTR + 1 {
		for known := range allRTR + 1 {
			req := enhanced(Enhanced{PeerToPeer: true, RTR: offered, IRD: 1})
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
			// R6581-9.1-4: a Read needs a place, a Request for none or not.
			assert.Equal(t, params.RTR&RTRRead != 0, params.IRD == 1)
			assert.EqualValues(t, params.IRD, reply.Enhanced.IRD)
		}
	}
	_, params, err := Accept(enhanced(Enhanced{PeerToPeer: true, RTR: RTRRead, ORD: NotNegotiated}), Local{})
	require.NoError(t, err)
	assert.Equal(t, 1, params.IRD)
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
			params, err := Complete(NewRequest(local), enhanced(tt.reply), local)
			assert.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.want, params.RTR)
			assert.Equal(t, tt.err == nil, params.PeerToPeer)
			assert.Equal(t, tt.want == RTRRead, params.ORD == 1)
		})
	}
}

// TestBothEnds runs the whole matrix of what two of our own may bring along:
// R6581-9.1-2, R6581-9.1-5.
func TestBothEnds(t *testing.T) {
	depths := []uint16{0, 1, 5, 128, MaxDepth, 0xffff}
	for _, p2p := range []bool{false, true} {
		for i := range len(depths) * len(depths) * len(depths) * len(depths) {
			at := func(n int) uint16 { return depths[i/pow(len(depths), n)%len(depths)] }
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

func pow(x, n int) int {
	r := 1
	for range n {
		r *= x
	}
	return r
}

// FuzzNegotiate answers whatever Request and takes whatever Reply: R6581-12-1.
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
			assert.False(t, reply.Markers)
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
