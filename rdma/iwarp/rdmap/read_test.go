package rdmap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

var reads = []struct {
	file string
	req  ReadRequest
}{
	{"read-request.hex", ReadRequest{
		SinkSTag: 0x11111111, SinkTO: 0x2000, Size: 256, SourceSTag: 0x22222222, SourceTO: 0x3000,
	}},
	{"read-request-siw.hex", ReadRequest{
		SinkSTag: 0xaa4c7e00, SinkTO: 0x55b04a3e2730, Size: 100, SourceSTag: 0x2a0ad200, SourceTO: 0x55b87f7bdde0,
	}},
}

func TestReadRequest(t *testing.T) {
	for _, tt := range reads { // R5040-4.4-1, R5040-4.4-2
		t.Run(tt.file, func(t *testing.T) {
			_, wire, err := ddp.ParseUntagged(wiretest.Hex(t, "testdata/"+tt.file))
			require.NoError(t, err)
			assert.Len(t, wire, ReadRequestLen) // R5040-4.2-2
			assert.Equal(t, wire, tt.req.AppendTo(nil))
			got, err := ParseReadRequest(wire)
			require.NoError(t, err)
			assert.Equal(t, tt.req, got)
			for n := range wire { // truncated at every byte
				_, err := ParseReadRequest(wire[:n])
				assert.ErrorIs(t, err, ErrLength, n)
			}
			_, err = ParseReadRequest(append(wire, 0)) // R5040-4.2-2
			assert.ErrorIs(t, err, ErrLength)
		})
	}
}

func TestReadRequestAdvance(t *testing.T) {
	r := reads[0].req.Advance(200) // R5040-4.8-22
	assert.Equal(t, ReadRequest{
		SinkSTag: 0x11111111, SinkTO: 0x20c8, Size: 56, SourceSTag: 0x22222222, SourceTO: 0x30c8,
	}, r)
	assert.Equal(t, reads[0].req, reads[0].req.Advance(0)) // R5040-4.8-21
}

func TestReadRequestCheck(t *testing.T) {
	const top = 1<<64 - 1
	src := Source{TO: 1000, Len: 100, Readable: true}
	tests := []struct {
		name string
		src  Source
		to   uint64
		size uint32
		want error
	}{
		{"all of it", src, 1000, 100, nil},
		{"R5040-7.2-R4c-1 before", src, 999, 1, ErrBounds},
		{"R5040-7.2-R4c-1 behind", src, 1100, 1, ErrBounds},
		{"R5040-7.2-R4d-1 one byte over", src, 1000, 101, ErrBounds},
		{"R5040-4.4-7 the largest size", Source{TO: 1000, Len: 1 << 32, Readable: true}, 1000, 1<<32 - 1, nil},
		{"R5040-4.4-7 the largest size, over", src, 1000, 1<<32 - 1, ErrBounds},
		{"R5040-7.2-R4e-1 wrap", src, top - 3, 5, ErrTOWrap},
		{"no right to read", Source{TO: 1000, Len: 100}, 1000, 1, ErrAccess},
		{"R5040-5.2.1-15 no bytes, anywhere", Source{}, top, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, ReadRequest{SourceTO: tt.to, Size: tt.size}.Check(tt.src))
		})
	}
}

func FuzzReadRequest(f *testing.F) {
	for _, tt := range reads {
		_, wire, err := ddp.ParseUntagged(wiretest.Hex(f, "testdata/"+tt.file))
		require.NoError(f, err)
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := ParseReadRequest(wire)
		if err != nil {
			assert.ErrorIs(t, err, ErrLength)
			return
		}
		assert.Equal(t, wire, r.AppendTo(nil), "no byte is reserved")
		src := Source{TO: 1 << 20, Len: 1 << 16, Readable: true}
		if r.Check(src) == nil && r.Size > 0 {
			assert.GreaterOrEqual(t, r.SourceTO, src.TO)
			assert.LessOrEqual(t, r.SourceTO+uint64(r.Size), src.TO+src.Len)
		}
	})
}
