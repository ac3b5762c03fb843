package oncrpc

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/require"
)

// benchServer serves READ-like calls (procedure 1, whose argument is the length
// of the results in bytes) and WRITE-like calls (procedure 2), and returns a
// connection.
func benchServer(b *testing.B) net.Conn {
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		if c.Proc == 2 {
			c.Args.Item(1 << 20)
			return c.Args.Done()
		}
		n := c.Args.Uint32()
		r.Head = xdr.AppendUint32(r.Head, n)
		r.NewItem(int(n))
		return nil
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	s := &Server{Handler: m}
	go s.Serve(l)
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() {
		nc.Close()
		require.NoError(b, s.Shutdown(context.Background()))
	})
	return nc
}

// pingPong sends msg and reads replyLen bytes, b.N times, with depth calls in flight.
func pingPong(b *testing.B, msg []byte, replyLen, depth int) {
	nc := benchServer(b)
	msg = newRecord(msg)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range depth {
			_, _ = nc.Write(msg)
		}
	}()
	reply := make([]byte, markLen+replyLen)
	for i := range b.N + depth - 1 {
		if _, err := io.ReadFull(nc, reply); err != nil {
			b.Fatal(err)
		}
		if i < b.N-1 {
			if _, err := nc.Write(msg); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkNull(b *testing.B) {
	pingPong(b, newCallMessage(1, testProg, 2, 0), rpcmsg.AcceptedLen, 1)
}

func BenchmarkNullDepth32(b *testing.B) {
	pingPong(b, newCallMessage(1, testProg, 2, 0), rpcmsg.AcceptedLen, 32)
}

func BenchmarkRead1MiB(b *testing.B) {
	b.SetBytes(1 << 20)
	pingPong(b, newCallMessage(1, testProg, 2, 1, 0, 0x10, 0, 0), rpcmsg.AcceptedLen+4+1<<20, 4)
}

func BenchmarkWrite1MiB(b *testing.B) {
	b.SetBytes(1 << 20)
	pingPong(b, newCallMessage(1, testProg, 2, 2, xdr.AppendOpaque(nil, make([]byte, 1<<20))...), rpcmsg.AcceptedLen, 4)
}

func BenchmarkMux(b *testing.B) {
	m := echoMux()
	req := &Request{Msg: echoCall(1, procHead, []byte("hello")), MaxReply: 4096}
	store := make([]byte, 0, 512)
	b.ReportAllocs()
	var rep Reply
	for range b.N {
		rep = Reply{Head: store}
		m.Serve(context.Background(), req, &rep)
	}
}
