package mpa

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

var (
	linuxClient = []byte{0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x03}
	linuxServer = []byte{0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03}
)

// frames holds the golden frames, both directions: R5044-7.1.1-1, R5044-7.1.1-3,
// R5044-7.1.1-13, R5044-7.1.1-15, R5044-7.1.1-18, R5044-7.1.2-1-1, R6581-6-1,
// R6581-6-2, R6581-6-5, R6581-9-1, R6581-9.2-1, R6581-9.2-9.
var frames = []struct {
	file  string
	frame Frame
}{
	{"request-rev1.hex", Frame{Rev: 1, CRC: true}},
	{"reply-rev1-reject.hex", Frame{Reply: true, Rev: 1, CRC: true, Reject: true}},
	{"request-rev2.hex", Frame{
		Rev: 2, CRC: true, HasEnhanced: true,
		Enhanced: Enhanced{IRD: 16, ORD: 16}, PrivateData: linuxServer,
	}},
	{"request-p2p.hex", Frame{Rev: 2, CRC: true, HasEnhanced: true, Enhanced: Enhanced{
		PeerToPeer: true, RTR: RTRSend | RTRWrite | RTRRead, IRD: 16, ORD: 8,
	}}},
	{"request-siw.hex", Frame{
		Rev: 2, HasEnhanced: true,
		Enhanced: Enhanced{IRD: 128}, PrivateData: linuxClient,
	}},
	{"reply-siw.hex", Frame{
		Reply: true, Rev: 2, HasEnhanced: true,
		Enhanced: Enhanced{ORD: 128}, PrivateData: linuxServer,
	}},
	{"request-siw-crc.hex", Frame{
		Rev: 2, CRC: true, HasEnhanced: true,
		Enhanced: Enhanced{IRD: 128}, PrivateData: linuxClient,
	}},
	{"reply-siw-crc.hex", Frame{
		Reply: true, Rev: 2, CRC: true, HasEnhanced: true,
		Enhanced: Enhanced{ORD: 128}, PrivateData: linuxServer,
	}},
	{"request-siw-p2p.hex", Frame{Rev: 2, HasEnhanced: true, Enhanced: Enhanced{
		PeerToPeer: true, RTR: RTRWrite | RTRRead, IRD: 128, ORD: 1,
	}, PrivateData: linuxClient}},
	{"reply-siw-p2p.hex", Frame{Reply: true, Rev: 2, HasEnhanced: true, Enhanced: Enhanced{
		PeerToPeer: true, RTR: RTRWrite, IRD: 1, ORD: 128,
	}, PrivateData: linuxServer}},
}

// lenAndParse returns a reader's two steps, for either frame kind.
func lenAndParse(reply bool) (func([]byte) (int, error), func([]byte) (Frame, error)) {
	if reply {
		return ReplyLen, ParseReply
	}
	return RequestLen, ParseRequest
}

func TestFrames(t *testing.T) {
	for _, tt := range frames {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file)
			assert.Equal(t, wire, tt.frame.AppendTo(nil))
			assert.Equal(t, append([]byte("x"), wire...), tt.frame.AppendTo([]byte("x")))

			frameLen, parse := lenAndParse(tt.frame.Reply)
			n, err := frameLen(wire[:HeaderLen])
			require.NoError(t, err)
			assert.Equal(t, len(wire), n)
			got, err := parse(wire)
			require.NoError(t, err)
			assertFrame(t, tt.frame, got)

			for n := range wire { // truncated at every byte: R5044-7.1.1-19
				_, err := parse(wire[:n])
				assert.ErrorIs(t, err, ErrShort, n)
			}
			for n := range HeaderLen {
				_, err := frameLen(wire[:n])
				assert.ErrorIs(t, err, ErrShort, n)
			}
			_, err = parse(append(wire, 0)) // R5044-7.1.1-19
			assert.ErrorIs(t, err, ErrPrivateData)
		})
	}
}

// assertFrame compares frames. It treats nil and empty private data as equal.
func assertFrame(t *testing.T, want, got Frame) {
	t.Helper()
	assert.Equal(t, string(want.PrivateData), string(got.PrivateData)) // R5044-7.1.1-20
	want.PrivateData, got.PrivateData = nil, nil
	assert.Equal(t, want, got)
}

func TestFrameIgnoresReservedBits(t *testing.T) {
	for _, tt := range frames { // R5044-7.1.1-14
		wire := wiretest.Hex(t, "testdata/"+tt.file)
		wire[offFlags] |= 0x0f
		_, parse := lenAndParse(tt.frame.Reply)
		got, err := parse(wire)
		require.NoError(t, err)
		assertFrame(t, tt.frame, got)
	}
}

func TestRequestIgnoresR(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/request-rev1.hex")
	wire[offFlags] |= flagR // R5044-7.1.1-11
	got, err := ParseRequest(wire)
	require.NoError(t, err)
	assert.False(t, got.Reject)
	assert.Equal(t, wiretest.Hex(t, "testdata/request-rev1.hex"), Frame{Rev: 1, CRC: true, Reject: true}.AppendTo(nil),
		"nor is it sent")
}

func TestFrameErrors(t *testing.T) {
	request := wiretest.Hex(t, "testdata/request-rev2.hex")
	reply := wiretest.Hex(t, "testdata/reply-siw.hex")
	with := func(b []byte, off int, data ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[off:], data)
		return b
	}
	tests := []struct {
		name  string
		reply bool
		wire  []byte
		want  error
	}{
		{"R5044-7.1.2-8-1 both initiators", true, request, ErrInitiator},
		{"both responders", false, reply, ErrResponder},
		{"revision 0 R5044-7.1.1-16", false, with(request, offRev, 0), ErrRevision},
		{"revision 3 R5044-7.1.1-16", true, with(reply, offRev, 3), ErrRevision},
		{"private data 513 R5044-7.1.1-19", false, with(request, offPD, 0x02, 0x01), ErrPrivateData},
		{"private data 65535 R5044-7.1.2-9-1", true, with(reply, offPD, 0xff, 0xff), ErrPrivateData},
		{"S and private data 3 R6581-6-5", false, with(request, offPD, 0, 3), ErrPrivateData},
		{"S and no private data R6581-6-5", true, with(reply, offPD, 0, 0), ErrPrivateData},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frameLen, parse := lenAndParse(tt.reply)
			_, err := frameLen(tt.wire[:HeaderLen])
			assert.ErrorIs(t, err, tt.want)
			assert.ErrorIs(t, err, ErrFrame, "R5044-8-2: code 4")
			_, err = parse(tt.wire)
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

func TestKeyOneByteOff(t *testing.T) {
	for _, tt := range frames[:2] { // R5044-7.1.1-2, R5044-7.1.1-4, R5044-7.1.2-5-1
		frameLen, _ := lenAndParse(tt.frame.Reply)
		for i := range offFlags {
			wire := wiretest.Hex(t, "testdata/"+tt.file)
			wire[i] ^= 0x20
			_, err := frameLen(wire)
			assert.ErrorIs(t, err, ErrKey, i)
			assert.ErrorIs(t, err, ErrFrame)
		}
	}
}

func TestPrivateDataLimits(t *testing.T) {
	tests := []struct { // R5044-7.1.1-21, R6581-9-2
		frame  Frame
		maxLen int
	}{
		{Frame{Rev: Rev1}, 512},
		{Frame{Rev: Rev2}, 512},
		{Frame{Rev: Rev2, HasEnhanced: true}, 508},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.maxLen, tt.frame.MaxPrivateDataLen())
		for _, n := range []int{0, 1, tt.maxLen} {
			tt.frame.PrivateData = []byte(strings.Repeat("x", n))
			wire := tt.frame.AppendTo(nil)
			got, err := ParseRequest(wire)
			require.NoError(t, err)
			assertFrame(t, tt.frame, got)
		}
		tt.frame.PrivateData = make([]byte, tt.maxLen+1)
		assert.Panics(t, func() { tt.frame.AppendTo(nil) })
	}
}

func TestFrameAllocs(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/request-siw.hex")
	frame, err := ParseRequest(wire)
	require.NoError(t, err)
	out := make([]byte, 0, 64)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = ParseRequest(wire)
		out = frame.AppendTo(out[:0])
	}))
}

func FuzzFrame(f *testing.F) {
	for _, tt := range frames {
		f.Add(wiretest.Hex(f, "testdata/"+tt.file))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, reply := range []bool{false, true} {
			frameLen, parse := lenAndParse(reply)
			frame, err := parse(wire)
			if err != nil {
				assert.ErrorIs(t, err, ErrFrame)
				continue
			}
			n, err := frameLen(wire)
			require.NoError(t, err)
			assert.Equal(t, len(wire), n)
			assert.LessOrEqual(t, len(frame.PrivateData), frame.MaxPrivateDataLen())
			again, err := parse(frame.AppendTo(nil))
			require.NoError(t, err)
			assertFrame(t, frame, again)
		}
	})
}
