package rpctls

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const streamed = 1 << 20 // bytes of a message

// BenchmarkStream sends messages from one end of a connection to the other: with a
// header before the data, as RPC does, in FPDUs, as MPA does, and without any, through
// crypto/tls alone.
func BenchmarkStream(b *testing.B) {
	b.Run("rpc", func(b *testing.B) {
		near, far := newPair(b)
		benchmarkStream(b, near, far, []int{4, 128, streamed - 132})
	})
	b.Run("mpa", func(b *testing.B) {
		near, far := newPair(b)
		var parts []int
		for n := 0; n < streamed; n += 65536 {
			parts = append(parts, 18, 65518)
		}
		benchmarkStream(b, near, far, parts)
	})
	b.Run("bare", func(b *testing.B) {
		root := newAuthority(b, "root")
		r := newRig(b, ServerConfig{Files: filesOf(root.Issue(nil))})
		c := newTestClient(b, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
		client, server := r.dialBoth()
		asked := false
		near := tls.Client(client, c.tlsConfig(c.store.current(), protocolRPC, false, &asked))
		far := tls.Server(server, r.server.tlsConfig(r.server.store.current(), protocolRPC, false))
		go far.Handshake()
		require.NoError(b, near.Handshake())
		benchmarkStream(b, near, far, []int{streamed})
	})
}

func benchmarkStream(b *testing.B, near, far net.Conn, parts []int) {
	var content [][]byte
	for _, n := range parts {
		content = append(content, randomBytes(n))
	}
	got := make(chan error, 1)
	go func() {
		into := make([]byte, 16*streamed)
		var err error
		for i := 0; i < b.N && err == nil; i++ {
			_, err = io.ReadFull(far, into[i%16*streamed:][:streamed])
		}
		got <- err
	}()
	b.SetBytes(streamed)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for range b.N {
		v := append(net.Buffers(nil), content...)
		var err error
		if c, ok := near.(*Conn); ok {
			_, err = c.WriteBuffers(&v)
		} else {
			_, err = v.WriteTo(near)
		}
		require.NoError(b, err)
	}
	require.NoError(b, <-got)
	b.ReportMetric(float64(cpuTime(b)-before)/1e3/float64(b.N), "cpu-µs/op")
}

// cpuTime returns the processor's time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
