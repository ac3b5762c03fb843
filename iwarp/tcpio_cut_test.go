package iwarp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A linkHolder brings a connection into a state, and keeps it there until free is
// closed.
type linkHolder struct {
	kept, free, gone chan struct{}
	handsOff         bool
	keep             atomic.Pointer[Conn] // whose next message is kept
}

// holds has g's next message kept.
func (h *linkHolder) holds(g *guest, handsOff bool) {
	h.handsOff, h.gone = handsOff, make(chan struct{})
	h.keep.Store(g.Conn)
	g.say()
	<-h.kept
}

func (h *linkHolder) before(c *Conn) {
	in := c.handler.(*inboxHandler)
	c.handler = handlerFunc{in, func(m rdma.Recv) {
		if h.keep.CompareAndSwap(c, nil) {
			if h.handsOff {
				c.HandOffReader()
			}
			close(h.kept)
			<-h.free
			defer close(h.gone)
		}
		in.Receive(m)
	}}
}

// TestCutInEachState checks that a connection ends once, however it is cut, and whoever
// has it at that moment: nobody, the queue of the workers, a worker, its own reader
// within an FPDU, or a reader that was relieved. The other connections are served.
func TestCutInEachState(t *testing.T) {
	cause := errors.New("cut")
	cuts := map[string]func(t *testing.T, g *guest){
		"aborted": func(_ *testing.T, g *guest) { g.Abort(cause) },
		"reset": func(t *testing.T, g *guest) {
			require.NoError(t, g.nc.(*net.TCPConn).SetLinger(0))
			require.NoError(t, g.nc.Close())
		},
		"ended": func(t *testing.T, g *guest) { require.NoError(t, g.nc.(*net.TCPConn).CloseWrite()) },
		"faulty": func(t *testing.T, g *guest) {
			g.write(make([]byte, 64)) // no FPDU has this CRC
			require.NoError(t, g.nc.(*net.TCPConn).CloseWrite())
		},
		"closed": func(t *testing.T, g *guest) {
			go g.Close()
			require.NoError(t, g.nc.(*net.TCPConn).CloseWrite())
		},
	}
	for state, enter := range map[string]func(t *testing.T, h *linkHolder, g *guest){
		"resting": func(_ *testing.T, _ *linkHolder, g *guest) { g.rests() },
		"ready": func(_ *testing.T, h *linkHolder, g *guest) {
			l := g.sock.tcp
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.readyLocked() { // queued when it was cut
				go func() {
					<-h.free
					idle.push(l)
				}()
			}
		},
		"served":     func(_ *testing.T, h *linkHolder, g *guest) { h.holds(g, false) },
		"handed off": func(_ *testing.T, h *linkHolder, g *guest) { h.holds(g, true) },
		"owned": func(t *testing.T, _ *linkHolder, g *guest) {
			g.msn++
			g.write(g.fpdu(sendSeg(true, g.msn, 0, []byte("never whole")))[:20])
			l := g.sock.tcp
			require.Eventually(t, func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.state == owned
			}, patience, time.Millisecond)
		},
	} {
		for how, cut := range cuts {
			t.Run(state+", "+how, func(t *testing.T) {
				world(t)
				h := &linkHolder{kept: make(chan struct{}), free: make(chan struct{})}
				all := guests(t, many(), raw{crc: true, before: h.before})
				g := all[0]
				enter(t, h, g)
				cut(t, g)
				serveAll(t, all)
				close(h.free)
				if h.gone != nil {
					<-h.gone
				}
				err := g.in.end(t)
				if how == "aborted" {
					assert.ErrorIs(t, err, cause)
				}
				g.nc.Close()
				within(t, g.over, "the end")
				serveAll(t, all)
				assert.Empty(t, g.in.closed, "once")
			})
		}
	}
}

// TestTerminateStorm checks that many connections that end by Terminates at once hold up
// no other connection, although each waits for its peer, and that each peer gets its
// Terminate.
func TestTerminateStorm(t *testing.T) {
	for _, crc := range []bool{false, true} {
		t.Run(fmt.Sprintf("crc %v", crc), func(t *testing.T) {
			world(t)
			noGuard(t)
			all := guests(t, 4*many(), raw{crc: crc})
			good, bad := all[:many()], all[many():]
			for _, g := range bad {
				g.msn++
				g.send(sendSeg(true, g.msn+1, 0, nil)) // an MSN too far
			}
			serveAll(t, good)
			for _, g := range bad {
				parseTerminate(t, g.segment())
				g.eof()
				var f *Fault
				assert.ErrorAs(t, g.in.end(t), &f)
			}
			serveAll(t, good)
		})
	}
}

// TestProtectedBesideWorkers checks that connections that are protected below MPA, which have
// readers of their own, and connections that workers serve do not hold each other up or mix
// their memory, while all are busy.
func TestProtectedBesideWorkers(t *testing.T) {
	world(t)
	echo := func(o options) (a endpoint) {
		var b *Conn
		ready := make(chan struct{})
		a, e := pair(t, withHandler(o, func(m rdma.Recv) {
			<-ready
			copied := append([]byte(nil), m.Buf.B...)
			m.Buf.Release()
			_ = b.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{copied}})
			_ = b.PostRecv(1)
		}))
		b = e.Conn
		close(ready)
		return a
	}
	var busy sync.WaitGroup
	for i := range 2 * many() {
		o := options{recvSize: 64 << 10}
		switch i % 4 {
		case 0:
			o.initiator, o.responder = Config{Secure: scrambled}, Config{Secure: scrambled}
		case 1:
			o.initiator, o.responder = Config{CRC: mpa.CRCOff}, Config{CRC: mpa.CRCOff}
		case 2:
			o.initiator, o.responder = Config{Secure: byKernel}, Config{Secure: byKernel}
		}
		e := echo(o)
		busy.Go(func() {
			for n := range 40 {
				want := pattern(1 + (i*977+n*1543)%(60<<10))
				if !assert.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}})) {
					return
				}
				select {
				case m := <-e.in.recvs:
					assert.True(t, string(want) == string(m.Buf.B), "connection %d, message %d", i, n)
					m.Buf.Release()
				case <-time.After(patience):
					assert.Fail(t, "no answer", "connection %d, message %d", i, n)
					return
				}
				_ = e.PostRecv(1)
			}
		})
	}
	busy.Wait()
}

// withHandler returns options whose responder receives by a function.
func withHandler(o options, receive func(rdma.Recv)) options {
	o.handlers[1] = handlerFunc{newInbox(), receive}
	return o
}
