package iwarp

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// BenchmarkTCP measures the upper bound: one stream with 1 MiB writes into
// rotating buffers.
func BenchmarkTCP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		src := patternBytes(1 << 20)
		for {
			if _, err := c.Write(src); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	defer c.Close()
	sink := make([]byte, 16<<20)
	b.SetBytes(1 << 20)
	for i := 0; b.Loop(); i++ {
		_, err := io.ReadFull(c, sink[i%16<<20:][:1<<20])
		require.NoError(b, err)
	}
}

func BenchmarkWrite1MiB(b *testing.B) {
	for _, crc := range []mpa.CRC{mpa.CRCOff, mpa.CRCOn} {
		b.Run(map[mpa.CRC]string{mpa.CRCOff: "plain", mpa.CRCOn: "crc"}[crc], func(b *testing.B) {
			cfg := Config{CRC: crc}
			initiator, responder := connectPair(b, pairOptions{initiator: cfg, responder: cfg, recvs: 1 << 30})
			sink := make([]byte, 16<<20)
			r, err := responder.Register(sink, rdma.RemoteWrite)
			require.NoError(b, err)
			src, done := [][]byte{patternBytes(1 << 20)}, make(completionWaiter, 16)
			post := func(i int) {
				require.NoError(b, initiator.Post(rdma.WR{Op: rdma.OpWrite, Data: src, Remote: rdma.Remote{STag: r.STag(), TO: uint64(i%16) << 20}, Done: done}))
			}
			for i := range 8 {
				post(i)
			}
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				<-done
				post(i)
			}
			for range 8 {
				<-done
			}
			r.Deregister()
		})
	}
}

func BenchmarkPingPong128(b *testing.B) {
	cfg := Config{CRC: mpa.CRCOff}
	initiator, responder := connectPair(b, pairOptions{initiator: cfg, responder: cfg, recvs: 1 << 30})
	msg := patternBytes(128)
	reply := rdma.WR{Op: rdma.OpSend, Data: [][]byte{msg}}
	go func() {
		for {
			select {
			case m := <-responder.inbox.recvs:
				m.Buf.Release()
				_ = responder.Post(reply)
			case <-b.Context().Done():
				return
			}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		_ = initiator.Post(reply)
		(<-initiator.inbox.recvs).Buf.Release()
	}
}
