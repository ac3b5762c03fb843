package oncrpc

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hungKernel is a connection whose bytes to send are on a disk that does not answer:
// until disk is closed, the kernel holds the socket's lock in the first write.
type hungKernel struct {
	net.Conn
	disk   chan struct{}
	writes atomic.Bool
	asked  atomic.Int64 // how often for the traffic
}

func (k *hungKernel) WriteBuffers(*net.Buffers) (int64, error) {
	k.writes.Store(true)
	<-k.disk
	return 0, net.ErrClosed
}

func (k *hungKernel) Close() error {
	if k.writes.Load() {
		<-k.disk
	}
	return k.Conn.Close()
}

func (k *hungKernel) Security() *Security                   { return nil }
func (k *hungKernel) SyscallConn() (syscall.RawConn, error) { return hungSocket{k}, nil }

type hungSocket struct{ k *hungKernel }

func (s hungSocket) Control(func(uintptr)) error {
	s.k.asked.Add(1)
	if s.k.writes.Load() {
		<-s.k.disk
	}
	return net.ErrClosed
}

func (hungSocket) Read(func(uintptr) bool) error  { return net.ErrClosed }
func (hungSocket) Write(func(uintptr) bool) error { return net.ErrClosed }

// TestHungDisk checks that a connection whose reply waits for a disk holds up neither the
// other connections nor the end of the server, and is no peer that stalls.
func TestHungDisk(t *testing.T) {
	f := newLentFile(t, 4<<10)
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		if c.Proc == procLend {
			f.lendItem(r, 0, 100)
		}
		return nil
	}))
	s := &Server{Handler: m, MaxConns: 2, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		other := l.dialPipe()
		defer other.Close()
		client, server := net.Pipe()
		defer client.Close()
		k := &hungKernel{Conn: server, disk: make(chan struct{})}
		l.conns <- k
		_, err := client.Write(streamOf(procLend))
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, k.writes.Load())
		for round := range uint64(3) {
			start := time.Now()
			assert.Len(t, s.Connections(), 2)
			s.abortStalled(round)
			assert.Less(t, time.Since(start), time.Second)
		}
		assert.EqualValues(t, 1, k.asked.Load(), "one goroutine waits, however often the question comes")
		assert.Zero(t, s.Stats().Stalled)
		for c := range s.conns {
			if c.nc == k {
				c.abort(errors.New("cut"))
			}
		}
		_, err = other.Write(streamOf(2))
		require.NoError(t, err)
		readRecord(t, other)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		close(k.disk)
	})
}
