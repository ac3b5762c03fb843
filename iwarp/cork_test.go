package iwarp

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
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
			world(t)
			const n, rounds, writes = 40, 10, 3 // of 6, 12 and 22 answers
			var calls atomic.Int32
			e, p := againstRaw(t, raw{recvs: n * rounds, before: func(c *Conn) {
				countSends(&calls)(c)
				c.handler = answerer{c, answer}
			}})
			for round := range uint32(rounds) {
				var segments [][]byte
				for i := range uint32(n) {
					segments = append(segments, sendSeg(true, n*round+i+1, 0, []byte("call")))
				}
				p.send(segments...)
				for range n {
					assert.Equal(t, "reply", string(p.segment()[18:]))
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

// TestFirstAnswersLeave checks that the answers to the first messages of a read
// arrive while the upper layer works on a later one, whatever the messages are.
func TestFirstAnswersLeave(t *testing.T) {
	const corked, n = 6, 16
	defer func(usual int) { firstCorked = usual }(firstCorked)
	firstCorked = corked // on one processor, too
	for _, tt := range []struct {
		name     string
		early    int // answers of the upper layer
		segments func(*testing.T, *hesitant, *rawPeer) [][]byte
	}{
		{"Sends", corked, func(_ *testing.T, _ *hesitant, _ *rawPeer) (all [][]byte) {
			for i := range uint32(n) {
				all = append(all, sendSeg(true, i+1, 0, []byte("call")))
			}
			return all
		}},
		{"RDMA Read Responses", corked, func(t *testing.T, h *hesitant, p *rawPeer) (all [][]byte) {
			for range n {
				require.NoError(t, h.c.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: h}))
			}
			for range n {
				req := p.readRequest()
				all = append(all, responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}))
			}
			return all
		}},
		{"RDMA Read Requests", 0, func(t *testing.T, h *hesitant, _ *rawPeer) (all [][]byte) {
			r, err := h.c.Register([]byte("reply"), rdma.RemoteRead)
			require.NoError(t, err)
			for i := range uint32(corked) {
				all = append(all, requestSeg(i+1, rdmap.ReadRequest{Size: 5, SourceSTag: r.STag()}))
			}
			return append(all, sendSeg(true, 1, 0, []byte("call")))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			world(t)
			h := &hesitant{early: tt.early, on: make(chan struct{}, 1)}
			defer close(h.on)
			_, p := againstRaw(t, raw{initiator: true, recvs: n, ord: n, before: func(c *Conn) {
				h.inboxHandler, h.c, c.handler = c.handler.(*inboxHandler), c, h
			}})
			all := tt.segments(t, h, p)
			p.send(all...)
			for i := range all {
				if i == corked {
					h.on <- struct{}{}
				}
				answer := p.segment()
				assert.Equal(t, "reply", string(answer[len(answer)-5:]))
			}
		})
	}
}

// A hesitant answers every message and every completion, all but some early ones after
// the test allows it.
type hesitant struct {
	*inboxHandler
	c     *Conn
	early int
	on    chan struct{}
}

func (h *hesitant) Receive(m rdma.Recv) {
	m.Buf.Release()
	h.answer()
}

func (h *hesitant) Complete(rdma.Completion) { h.answer() }

func (h *hesitant) answer() {
	if h.early == 0 {
		<-h.on
	}
	h.early--
	_ = h.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("reply")}})
}

// An answerer answers every message.
type answerer struct {
	c      *Conn
	answer func(func())
}

func (a answerer) Receive(m rdma.Recv) {
	m.Buf.Release()
	a.answer(func() { _ = a.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("reply")}}) })
}

func (a answerer) Closed(error) {}

// TestDeregisterBehindRead checks that the reader itself may wait for a
// response that is held back: it deregisters the memory of that response.
func TestDeregisterBehindRead(t *testing.T) {
	world(t)
	regions := make(chan rdma.Region, 1)
	e, p := againstRaw(t, raw{recvs: 1, before: func(c *Conn) {
		c.handler = deregisterer{c.handler.(*inboxHandler), regions}
	}})
	r, err := e.Register([]byte("data"), rdma.RemoteRead)
	require.NoError(t, err)
	regions <- r
	p.send(requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}), sendSeg(true, 1, 0, []byte("done")))
	assert.Equal(t, "data", string(p.segment()[14:]))
	assert.Equal(t, "done", string(e.in.next(t)))
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
	world(t)
	before := buf.Default.Out()
	a, b := pair(t, options{})
	for range 3 {
		open(t, a, b)
		end := time.Now().Add(patience)
		for buf.Default.Out() > before {
			require.True(t, time.Now().Before(end))
			runtime.Gosched()
		}
	}
}
