package iwarp

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// countSends counts the system calls that send.
func countSends(calls *atomic.Int32) func(*Conn) {
	return func(c *Conn) {
		send := c.sock.tcp.wr.call
		c.sock.tcp.wr.call = func(flags int) (int, unix.Errno) {
			calls.Add(1)
			return send(flags)
		}
	}
}

// TestAnswersLeaveTogether checks that the answers to messages that arrived
// together leave some at a time, whether the reader answers or a goroutine
// that the reader wakes.
func TestAnswersLeaveTogether(t *testing.T) {
	defer func(usual int) { firstCorked = usual }(firstCorked)
	firstCorked = 6 // on one processor, too
	for name, answer := range map[string]func(func()){
		"by the reader":  func(f func()) { f() },
		"by a goroutine": func(f func()) { go f() },
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			const n, rounds, writes = 40, 10, 3 // with 6, 12 and 22 answers
			var calls atomic.Int32
			e, p := connectRaw(t, rawOptions{recvs: n * rounds, before: func(c *Conn) {
				countSends(&calls)(c)
				c.handler = replyHandler{c, answer}
			}})
			for round := range uint32(rounds) {
				var segments [][]byte
				for i := range uint32(n) {
					segments = append(segments, sendSeg(true, n*round+i+1, 0, []byte("call")))
				}
				p.sendSegments(segments...)
				for range n {
					assert.Equal(t, "reply", string(p.readSegment()[18:]))
				}
			}
			if name == "by the reader" {
				assert.EqualValues(t, rounds*writes, calls.Load())
			} else { // the reader may run before some answers
				assert.LessOrEqual(t, calls.Load(), int32(rounds*n/2))
			}
			e.Abort(nil)
		})
	}
}

// TestFirstAnswersLeave checks that the answers to the first messages in a read
// arrive while the upper layer works on a later one, whatever the messages are.
func TestFirstAnswersLeave(t *testing.T) {
	const corked, n = 6, 16
	defer func(usual int) { firstCorked = usual }(firstCorked)
	firstCorked = corked // on one processor, too
	for _, tt := range []struct {
		name     string
		early    int // answers from the upper layer
		segments func(*testing.T, *delayedReplier, *rawPeer) [][]byte
	}{
		{"Sends", corked, func(_ *testing.T, _ *delayedReplier, _ *rawPeer) (all [][]byte) {
			for i := range uint32(n) {
				all = append(all, sendSeg(true, i+1, 0, []byte("call")))
			}
			return all
		}},
		{"RDMA Read Responses", corked, func(t *testing.T, h *delayedReplier, p *rawPeer) (all [][]byte) {
			for range n {
				require.NoError(t, h.c.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: h}))
			}
			for range n {
				req := p.expectReadRequest()
				all = append(all, responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}))
			}
			return all
		}},
		{"RDMA Read Requests", 0, func(t *testing.T, h *delayedReplier, _ *rawPeer) (all [][]byte) {
			r, err := h.c.Register([]byte("reply"), rdma.RemoteRead)
			require.NoError(t, err)
			for i := range uint32(corked) {
				all = append(all, requestSeg(i+1, rdmap.ReadRequest{Size: 5, SourceSTag: r.STag()}))
			}
			return append(all, sendSeg(true, 1, 0, []byte("call")))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			h := &delayedReplier{early: tt.early, proceed: make(chan struct{}, 1)}
			defer close(h.proceed)
			_, p := connectRaw(t, rawOptions{initiator: true, recvs: n, ord: n, before: func(c *Conn) {
				h.inboxHandler, h.c, c.handler = c.handler.(*inboxHandler), c, h
			}})
			all := tt.segments(t, h, p)
			p.sendSegments(all...)
			for i := range all {
				if i == corked {
					h.proceed <- struct{}{}
				}
				answer := p.readSegment()
				assert.Equal(t, "reply", string(answer[len(answer)-5:]))
			}
		})
	}
}

// A delayedReplier answers every message and every completion, all but some early ones after
// the test allows it.
type delayedReplier struct {
	*inboxHandler
	c       *Conn
	early   int
	proceed chan struct{}
}

func (h *delayedReplier) Receive(m rdma.Recv) {
	m.Buf.Release()
	h.reply()
}

func (h *delayedReplier) Complete(rdma.Completion) { h.reply() }

func (h *delayedReplier) reply() {
	if h.early == 0 {
		<-h.proceed
	}
	h.early--
	_ = h.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("reply")}})
}

// An replyHandler answers every message.
type replyHandler struct {
	c        *Conn
	schedule func(func())
}

func (a replyHandler) Receive(m rdma.Recv) {
	m.Buf.Release()
	a.schedule(func() { _ = a.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("reply")}}) })
}

func (a replyHandler) Closed(error) {}

// TestDeregisterBehindRead checks that the reader itself may wait for a
// response that is held back: it deregisters that response's memory.
func TestDeregisterBehindRead(t *testing.T) {
	checkLeaks(t)
	regions := make(chan rdma.Region, 1)
	e, p := connectRaw(t, rawOptions{recvs: 1, before: func(c *Conn) {
		c.handler = deregisterer{c.handler.(*inboxHandler), regions}
	}})
	r, err := e.Register([]byte("data"), rdma.RemoteRead)
	require.NoError(t, err)
	regions <- r
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}), sendSeg(true, 1, 0, []byte("done")))
	assert.Equal(t, "data", string(p.readSegment()[14:]))
	assert.Equal(t, "done", string(e.inbox.nextMessage(t)))
}

// A deregisterer deregisters memory when a message arrives.
type deregisterer struct {
	*inboxHandler
	regions <-chan rdma.Region
}

func (d deregisterer) Receive(m rdma.Recv) {
	(<-d.regions).Deregister()
	d.inboxHandler.Receive(m)
}

// TestIdleHoldsNothing checks that an idle connection holds no buffer, and that
// a connection with traffic does.
func TestIdleHoldsNothing(t *testing.T) {
	checkLeaks(t)
	before := buf.Default.Out()
	a, b := connectPair(t, pairOptions{})
	for range 3 {
		sendFirst(t, a, b)
		end := time.Now().Add(testTimeout)
		for buf.Default.Out() > before {
			require.True(t, time.Now().Before(end))
			runtime.Gosched()
		}
	}
}
