package rdmap

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestErrorNumbers checks RFC 5040, Figure 9: R5040-4.8-4, R5040-4.8-5,
// R5040-4.8-7, R5040-4.8-8, R5040-4.8-9.
func TestErrorNumbers(t *testing.T) {
	tests := []struct {
		err         Error
		etype, code uint8
		name        string
	}{
		{ErrCatastrophic, 0, 0x00, "RDMAP local catastrophic error"},
		{ErrInvalidSTag, 1, 0x00, "RDMAP remote protection error: invalid STag"},
		{ErrBounds, 1, 0x01, "RDMAP remote protection error: base or bounds violation"},
		{ErrAccess, 1, 0x02, "RDMAP remote protection error: access rights violation"},
		{ErrSTagStream, 1, 0x03, "RDMAP remote protection error: STag not associated with RDMAP stream"},
		{ErrTOWrap, 1, 0x04, "RDMAP remote protection error: TO wrap"},
		{ErrCannotInvalidate, 1, 0x09, "RDMAP remote protection error: STag cannot be invalidated"},
		{Error{0, 1, 0xff}, 1, 0xff, "RDMAP remote protection error: unspecified"},
		{ErrVersion, 2, 0x05, "RDMAP remote operation error: invalid RDMAP version"},
		{ErrOpcode, 2, 0x06, "RDMAP remote operation error: unexpected opcode"},
		{ErrStream, 2, 0x07, "RDMAP remote operation error: catastrophic error of the stream"},
		{Error{0, 2, 8}, 2, 0x08, "RDMAP remote operation error: catastrophic error, global"},
		{Error{0, 2, 9}, 2, 0x09, "RDMAP remote operation error: STag cannot be invalidated"},
		{ErrUnspecified, 2, 0xff, "RDMAP remote operation error: unspecified"},
	}
	seen := map[Error]bool{}
	for _, tt := range tests {
		assert.Equal(t, Error{LayerRDMA, tt.etype, tt.code}, tt.err)
		assert.Equal(t, tt.name, tt.err.Error())
		seen[tt.err] = true
	}
	for etype := range uint8(16) {
		for code := range 256 {
			e := Error{LayerRDMA, etype, uint8(code)}
			assert.Equal(t, seen[e] || etype == 0, e.Defined(), "%v", e)
			assert.Equal(t, e.Defined(), !strings.Contains(e.Error(), ", code"))
		}
	}
	assert.True(t, Error{LayerDDP, 2, 6}.Defined())
	assert.False(t, Error{LayerDDP, 2, 7}.Defined())
	assert.True(t, Error{LayerLLP, 0, 7}.Defined())
	assert.False(t, Error{LayerLLP, 0, 8}.Defined())
	assert.False(t, Error{LayerLLP, 1, 2}.Defined())
	assert.False(t, Error{3, 0, 0}.Defined())
	assert.Equal(t, "DDP tagged buffer error: invalid STag", Error{1, 1, 0}.Error())
	assert.Equal(t, "MPA error: CRC mismatch", Error{2, 0, 2}.Error())
	assert.Equal(t, "error: layer 0x2, type 0x1, code 0x03", Error{2, 1, 3}.Error())
}

func TestErrorOf(t *testing.T) {
	tests := []struct {
		err  error
		want Error
	}{
		{ErrAccess, Error{0, 1, 2}},
		{ddp.ErrTooLong, Error{1, 2, 5}}, // R5040-4.8-6
		{mpa.ErrCRC, Error{2, 0, 2}},     // R5040-4.8-6, R5041-7-1
		{mpa.ErrIRD, Error{2, 0, 6}},     // R6581-8-1, R6581-9.1-9
		{mpa.ErrRTR, Error{2, 0, 7}},     // R6581-8-1, R6581-9.2-8
		{mpa.ErrLocal, Error{2, 0, 5}},   // R6581-8-1, R6581-9.3-1
		{mpa.ErrKey, Error{2, 0, 4}},
		{ddp.ErrShort, ErrUnspecified},
		{ErrLength, ErrUnspecified},
		{io.ErrUnexpectedEOF, ErrCatastrophic},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, ErrorOf(tt.err), "%v", tt.err)
		assert.Equal(t, tt.want, ErrorOf(fmt.Errorf("frame 7: %w", tt.err)), "%v", tt.err)
	}
}

func TestErrorIs(t *testing.T) {
	err := fmt.Errorf("peer: %w", error(Error{1, 1, 0}))
	assert.ErrorIs(t, err, ddp.ErrInvalidSTag)
	assert.ErrorIs(t, err, Error{1, 1, 0})
	assert.NotErrorIs(t, err, ErrInvalidSTag)
	assert.NotErrorIs(t, err, ddp.ErrBounds)
	assert.NotErrorIs(t, err, io.EOF)
	assert.ErrorIs(t, Error{2, 0, 2}, mpa.ErrCRC)
	assert.False(t, errors.Is(Error{2, 1, 2}, mpa.ErrCRC))
}

// TestHeaders checks RFC 5040, Figure 10: R5040-4.8-10, R5040-4.8-11,
// R5040-4.8-12, R5040-4.8-18, R5040-4.8-23.
func TestHeaders(t *testing.T) {
	tests := []struct {
		err        Error
		ddp, rdmap bool
	}{
		{ErrCatastrophic, false, false},
		{ErrInvalidSTag, true, true},
		{ErrCannotInvalidate, true, true},
		{ErrVersion, true, false},
		{ErrOpcode, true, false},
		{ErrorOf(ddp.ErrCatastrophic), false, false},
		{ErrorOf(ddp.ErrBounds), true, false},
		{ErrorOf(ddp.ErrMSNRange), true, false},
		{ErrorOf(mpa.ErrCRC), false, false},
	}
	for _, tt := range tests {
		gotDDP, gotRDMAP := tt.err.terminateHeaders()
		assert.Equal(t, tt.ddp, gotDDP, "%v", tt.err)
		assert.Equal(t, tt.rdmap, gotRDMAP, "%v", tt.err)
	}
}
