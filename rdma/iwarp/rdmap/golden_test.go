package rdmap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// TestGoldenSolicited checks the Sends with Solicited Event, R5040-4.6-1 and
// R5040-4.7-1. No capture contains them, since Linux uses none.
func TestGoldenSolicited(t *testing.T) {
	for file, want := range map[string]struct {
		op   Opcode
		stag rdma.STag
		msn  uint32
	}{
		"send-se.hex":            {OpSendSE, 0, 3},
		"send-se-invalidate.hex": {OpSendSEInvalidate, 0xaabbccdd, 4},
	} {
		t.Run(file, func(t *testing.T) {
			wire := goldenSegment(t, file)
			assert.Equal(t, wire, AppendUntagged(nil, want.op, true, want.stag, want.msn, 0))
			h, payload, err := ddp.ParseUntagged(wire)
			require.NoError(t, err)
			assert.Empty(t, payload)
			op, err := CheckUntagged(h)
			require.NoError(t, err)
			assert.Equal(t, want.op, op)
			assert.Equal(t, want.stag, InvalidateSTag(h))
		})
	}
}

// TestGoldenTerminates checks a Terminate in both layouts: RFC 5040's and
// siw's.
func TestGoldenTerminates(t *testing.T) {
	for file, want := range map[string]struct {
		layout Layout
		cause  error
		length uint16
		text   string
	}{
		"terminate-read.hex": {
			LayoutRFC, ErrInvalidSTag, 46,
			"RDMAP remote protection error: invalid STag, RDMA Read Request on queue 1, MSN 1, MO 0, of 256 bytes from STag 0x22222222, TO 0x3000 to STag 0x11111111, TO 0x2000, length 46",
		},
		"terminate-siw-read.hex": {
			LayoutSiw, ErrInvalidSTag, 0,
			"RDMAP remote protection error: invalid STag, RDMA Read Request on queue 1, MSN 1, MO 0, of 256 bytes from STag 0x22222222, TO 0x3000 to STag 0x11111111, TO 0x2000, length 0",
		},
		"terminate-siw-write.hex": {
			LayoutSiw, ddp.ErrInvalidSTag, 100,
			"DDP tagged buffer error: invalid STag, RDMA Write to STag 0x22639a00, TO 0x55b87f7bd730, length 100",
		},
	} {
		t.Run(file, func(t *testing.T) {
			wire := goldenSegment(t, file)
			h, body, err := ddp.ParseUntagged(wire)
			require.NoError(t, err)
			op, err := CheckUntagged(h)
			require.NoError(t, err)
			assert.Equal(t, OpTerminate, op)
			got, err := ParseTerminate(body)
			require.NoError(t, err)
			assert.ErrorIs(t, got.Cause, want.cause)
			assert.Equal(t, want.layout, got.Layout)
			assert.True(t, got.HasLength)
			assert.Equal(t, want.length, got.SegmentLen)
			assert.Equal(t, want.text, got.String())
			if want.layout == LayoutRFC {
				out := AppendUntagged(nil, OpTerminate, true, 0, 1, 0)
				assert.Equal(t, wire, got.AppendTo(out))
			}
		})
	}
}
