package mpa

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

func TestEnhancedNeedsRevision2(t *testing.T) {
	// In revision 1 the S bit is reserved: R5044-7.1.1-14, R6581-6-3.
	wire := wiretest.Hex(t, "testdata/request-rev2.hex")
	wire[offRev] = Rev1
	got, err := ParseRequest(wire)
	require.NoError(t, err)
	assert.False(t, got.HasEnhanced)
	assert.Equal(t, wire[HeaderLen:], got.PrivateData)

	wire[offRev], wire[offFlags] = Rev2, flagCRC // revision 2 without S
	got, err = ParseRequest(wire)
	require.NoError(t, err)
	assert.False(t, got.HasEnhanced)
	assert.Equal(t, wire[HeaderLen:], got.PrivateData)
}

func TestEnhancedWords(t *testing.T) {
	for _, n := range []uint16{0, 1, 128, MaxDepth, NotNegotiated} {
		for flags := range 16 { // each flag in its place: R6581-9-1
			e := Enhanced{
				PeerToPeer: flags&8 != 0,
				RTR:        RTR(flags) & (RTRSend | RTRWrite | RTRRead),
				IRD:        n, ORD: NotNegotiated - n,
			}
			wire := e.appendTo(nil)
			assert.Equal(t, e, parseEnhanced(wire))
			word := binary.BigEndian.Uint32(wire)
			assert.Equal(t, e.PeerToPeer, word&(1<<31) != 0)
			assert.Equal(t, e.RTR&RTRSend != 0, word&(1<<30) != 0)
			assert.Equal(t, e.RTR&RTRWrite != 0, word&(1<<15) != 0)
			assert.Equal(t, e.RTR&RTRRead != 0, word&(1<<14) != 0)
		}
	}
	assert.Equal(t, []byte{0x3f, 0xff, 0x3f, 0xff}, Enhanced{IRD: 0x4000, ORD: 0xffff}.appendTo(nil),
		"a number never spills into the flags")
}

func TestNames(t *testing.T) {
	assert.Equal(t, "none", RTR(0).String())
	assert.Equal(t, "Send, RDMA Write, RDMA Read", (RTRSend | RTRWrite | RTRRead).String())
	seen := map[string]bool{}
	for e := range Error(0x09) {
		assert.NotEmpty(t, e.Error())
		assert.False(t, seen[e.Error()], "%v twice", e)
		seen[e.Error()] = true
		// R5044-8-2, R6581-8-1: codes 1 to 7
		assert.Equal(t, e >= 1 && e <= 7, e.Defined())
		assert.Equal(t, !e.Defined(), strings.Contains(e.Error(), "code"))
	}
}
