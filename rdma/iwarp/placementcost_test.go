package iwarp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// BenchmarkPlacement measures a 4 KiB RDMA Write followed by a Send, with 16
// pairs outstanding: the load that short READs put on a connection.
func BenchmarkPlacement(b *testing.B) {
	cfg := Config{CRC: mpa.CRCOff}
	initiator, responder := connectPair(b, pairOptions{initiator: cfg, responder: cfg, recvs: 1 << 30})
	sink := make([]byte, 16<<12)
	r, err := responder.Register(sink, rdma.RemoteWrite)
	require.NoError(b, err)
	data, reply := [][]byte{patternBytes(4 << 10)}, [][]byte{patternBytes(128)}
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
		(<-responder.inbox.recvs).Buf.Release()
		post(i)
	}
	for range 16 {
		(<-responder.inbox.recvs).Buf.Release()
	}
	r.Deregister()
}
