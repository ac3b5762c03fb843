package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A peer may ask again as soon as it has the whole response.
func TestReadAgainAtOnce(t *testing.T) {
	world(t)
	e, p := againstRaw(t, raw{pipe: true, ird: 1})
	mem := pattern(100)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	for i := range uint32(1000) { // R5040-6.1-3
		p.send(requestSeg(i+1, rdmap.ReadRequest{SinkSTag: 5, SinkTO: uint64(i), Size: 100, SourceSTag: r.STag()}))
		h, got := p.response()
		require.Equal(t, rdma.STag(5), h.STag) // R5040-4.4-3
		require.Equal(t, uint64(i), h.TO)      // R5040-4.4-4
		require.Equal(t, mem, got)
	}
	r.Deregister()
}

// Neither STag nor TO of a message without octets is checked, and the last
// segment of any message may be empty.
func TestReadResponseWithoutOctets(t *testing.T) {
	world(t)
	e, p := againstRaw(t, raw{initiator: true})
	done := make(waiter, 2)
	sink := make([]byte, 4)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: done},
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Done: done},
	))
	req := p.readRequest()
	assert.Zero(t, req.Size)
	p.send(responseSeg(true, 0xdeadbeef, 12345, nil)) // R5041-5.2-9
	require.NoError(t, done.wait(t).Err)
	req = p.readRequest()
	p.send(
		responseSeg(false, req.SinkSTag, req.SinkTO, []byte("data")),
		responseSeg(true, req.SinkSTag, req.SinkTO+4, nil),
	)
	require.NoError(t, done.wait(t).Err)
	assert.Equal(t, "data", string(sink))
}
