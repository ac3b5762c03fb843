package iwarp

import (
	"context"
	"math/bits"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestRDMAPLocalCompletion checks that a Send or a Write completes when TCP has
// accepted all its bytes: not before, and without waiting for the peer to
// process them (R5040-5.5-14-1, R5040-5.5-9-1).
func TestRDMAPLocalCompletion(t *testing.T) {
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
			done := make(completionWaiter, 1)
			require.NoError(t, e.Post(rdma.WR{Op: op, Data: [][]byte{[]byte("hello")}, Done: done}))
			p.readBytes(10)
			synctest.Wait()
			assert.Empty(t, done)
			n := len(frameFPDU(false, sendSeg(true, 1, 0, []byte("hello"))))
			if op == rdma.OpWrite {
				n = len(frameFPDU(false, writeSeg(true, 0, 0, []byte("hello"))))
			}
			p.readBytes(n - 10)
			synctest.Wait()
			require.Len(t, done, 1)
			assert.NoError(t, done.wait(t).Err)
		})
	}
}

// TestRDMAPReadCompletion checks that a Read completes with its response's last
// byte and needs no further exchange (R5040-5.5-19-1, R5040-5.5-20-3), and that
// Reads complete in their requests' order (R5040-5.5-11-1).
func TestRDMAPReadCompletion(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		done, sinks := make(completionWaiter, 3), make([][]byte, 3)
		var reqs []rdmap.ReadRequest
		for i := range sinks {
			sinks[i] = make([]byte, 4)
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{sinks[i]}, Done: done, ID: uint64(i)}))
			reqs = append(reqs, p.expectReadRequest())
		}
		for i, r := range reqs {
			whole := frameFPDU(false, responseSeg(true, r.SinkSTag, r.SinkTO+2, []byte{'c', byte(i)}))
			p.sendSegments(responseSeg(false, r.SinkSTag, r.SinkTO, []byte("ab")))
			p.writeBytes(whole[:len(whole)-1])
			synctest.Wait()
			assert.Empty(t, done)
			p.writeBytes(whole[len(whole)-1:])
			assert.Equal(t, rdma.Completion{ID: uint64(i), Op: rdma.OpRead}, done.wait(t))
			assert.Equal(t, []byte{'a', 'b', 'c', byte(i)}, sinks[i])
		}
		p.expectSilence(1) // no further exchange
	})
}

// TestRDMAPReadNotBefore checks that a Read Request has no effect before it has
// arrived whole, even for zero bytes. The memory is read only then
// (R5040-5.5-12-1, R5040-5.5-17-1, R5040-App.B-2).
func TestRDMAPReadNotBefore(t *testing.T) {
	for _, size := range []uint32{0, 3} {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
			r, err := e.Register([]byte("old"), rdma.RemoteRead|rdma.RemoteWrite)
			require.NoError(t, err)
			request := frameFPDU(false, requestSeg(1, rdmap.ReadRequest{Size: size, SourceSTag: r.STag()}))
			p.sendSegments(writeSeg(true, r.STag(), 0, []byte("new")))
			p.writeBytes(request[:len(request)-1])
			p.expectSilence(1)
			p.writeBytes(request[len(request)-1:])
			_, got := p.readResponse()
			assert.Equal(t, "new"[:size], string(got)) // R5040-5.2.1-16
		})
	}
}

// pausedHandler is an upper layer that blocks in Receive until the test lets it
// continue.
type pausedHandler struct {
	*inboxHandler
	proceed chan struct{}
}

func (h pausedHandler) Receive(m rdma.Recv) {
	h.inboxHandler.Receive(m)
	<-h.proceed
}

// TestRDMAPReadBehindSend checks that a Read after a Send is answered only when
// the Send has been delivered (R5040-App.B-1), and that Sends are delivered one
// after the other, in order (R5040-5.5-10-1).
func TestRDMAPReadBehindSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pausedHandler{proceed: make(chan struct{})}
		e, p := connectRaw(t, rawOptions{pipe: true, recvs: 2, before: func(c *Conn) {
			h.inboxHandler = c.handler.(*inboxHandler)
			c.handler = h
		}})
		p.sendSegments(sendSeg(true, 1, 0, []byte("one")), sendSeg(true, 2, 0, []byte("two")), requestSeg(1, rdmap.ReadRequest{}))
		for _, want := range []string{"one", "two"} {
			assert.Equal(t, want, string(e.inbox.nextMessage(t)))
			synctest.Wait()
			assert.Empty(t, e.inbox.recvs)
			p.expectSilence(1)
			h.proceed <- struct{}{}
		}
		p.readResponse()
	})
}

// TestRDMAPSolicited checks that a solicited event or an error wakes a
// goroutine in WaitSolicited, and that other messages do not (R5040-5.3-6).
func TestRDMAPSolicited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, woken := rdma.NewReceiveQueue(), make(chan error)
		e, p := connectRaw(t, rawOptions{pipe: true, recvs: 9, before: func(c *Conn) { c.handler = q }})
		r, err := e.Register(make([]byte, 1), rdma.RemoteWrite)
		require.NoError(t, err)
		solicit := func(ctx context.Context) { woken <- q.WaitSolicited(ctx) }
		go solicit(t.Context())
		p.sendSegments(sendSeg(true, 1, 0, nil), writeSeg(true, r.STag(), 0, []byte{1}), requestSeg(1, rdmap.ReadRequest{}))
		p.readResponse()
		synctest.Wait()
		select {
		case <-woken:
			assert.Fail(t, "no event was requested")
		default:
		}
		p.sendSegments(withByte(sendSeg(true, 2, 0, nil), 1, 0x45))
		require.NoError(t, <-woken)
		for range 2 {
			m, err := q.Wait(t.Context())
			require.NoError(t, err)
			m.Buf.Release()
		}
		go solicit(t.Context())
		p.sendSegments(sendSeg(true, 9, 0, nil))
		p.readTerminate()
		assert.True(t, isFault(<-woken))
	})
}

// TestRDMAPOverrun checks that a completion queue which overruns affects only
// its own connection (R5040-8.1.1-10-1, R5040-8.1.2-5-1).
func TestRDMAPOverrun(t *testing.T) {
	checkLeaks(t)
	small, large := rdma.NewCompletionQueue(1), rdma.NewCompletionQueue(4)
	e, _ := connectRaw(t, rawOptions{initiator: true})
	f, _ := connectRaw(t, rawOptions{initiator: true})
	for range 3 {
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Done: small}))
		require.NoError(t, f.Post(rdma.WR{Op: rdma.OpSend, Done: large}))
	}
	for range 3 {
		c, err := large.Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Err)
	}
	_, err := small.Wait(t.Context())
	require.NoError(t, err)
	_, err = small.Wait(t.Context())
	require.ErrorIs(t, err, rdma.ErrOverrun)
}

// TestRDMAPSTags checks that STags are drawn from the full 32 bits, and that no
// two are the same (R5040-8.1.1-8-1, R5040-8.1.1-8-2, R8166-8.1.2-1).
func TestRDMAPSTags(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{})
	const n = 1 << 12
	var ones [32]int
	var sixteenths [16]int
	near, last := 0, rdma.STag(0)
	seen := make(map[rdma.STag]bool)
	for range n {
		r, err := e.Register(nil, rdma.RemoteRead)
		require.NoError(t, err)
		s := r.STag()
		assert.False(t, seen[s])
		seen[s] = true
		sixteenths[s>>28]++
		for bit := range ones {
			ones[bit] += int(s >> bit & 1)
		}
		near += 32 - bits.OnesCount32(uint32(s^last)) // bits shared with the previous STag
		last = s
	}
	for _, k := range ones {
		assert.InDelta(t, n/2, k, 320) // ten standard deviations
	}
	for _, k := range sixteenths {
		assert.InDelta(t, n/16, k, 155)
	}
	assert.InDelta(t, 16*n, near, 1810)
}
