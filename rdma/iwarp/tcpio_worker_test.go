package iwarp

import (
	"io"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A servedConn is a connection that workers serve, and its raw peer.
type servedConn struct {
	endpoint
	*rawPeer
	msn uint32
}

// manyConns returns how many connections are more than a few for the processors
// in use: see waitCount.
func manyConns() int { return 8 + runtime.GOMAXPROCS(0) }

// newServedConns returns n connections at rest. Enough are busy afterwards that none has an owner
// because it is alone.
func newServedConns(t *testing.T, n int, o rawOptions) []*servedConn {
	t.Helper()
	o.initiator, o.recvs = true, 1000
	all := make([]*servedConn, n)
	for i := range all {
		e, p := connectRaw(t, o)
		all[i] = &servedConn{endpoint: e, rawPeer: p}
	}
	for range 3 {
		for _, g := range all {
			g.sendShort()
			g.inbox.nextMessage(t)
		}
	}
	for _, g := range all {
		g.awaitRest()
	}
	return all
}

// sendShort sends a short message.
func (g *servedConn) sendShort() {
	g.t.Helper()
	g.msn++
	g.sendSegments(sendSeg(true, g.msn, 0, []byte("short")))
}

// awaitRest waits until the connection has no goroutine.
func (g *servedConn) awaitRest() {
	g.t.Helper()
	l := g.sock.tcp
	require.Eventually(g.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.state == linkResting
	}, testTimeout, time.Millisecond)
}

// disableGuard switches the guard off, so that only a worker that comes back can
// serve the next link.
func disableGuard(t *testing.T) {
	set := func(on bool) {
		linkPoller.mu.Lock()
		defer linkPoller.mu.Unlock()
		if linkPoller.guarded = on; on && linkPoller.guard != nil {
			linkPoller.guard.Stop()
		}
	}
	set(true)
	t.Cleanup(func() { set(false) })
}

const rounds = 5 // calls to exchangeMessages

// exchangeMessages checks that all connections but the first exchange messages.
func exchangeMessages(t *testing.T, all []*servedConn) {
	t.Helper()
	for range rounds {
		for _, g := range all[1:] {
			g.sendShort()
			assert.Equal(t, "short", string(g.inbox.nextMessage(t)))
		}
	}
}

// exchangeInTurn checks that the connections exchange a message each, while all others rest. So the
// waits are counted in the order of the connections, and none is one of few (see shouldBeOwned).
func exchangeInTurn(t *testing.T, all []*servedConn) {
	t.Helper()
	for _, g := range all {
		g.sendShort()
		assert.Equal(t, "short", string(g.inbox.nextMessage(t)))
		g.awaitRest()
	}
}

// TestRestingConnection checks that connections at rest have neither goroutines
// nor buffers.
func TestRestingConnection(t *testing.T) {
	checkLeaks(t)
	bufs, before := buf.Default.Out(), countGoroutines()
	newServedConns(t, 50, rawOptions{})
	assert.Eventually(t, func() bool { return countGoroutines() <= before+1 }, testTimeout, time.Millisecond) // Eventually's own goroutine
	assert.Eventually(t, func() bool { return buf.Default.Out() <= bufs }, testTimeout, time.Millisecond)
}

// TestOneReadEachMessage checks that a message on one among many busy
// connections costs one system call to read it.
func TestOneReadEachMessage(t *testing.T) {
	checkLeaks(t)
	disableGuard(t)
	var reads atomic.Int64
	all := newServedConns(t, manyConns(), rawOptions{before: func(c *Conn) {
		d := &c.sock.tcp.rd
		system := d.call
		d.call = func(flags int) (int, unix.Errno) { reads.Add(1); return system(flags) }
	}})
	exchangeInTurn(t, all)
	reads.Store(0)
	for range rounds {
		exchangeInTurn(t, all[1:])
	}
	assert.EqualValues(t, rounds*(len(all)-1), reads.Load())
}

// TestDribblingPeer checks that a peer that stops within an FPDU does not keep
// a worker from the other connections.
func TestDribblingPeer(t *testing.T) {
	checkLeaks(t)
	disableGuard(t)
	all := newServedConns(t, manyConns(), rawOptions{})
	slow := all[0]
	slow.msn++
	whole := slow.frameFPDU(sendSeg(true, slow.msn, 0, []byte("at last")))
	for part := range slices.Chunk(whole, 9) {
		slow.writeBytes(part)
		exchangeMessages(t, all)
	}
	assert.Equal(t, "at last", string(slow.inbox.nextMessage(t)))
	slow.awaitRest()
}

// TestDeafPeer checks that a peer that reads no replies does not keep a worker
// from the other connections, and is still read.
func TestDeafPeer(t *testing.T) {
	checkLeaks(t)
	disableGuard(t)
	mem := patternBytes(2 << 20)
	var replies atomic.Bool
	all := newServedConns(t, manyConns(), rawOptions{before: func(c *Conn) {
		in := c.handler.(*inboxHandler)
		c.handler = handlerFunc{in, func(m rdma.Recv) {
			if replies.Load() {
				_ = c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{mem}})
			}
			in.Receive(m)
		}}
	}})
	replies.Store(true)
	for range 8 {
		all[0].sendShort()
		all[0].inbox.nextMessage(t)
	}
	for _, g := range all {
		g.awaitRest()
	}
	replies.Store(false)
	exchangeMessages(t, all)
}

// A handlerFunc receives by a function.
type handlerFunc struct {
	*inboxHandler
	receive func(rdma.Recv)
}

func (h handlerFunc) Receive(m rdma.Recv) { h.receive(m) }

// TestKeptWorker checks that the other connections are served while a worker is
// kept by an upper layer: at once if the upper layer hands the reading over,
// otherwise because the guard calls another worker.
func TestKeptWorker(t *testing.T) {
	for name, handsOff := range map[string]bool{"handed off": true, "guarded": false} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			var keep atomic.Bool
			kept, free := make(chan struct{}), make(chan struct{})
			all := newServedConns(t, manyConns(), rawOptions{before: func(c *Conn) {
				in := c.handler.(*inboxHandler)
				c.handler = handlerFunc{in, func(m rdma.Recv) {
					if keep.CompareAndSwap(true, false) {
						if handsOff {
							c.HandOffReader()
						}
						close(kept)
						<-free
					}
					in.Receive(m)
				}}
			}})
			if handsOff {
				disableGuard(t)
			}
			keep.Store(true)
			all[0].sendShort()
			<-kept
			exchangeMessages(t, all)
			if handsOff {
				all[0].sendShort() // another goroutine reads on
				assert.Equal(t, "short", string(all[0].inbox.nextMessage(t)))
			}
			close(free)
			assert.Equal(t, "short", string(all[0].inbox.nextMessage(t)))
			exchangeMessages(t, all)
		})
	}
}

// TestKeptWorkersDoNotCount checks that workers which do not come back do not count as active:
// others could not help with many links.
func TestKeptWorkersDoNotCount(t *testing.T) {
	checkLeaks(t)
	var keep atomic.Int32
	free := make(chan struct{})
	all := newServedConns(t, manyConns(), rawOptions{before: func(c *Conn) {
		in := c.handler.(*inboxHandler)
		c.handler = handlerFunc{in, func(m rdma.Recv) {
			if keep.Add(-1) >= 0 {
				<-free
			}
			in.Receive(m)
		}}
	}})
	n := runtime.GOMAXPROCS(0) + 1
	keep.Store(int32(n))
	for _, g := range all[:n] {
		g.sendShort()
	}
	require.Eventually(t, func() bool { return keep.Load() <= 0 }, testTimeout, time.Millisecond)
	require.Eventually(t, func() bool {
		all[n].sendShort()
		all[n].inbox.nextMessage(t)
		linkPoller.mu.Lock()
		defer linkPoller.mu.Unlock()
		return linkPoller.active <= 1
	}, testTimeout, time.Millisecond)
	close(free)
	for _, g := range all[:n] {
		assert.Equal(t, "short", string(g.inbox.nextMessage(t)))
	}
	exchangeMessages(t, all)
	require.Eventually(t, func() bool {
		linkPoller.mu.Lock()
		defer linkPoller.mu.Unlock()
		return linkPoller.active == 1 && linkPoller.watching
	}, testTimeout, time.Millisecond)
}

// TestEndAtRest checks that connections at rest notice their end: by the peer,
// and by Abort.
func TestEndAtRest(t *testing.T) {
	checkLeaks(t)
	disableGuard(t)
	all := newServedConns(t, manyConns(), rawOptions{})
	require.NoError(t, all[0].nc.Close())
	assert.Error(t, all[0].inbox.closeError(t))
	all[1].Abort(io.ErrNoProgress)
	assert.ErrorIs(t, all[1].inbox.closeError(t), io.ErrNoProgress)
	exchangeMessages(t, all[1:]) // but for the aborted one
}

// TestWorkersAnswersLeaveTogether checks that the answers to messages that a
// worker has read together leave together, although goroutines answer.
func TestWorkersAnswersLeaveTogether(t *testing.T) {
	checkLeaks(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // no answer is posted while the worker still hands over
	var calls atomic.Int32
	all := newServedConns(t, manyConns(), rawOptions{before: func(c *Conn) {
		countSends(&calls)(c)
		in := c.handler.(*inboxHandler)
		c.handler = handlerFunc{in, func(m rdma.Recv) {
			if string(m.Buf.B) == "call" {
				go func() { _ = c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("reply")}}) }()
			}
			in.Receive(m)
		}}
	}})
	const n = 16
	least := int32(n)
	for range rounds {
		calls.Store(0)
		var segments [][]byte
		for range n {
			all[0].msn++
			segments = append(segments, sendSeg(true, all[0].msn, 0, []byte("call")))
		}
		all[0].sendSegments(segments...)
		for range n {
			assert.Equal(t, "call", string(all[0].inbox.nextMessage(t)))
			assert.Equal(t, "reply", string(all[0].readSegment()[18:]))
		}
		least = min(least, calls.Load())
		exchangeMessages(t, all)
	}
	assert.Less(t, least, int32(n)) // the worker may run before some answers
}

// TestUrgentData checks that urgent data keep nothing from being read: a read
// ends before the urgent byte, although the socket has more.
func TestUrgentData(t *testing.T) {
	checkLeaks(t)
	all := newServedConns(t, manyConns(), rawOptions{})
	for range rounds {
		for _, g := range all {
			func() {
				linkPoller.mu.Lock() // no worker reads before all has arrived
				defer linkPoller.mu.Unlock()
				g.sendShort()
				sendUrgent(t, g.nc)
				g.sendShort()
			}()
			for range 2 {
				assert.Equal(t, "short", string(g.inbox.nextMessage(t)))
			}
		}
	}
}

// sendUrgent sends an urgent byte.
func sendUrgent(t *testing.T, nc net.Conn) {
	t.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		assert.NoError(t, unix.Send(int(fd), []byte{0}, unix.MSG_OOB))
	}))
}
