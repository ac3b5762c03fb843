package oncrpc

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestClientWritesOnce checks that mark, arguments, item, padding and tail
// leave in one segment. The kernel would send each separate write on its own.
func TestClientWritesOnce(t *testing.T) {
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
		assert.Equal(t, "item.", string(c.Args.Opaque(5)))
		assert.EqualValues(t, 0xdeadbeef, c.Args.Uint32())
		return c.Args.Done()
	}))
	c := startServer(t, &Server{Handler: m}).dialClient(ClientConfig{})
	x := newEchoExchange(procHead, []byte("item."))
	x.Tail = echoTail
	before := countSegments(t, c.nc)
	require.NoError(t, c.Call(t.Context(), x))
	x.Release()
	assert.EqualValues(t, 1, countSegments(t, c.nc)-before)
}

// countSegments returns how many data segments a connection has sent.
func countSegments(t *testing.T, nc net.Conn) (n uint32) {
	raw, err := nc.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if assert.NoError(t, err) {
			n = info.Data_segs_out
		}
	}))
	return n
}

func TestClientAllocatesNothing(t *testing.T) {
	c := startServer(t, &Server{Handler: echoMux()}).dialClient(ClientConfig{})
	x := newEchoExchange(procEcho, make([]byte, 9000))
	allocs := testing.AllocsPerRun(200, func() {
		if err := c.Call(context.Background(), x); err != nil {
			t.Fatal(err)
		}
		x.Release()
	})
	assert.LessOrEqual(t, allocs, racetest.PoolLosses(4)) // the server's and the client's
}

// makeCalls makes b.N calls, depth of them concurrently.
func makeCalls(b *testing.B, depth int, newCall func() *Exchange) {
	c := NewTCPClient(benchServer(b), ClientConfig{})
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range depth {
		wg.Go(func() {
			x := newCall()
			for range (b.N + depth - 1 - i) / depth {
				if err := c.Call(context.Background(), x); err != nil {
					b.Error(err)
					return
				}
				x.Release()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	closeClient(b, c)
}

func nullCall() *Exchange { return &Exchange{Prog: testProg, Vers: 2} }

func BenchmarkClientNull(b *testing.B)        { makeCalls(b, 1, nullCall) }
func BenchmarkClientNullDepth32(b *testing.B) { makeCalls(b, 32, nullCall) }

func BenchmarkClientRead1MiB(b *testing.B) {
	b.SetBytes(1 << 20)
	makeCalls(b, 4, func() *Exchange {
		return &Exchange{
			Prog: testProg, Vers: 2, Proc: 1, Args: xdr.AppendUint32(nil, 1<<20),
			Sink: make([]byte, 1<<20), MaxResults: 4,
		}
	})
}

func BenchmarkClientWrite1MiB(b *testing.B) {
	b.SetBytes(1 << 20)
	makeCalls(b, 4, func() *Exchange {
		return &Exchange{
			Prog: testProg, Vers: 2, Proc: 2, Args: xdr.AppendUint32(nil, 1<<20),
			Item: make([]byte, 1<<20),
		}
	})
}
