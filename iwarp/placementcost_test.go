package iwarp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// BenchmarkPlacement measures an RDMA Write of 4 KiB followed by a Send, with
// 16 pairs outstanding: the load of short READs on a connection.
func BenchmarkPlacement(b *testing.B) {
	cfg := Config{CRC: mpa.CRCOff}
	initiator, responder := pair(b, options{initiator: cfg, responder: cfg, recvs: 1 << 30})
	sink := make([]byte, 16<<12)
	r, err := responder.Register(sink, rdma.RemoteWrite)
	require.NoError(b, err)
	data, reply := [][]byte{pattern(4 << 10)}, [][]byte{pattern(128)}
	post := func(i int) {
		err := initiator.Post(
			rdma.WR{Op: rdma.OpWrite, Data: data, Remote: rdma.Remote{STag: r.STag(), TO: uint64(i%16) << 12}},
			rdma.WR{Op: rdma.OpSend, Data: reply},
		)
		require.NoError(b, err)
	}
	for i := range 16 {
		post(i)
	}
	b.SetBytes(4 << 10)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		(<-responder.in.recvs).Buf.Release()
		post(i)
	}
	for range 16 {
		(<-responder.in.recvs).Buf.Release()
	}
	r.Deregister()
}
