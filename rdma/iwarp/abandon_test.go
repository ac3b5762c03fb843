package iwarp

import (
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// discardingHandler is an upper layer that ignores all messages.
type discardingHandler struct{}

func (discardingHandler) Receive(m rdma.Recv) { m.Buf.Release() }
func (discardingHandler) Closed(error)        {}

// acceptAll accepts every connection to a listener on loopback, and returns the
// listener's address.
func acceptAll(t *testing.T, cfg Config) string {
	t.Helper()
	ln, err := deviceWith(cfg).Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			req, err := ln.Accept(t.Context())
			if err != nil {
				return
			}
			accepting.Go(func() { _, _ = req.Accept(rdma.ConnConfig{Handler: discardingHandler{}, Recvs: 8}) })
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, ln.Close())
		accepting.Wait()
		for _, c := range testDevice.Conns() {
			c.Abort(io.EOF)
		}
	})
	return ln.Addr().String()
}

// heapInUse returns how many heap bytes are in use.
func heapInUse() int {
	var m runtime.MemStats
	for range 3 { // the second collection empties sync.Pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// requireNoLeak checks that all connections that f makes are gone, and that the memory
// in use is as before.
func requireNoLeak(t *testing.T, f func()) {
	t.Helper()
	const slack = 2 << 20 // bytes
	var pooled []*buf.Buf // the most that connections may hold at a time
	for range 256 {
		pooled = append(pooled, buf.Default.Get(stagingSize))
	}
	for _, b := range pooled {
		b.Release()
	}
	connections, routines, before := len(testDevice.Conns()), runtime.NumGoroutine(), heapInUse()
	f()
	end := time.Now().Add(testTimeout)
	for len(testDevice.Conns()) > connections || runtime.NumGoroutine() > routines {
		require.True(t, time.Now().Before(end), "%d connections are left, and %d goroutines of %d", len(testDevice.Conns()), runtime.NumGoroutine(), routines)
		time.Sleep(5 * time.Millisecond)
	}
	assert.LessOrEqual(t, heapInUse(), before+slack)
}

// TestAbandoned checks that connections that peers abandon, in good order or
// not, at any stage of the start-up, leave nothing behind.
func TestAbandoned(t *testing.T) {
	checkLeaks(t)
	addr := acceptAll(t, Config{CRC: mpa.CRCOff, Record: 1})
	request := wiretest.Hex(t, "mpa/testdata/request-siw.hex")
	first := frameFPDU(false, sendSeg(true, 1, 0, []byte("hello")))
	half := frameFPDU(false, sendSeg(false, 1, 0, []byte("hel")))
	abandon := func(i int) {
		nc, err := net.Dial("tcp4", addr)
		if !assert.NoError(t, err) {
			return
		}
		defer nc.Close()
		if i%2 == 0 {
			_ = nc.(*net.TCPConn).SetLinger(0) // without a FIN
		}
		stage := i / 2 % (len(request) + 6)
		_, err = nc.Write(request[:min(stage, len(request))]) // after each byte of the request
		assert.NoError(t, err)
		if stage <= len(request) {
			return
		}
		if _, err := readReply(nc); !assert.NoError(t, err) {
			return
		}
		switch stage - len(request) {
		case 2:
			_, _ = nc.Write(first[:1])
		case 3:
			_, _ = nc.Write(first[:20])
		case 4:
			_, _ = nc.Write(first)
		case 5:
			_, _ = nc.Write(half)
		}
	}
	requireNoLeak(t, func() {
		var many sync.WaitGroup
		const count, atOnce = 1000, 20
		for first := range atOnce {
			many.Go(func() {
				for i := first; i < count; i += atOnce {
					abandon(i)
				}
			})
		}
		many.Wait()
	})
}

// TestSequence checks that consecutive connections leave nothing behind.
func TestSequence(t *testing.T) {
	checkLeaks(t)
	addr := acceptAll(t, Config{CRC: mpa.CRCOff})
	requireNoLeak(t, func() {
		for range racetest.Of(10_000, 1000) {
			nc, err := net.Dial("tcp4", addr)
			require.NoError(t, err)
			_ = nc.(*net.TCPConn).SetLinger(0) // no TIME_WAIT: ports are few
			in := newInbox()
			c, err := deviceWith(Config{CRC: mpa.CRCOff}).Client(t.Context(), nc, rdma.ConnConfig{Handler: in})
			require.NoError(t, err)
			_, err = c.Register(make([]byte, 100), rdma.RemoteWrite)
			require.NoError(t, err)
			done := make(completionWaiter, 1)
			require.NoError(t, c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}, Done: done}))
			require.NoError(t, done.wait(t).Err)
			c.Abort(nil)
			in.closeError(t)
		}
	})
}
