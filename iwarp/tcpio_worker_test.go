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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A guest is a connection that workers serve, and its raw peer.
type guest struct {
	endpoint
	*rawPeer
	msn uint32
}

// many returns a number of connections that is more than a few for the
// processors in use: see turnCount.
func many() int { return 8 + runtime.GOMAXPROCS(0) }

// guests returns n connections at rest. Enough of them are busy afterwards that
// none has an owner because it is alone.
func guests(t *testing.T, n int, o raw) []*guest {
	t.Helper()
	o.initiator, o.recvs = true, 1000
	all := make([]*guest, n)
	for i := range all {
		e, p := againstRaw(t, o)
		all[i] = &guest{endpoint: e, rawPeer: p}
	}
	for range 3 {
		for _, g := range all {
			g.say()
			g.in.next(t)
		}
	}
	for _, g := range all {
		g.rests()
	}
	return all
}

// say sends a short message.
func (g *guest) say() {
	g.t.Helper()
	g.msn++
	g.send(sendSeg(true, g.msn, 0, []byte("short")))
}

// rests waits until the connection has no goroutine.
func (g *guest) rests() {
	g.t.Helper()
	l := g.sock.tcp
	require.Eventually(g.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.state == resting
	}, patience, time.Millisecond)
}

// noGuard switches the guard off, so that only a worker that comes back can
// serve the next link.
func noGuard(t *testing.T) {
	set := func(on bool) {
		idle.mu.Lock()
		defer idle.mu.Unlock()
		if idle.guarded = on; on && idle.guard != nil {
			idle.guard.Stop()
		}
	}
	set(true)
	t.Cleanup(func() { set(false) })
}

const rounds = 5 // of serveAll

// serveAll checks that all connections but the first exchange messages.
func serveAll(t *testing.T, all []*guest) {
	t.Helper()
	for range rounds {
		for _, g := range all[1:] {
			g.say()
			assert.Equal(t, "short", string(g.in.next(t)))
		}
	}
}

// TestRestingConnection checks that connections at rest have neither goroutines
// nor buffers.
func TestRestingConnection(t *testing.T) {
	world(t)
	bufs, before := buf.Default.Out(), goroutines()
	guests(t, 50, raw{})
	assert.Eventually(t, func() bool { return goroutines() <= before+1 }, patience, time.Millisecond) // that of Eventually
	assert.Eventually(t, func() bool { return buf.Default.Out() <= bufs }, patience, time.Millisecond)
}

// TestOneReadEachMessage checks that a message of one of many busy connections
// costs one system call to read it.
func TestOneReadEachMessage(t *testing.T) {
	world(t)
	noGuard(t)
	var reads atomic.Int64
	all := guests(t, many(), raw{before: func(c *Conn) {
		d := &c.sock.tcp.rd
		system := d.call
		d.call = func(flags int) (int, unix.Errno) { reads.Add(1); return system(flags) }
	}})
	reads.Store(0)
	serveAll(t, all)
	for _, g := range all {
		g.rests()
	}
	assert.EqualValues(t, rounds*(len(all)-1), reads.Load())
}

// TestDribblingPeer checks that a peer that stops within an FPDU does not keep
// a worker from the other connections.
func TestDribblingPeer(t *testing.T) {
	world(t)
	noGuard(t)
	all := guests(t, many(), raw{})
	slow := all[0]
	slow.msn++
	whole := slow.fpdu(sendSeg(true, slow.msn, 0, []byte("at last")))
	for part := range slices.Chunk(whole, 9) {
		slow.write(part)
		serveAll(t, all)
	}
	assert.Equal(t, "at last", string(slow.in.next(t)))
	slow.rests()
}

// TestDeafPeer checks that a peer that reads no replies does not keep a worker
// from the other connections, and is still read.
func TestDeafPeer(t *testing.T) {
	world(t)
	noGuard(t)
	mem := pattern(2 << 20)
	var replies atomic.Bool
	all := guests(t, many(), raw{before: func(c *Conn) {
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
		all[0].say()
		all[0].in.next(t)
	}
	for _, g := range all {
		g.rests()
	}
	replies.Store(false)
	serveAll(t, all)
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
			world(t)
			var keep atomic.Bool
			kept, free := make(chan struct{}), make(chan struct{})
			all := guests(t, many(), raw{before: func(c *Conn) {
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
				noGuard(t)
			}
			keep.Store(true)
			all[0].say()
			<-kept
			serveAll(t, all)
			if handsOff {
				all[0].say() // another goroutine reads on
				assert.Equal(t, "short", string(all[0].in.next(t)))
			}
			close(free)
			assert.Equal(t, "short", string(all[0].in.next(t)))
			serveAll(t, all)
		})
	}
}

// TestEndAtRest checks that connections at rest notice their end: by the peer,
// and by Abort.
func TestEndAtRest(t *testing.T) {
	world(t)
	noGuard(t)
	all := guests(t, many(), raw{})
	require.NoError(t, all[0].nc.Close())
	assert.Error(t, all[0].in.end(t))
	all[1].Abort(io.ErrNoProgress)
	assert.ErrorIs(t, all[1].in.end(t), io.ErrNoProgress)
	serveAll(t, all[1:]) // but for the aborted one
}

// TestWorkersAnswersLeaveTogether checks that the answers to messages that a
// worker has read together leave together, although goroutines answer.
func TestWorkersAnswersLeaveTogether(t *testing.T) {
	world(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // no answer is posted while the worker still hands over
	var calls atomic.Int32
	all := guests(t, many(), raw{before: func(c *Conn) {
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
		all[0].send(segments...)
		for range n {
			assert.Equal(t, "call", string(all[0].in.next(t)))
			assert.Equal(t, "reply", string(all[0].segment()[18:]))
		}
		least = min(least, calls.Load())
		serveAll(t, all)
	}
	assert.Less(t, least, int32(n)) // the worker may run before some answers
}

// TestUrgentData checks that urgent data keep nothing from being read: a read
// ends before the urgent byte, although the socket has more.
func TestUrgentData(t *testing.T) {
	world(t)
	all := guests(t, many(), raw{})
	for range rounds {
		for _, g := range all {
			func() {
				idle.mu.Lock() // no worker reads before all has arrived
				defer idle.mu.Unlock()
				g.say()
				urge(t, g.nc)
				g.say()
			}()
			for range 2 {
				assert.Equal(t, "short", string(g.in.next(t)))
			}
		}
	}
}

// urge sends a byte of urgent data.
func urge(t *testing.T, nc net.Conn) {
	t.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		assert.NoError(t, unix.Send(int(fd), []byte{0}, unix.MSG_OOB))
	}))
}
