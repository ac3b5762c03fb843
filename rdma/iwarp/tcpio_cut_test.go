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

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A linkBlocker brings a connection into a state, and keeps it there until free is
// closed.
type linkBlocker struct {
	blocked, unblock, returned chan struct{}
	handsOff                   bool
	target                     atomic.Pointer[Conn] // whose next message is kept
}

// blockNext has g's next message kept.
func (h *linkBlocker) blockNext(g *servedConn, handsOff bool) {
	h.handsOff, h.returned = handsOff, make(chan struct{})
	h.target.Store(g.Conn)
	g.sendShort()
	<-h.blocked
}

func (h *linkBlocker) installHandler(c *Conn) {
	in := c.handler.(*inboxHandler)
	c.handler = handlerFunc{in, func(m rdma.Recv) {
		if h.target.CompareAndSwap(c, nil) {
			if h.handsOff {
				c.HandOffReader()
			}
			close(h.blocked)
			<-h.unblock
			defer close(h.returned)
		}
		in.Receive(m)
	}}
}

// TestCutInEachState checks that a connection ends once, however it is cut, and in each state that
// it can be in at that moment: idle, queued for the workers, served by a worker, by its own reader
// within an FPDU, or by a relieved reader. The other connections are served.
func TestCutInEachState(t *testing.T) {
	cause := errors.New("cut")
	cuts := map[string]func(t *testing.T, g *servedConn){
		"aborted": func(_ *testing.T, g *servedConn) { g.Abort(cause) },
		"reset": func(t *testing.T, g *servedConn) {
			require.NoError(t, g.nc.(*net.TCPConn).SetLinger(0))
			require.NoError(t, g.nc.Close())
		},
		"ended": func(t *testing.T, g *servedConn) { require.NoError(t, g.nc.(*net.TCPConn).CloseWrite()) },
		"faulty": func(t *testing.T, g *servedConn) {
			g.writeBytes(make([]byte, 64)) // no FPDU has this CRC
			require.NoError(t, g.nc.(*net.TCPConn).CloseWrite())
		},
		"closed": func(t *testing.T, g *servedConn) {
			go g.Close()
			require.NoError(t, g.nc.(*net.TCPConn).CloseWrite())
		},
	}
	for state, enter := range map[string]func(t *testing.T, h *linkBlocker, g *servedConn){
		"resting": func(_ *testing.T, _ *linkBlocker, g *servedConn) { g.awaitRest() },
		"ready": func(_ *testing.T, h *linkBlocker, g *servedConn) {
			l := g.sock.tcp
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.markReadyLocked() { // queued when it was cut
				go func() {
					<-h.unblock
					linkPoller.queueLink(l)
				}()
			}
		},
		"served":     func(_ *testing.T, h *linkBlocker, g *servedConn) { h.blockNext(g, false) },
		"handed off": func(_ *testing.T, h *linkBlocker, g *servedConn) { h.blockNext(g, true) },
		"owned": func(t *testing.T, _ *linkBlocker, g *servedConn) {
			g.msn++
			g.writeBytes(g.frameFPDU(sendSeg(true, g.msn, 0, []byte("never whole")))[:20])
			l := g.sock.tcp
			require.Eventually(t, func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.state == linkOwned
			}, testTimeout, time.Millisecond)
		},
	} {
		for how, cut := range cuts {
			t.Run(state+", "+how, func(t *testing.T) {
				checkLeaks(t)
				h := &linkBlocker{blocked: make(chan struct{}), unblock: make(chan struct{})}
				all := newServedConns(t, manyConns(), rawOptions{crc: true, before: h.installHandler})
				g := all[0]
				enter(t, h, g)
				cut(t, g)
				exchangeMessages(t, all)
				close(h.unblock)
				if h.returned != nil {
					<-h.returned
				}
				err := g.inbox.closeError(t)
				if how == "aborted" {
					assert.ErrorIs(t, err, cause)
				}
				g.nc.Close()
				requireSoon(t, g.done, "the end")
				exchangeMessages(t, all)
				assert.Empty(t, g.inbox.closed, "once")
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
			checkLeaks(t)
			disableGuard(t)
			all := newServedConns(t, 4*manyConns(), rawOptions{crc: crc})
			good, bad := all[:manyConns()], all[manyConns():]
			for _, g := range bad {
				g.msn++
				g.sendSegments(sendSeg(true, g.msn+1, 0, nil)) // an MSN too far
			}
			exchangeMessages(t, good)
			for _, g := range bad {
				parseTerminate(t, g.readSegment())
				g.expectEOF()
				var f *Fault
				assert.ErrorAs(t, g.inbox.closeError(t), &f)
			}
			exchangeMessages(t, good)
		})
	}
}

// TestProtectedBesideWorkers checks that connections that are protected below MPA, which have
// readers of their own, and connections that workers serve do not hold each other up or mix
// their memory, while all are busy.
func TestProtectedBesideWorkers(t *testing.T) {
	checkLeaks(t)
	echo := func(o pairOptions) (a endpoint) {
		var b *Conn
		ready := make(chan struct{})
		a, e := connectPair(t, withHandler(o, func(m rdma.Recv) {
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
	for i := range 2 * manyConns() {
		o := pairOptions{recvSize: 64 << 10}
		switch i % 4 {
		case 0:
			o.initiator, o.responder = Config{Secure: fakeCipher}, Config{Secure: fakeCipher}
		case 1:
			o.initiator, o.responder = Config{CRC: mpa.CRCOff}, Config{CRC: mpa.CRCOff}
		case 2:
			o.initiator, o.responder = Config{Secure: fakeKernelTLS}, Config{Secure: fakeKernelTLS}
		}
		e := echo(o)
		busy.Go(func() {
			for n := range 40 {
				want := patternBytes(1 + (i*977+n*1543)%(60<<10))
				if !assert.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}})) {
					return
				}
				select {
				case m := <-e.inbox.recvs:
					assert.True(t, string(want) == string(m.Buf.B), "connection %d, message %d", i, n)
					m.Buf.Release()
				case <-time.After(testTimeout):
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
func withHandler(o pairOptions, receive func(rdma.Recv)) pairOptions {
	o.handlers[1] = handlerFunc{newInbox(), receive}
	return o
}
