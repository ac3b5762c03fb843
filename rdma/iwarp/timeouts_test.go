package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// halfPipe is a net.Pipe with CloseWrite, which net.Pipe lacks. CloseWrite only
// closes fin; the pipe stays open.
type halfPipe struct {
	net.Conn
	fin  chan struct{}
	once *sync.Once
}

func (h halfPipe) CloseWrite() error {
	h.once.Do(func() { close(h.fin) })
	return nil
}

// inBubble runs f with a Conn over a pipe, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		e, fin := endpoint{inbox: newInbox()}, make(chan struct{})
		e.Conn = testDevice.newConn(newSocket(halfPipe{a, fin, new(sync.Once)}), mpa.Params{IRD: 8, ORD: 8}, mpa.Frame{}, rdma.ConnConfig{Handler: e.inbox, Recvs: 8}, false)
		e.startReader()
		f(t, e, &rawPeer{t: t, nc: b}, fin)
		b.Close()
		require.NoError(t, e.Close())
		e.drainInbox()
	})
}

// TestStallWithinFPDU checks that a peer may be silent for any time between
// FPDUs, but not within an FPDU (R5044-7.1.2-10-2).
func TestStallWithinFPDU(t *testing.T) {
	segment := frameFPDU(false, sendSeg(true, 1, 0, []byte("hello")))
	for n := range len(segment) {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
			time.Sleep(24 * time.Hour)
			p.writeBytes(segment[:n])
			synctest.Wait()
			time.Sleep(stallTimeout - time.Second)
			assert.Empty(t, e.inbox.closed)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n == 0 {
				assert.Empty(t, e.inbox.closed)
				return
			}
			assert.True(t, isTimeout(e.inbox.closeError(t)), "%d bytes", n)
		})
	}
}

// TestSlowFPDU checks that an FPDU which arrives in time is accepted, and that
// a peer which keeps sending but takes too long for the whole FPDU loses the
// connection (R5044-7.1.2-10-2).
func TestSlowFPDU(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes, write int
		allowed      time.Duration
	}{
		"short": {5, 1, stallTimeout},
		"long":  {32 << 10, 256, stallTimeout + 8*time.Second},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", late: ", late), func(t *testing.T) {
				inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
					e.recvSize = tt.bytes
					data := patternBytes(tt.bytes)
					frame := frameFPDU(false, sendSeg(true, 1, 0, data))
					pause := tt.allowed / time.Duration(len(frame)/tt.write+1)
					if late {
						pause += pause / 8
					}
					start := time.Now()
					for part := range slices.Chunk(frame, tt.write) {
						if len(e.inbox.closed) > 0 {
							break
						}
						p.writeBytes(part)
						synctest.Wait()
						time.Sleep(pause)
						synctest.Wait()
					}
					if late {
						assert.True(t, isTimeout(e.inbox.closeError(t)))
						assert.InDelta(t, tt.allowed, time.Since(start), float64(pause+tt.allowed/100))
						return
					}
					assert.Equal(t, data, e.inbox.nextMessage(t))
					time.Sleep(24 * time.Hour)
					p.sendSegments(sendSeg(true, 2, 0, []byte("again")))
					assert.Equal(t, "again", string(e.inbox.nextMessage(t)))
				})
			})
		}
	}
}

// TestSlowMessage checks that the same limit applies to a message: many short
// FPDUs get no more time than a single FPDU (R5044-7.1.2-10-2).
func TestSlowMessage(t *testing.T) {
	const fpdus = 32
	for name, tt := range map[string]struct {
		bytes int // payload bytes per FPDU
		read  bool
	}{
		"short":                {1, false},
		"long":                 {8 << 10, false},
		"RDMA Read, of 1 byte": {1, true},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", late: ", late), func(t *testing.T) {
				inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
					data, done := patternBytes(fpdus*tt.bytes), make(completionWaiter, 1)
					e.recvSize = len(data)
					var req rdmap.ReadRequest
					into := make([]byte, len(data))
					if tt.read {
						require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{into}, Done: done}))
						req = p.expectReadRequest()
					}
					var all [][]byte
					allowed := stallTimeout
					for i := range fpdus {
						at, last := i*tt.bytes, i == fpdus-1
						seg := sendSeg(last, 1, uint32(at), data[at:][:tt.bytes])
						if tt.read {
							seg = responseSeg(last, req.SinkSTag, req.SinkTO+uint64(at), data[at:][:tt.bytes])
						}
						all = append(all, frameFPDU(false, seg))
						allowed += time.Duration(len(all[i])) * time.Second / slowestPeer
					}
					pause := allowed / (fpdus + 1)
					if late {
						pause += pause / 8
					}
					start := time.Now()
					for _, part := range all {
						if len(e.inbox.closed) > 0 {
							break
						}
						p.writeBytes(part)
						synctest.Wait()
						time.Sleep(pause)
						synctest.Wait()
					}
					switch {
					case late:
						assert.True(t, isTimeout(e.inbox.closeError(t)))
						assert.Less(t, time.Since(start), allowed+pause)
					case tt.read:
						assert.NoError(t, done.wait(t).Err)
						assert.Equal(t, data, into)
					default:
						assert.Equal(t, data, e.inbox.nextMessage(t))
					}
				})
			})
		}
	}
}

// TestNoTimeSavedUp checks that a fast FPDU gains no time for later FPDUs.
func TestNoTimeSavedUp(t *testing.T) {
	d := &waitBudget{fpdu: 1 << 20}
	d.nextFPDU(true)
	assert.Equal(t, waitBudget{}, *d)
	d.fpdu, d.waited = slowestPeer, time.Minute
	d.nextFPDU(true)
	assert.Equal(t, time.Minute-time.Second, d.waited)
	d.nextFPDU(false)
	assert.Zero(t, *d)
}

// TestOverdue checks, for each link kind, that a wait fails at once if the time
// limit has already passed.
func TestOverdue(t *testing.T) {
	checkLeaks(t)
	for _, pipe := range []bool{false, true} {
		a, b := ncPair(t, pipe)
		defer b.Close()
		s := newSocket(a)
		defer s.close()
		overdue := &waitBudget{owed: true, waited: stallTimeout}
		_, err := s.read([][]byte{make([]byte, 1)}, overdue)
		require.True(t, isTimeout(err), "%v", err)
		if !pipe {
			require.True(t, isTimeout(s.awaitReady(overdue)))
			_, err = b.Write([]byte{1})
			require.NoError(t, err)
			require.NoError(t, s.awaitReady(new(waitBudget)))
		}
	}
}

// TestBusyReader checks that time in which the reader was not waiting is not
// charged to the peer.
func TestBusyReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		s, d := newSocket(a), &waitBudget{owed: true}
		defer s.close()
		read := func() error {
			time.Sleep(10 * stallTimeout) // busy
			sent := runAsync(func() {
				time.Sleep(stallTimeout/3 + time.Second)
				_, _ = b.Write([]byte{1})
			})
			_, err := s.read([][]byte{make([]byte, 1)}, d)
			if err != nil {
				b.Close()
			}
			<-sent
			return err
		}
		require.NoError(t, read())
		require.NoError(t, read())
		require.True(t, isTimeout(read()))
	})
}

// TestStalledWriter checks that a peer which accepts no bytes for too long
// loses the connection.
func TestStalledWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		done := make(completionWaiter, 1)
		start := time.Now()
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Done: done}))
		require.ErrorIs(t, (<-done).Err, rdma.ErrFlushed)
		assert.Equal(t, stallTimeout+reasonTimeout, time.Since(start))
		assert.True(t, isTimeout(e.inbox.closeError(t)))
	})
}

// TestCloseInTime checks that Close returns in bounded time even if the peer
// does nothing.
func TestCloseInTime(t *testing.T) {
	for name, wrs := range map[string][]rdma.WR{
		"nothing posted": nil,
		"a Send":         {{Op: rdma.OpSend}},
		"a Read":         {{Op: rdma.OpRead, Data: [][]byte{nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
				require.NoError(t, e.Post(wrs...))
				start := time.Now()
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() { assert.NoError(t, e.Close()) })
				}
				twice.Wait()
				assert.LessOrEqual(t, time.Since(start), lingerTimeout+reasonTimeout)
				require.ErrorIs(t, e.inbox.closeError(t), io.EOF)
			})
		})
	}
}

// TestCloseDrains checks that Close first completes the posted work requests,
// Reads included, and then sends the FIN.
func TestCloseDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{}) {
		done := make(completionWaiter, 2)
		require.NoError(t, e.Post(
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: done},
			rdma.WR{Op: rdma.OpSend, Fence: true, Done: done}, // R5041-6.2.1-1
		))
		closed := runAsyncErr(e.Close)
		req := p.expectReadRequest()
		synctest.Wait()
		assert.ErrorIs(t, e.Post(), rdma.ErrClosed)         // R5041-6.2.1-2
		p.sendSegments(sendSeg(true, 1, 0, []byte("late"))) // R5041-6.2.1-6
		p.sendSegments(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}))
		assert.Equal(t, sendSeg(true, 1, 0, nil), p.readSegment())
		<-fin
		for range 2 {
			assert.NoError(t, (<-done).Err)
		}
		p.sendSegments(requestSeg(1, rdmap.ReadRequest{})) // too late
		p.expectSilence(time.Second)
		p.nc.Close()
		require.NoError(t, <-closed)
		assert.Equal(t, "late", string(e.inbox.nextMessage(t)))
		require.ErrorIs(t, e.inbox.closeError(t), io.EOF)
	})
}

// TestLinger checks that after a Terminate this end waits for the peer to
// close, but only for lingerTimeout.
func TestLinger(t *testing.T) {
	for _, abort := range []bool{false, true} {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{}) {
			start := time.Now()
			p.sendSegments(sendSeg(true, 9, 0, nil))
			parseTerminate(t, p.readSegment())
			<-fin
			p.writeBytes(make([]byte, 1000))   // dropped
			p.expectSilence(lingerTimeout - 1) // R5040-5.4-9
			assert.Empty(t, e.inbox.closed)
			want := lingerTimeout
			if abort { // ends the wait early
				e.Abort(errors.New("enough"))
				want--
			}
			requireFault(t, e.inbox.closeError(t), false, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 3})
			assert.Equal(t, want, time.Since(start))
		})
	}
}

// TestDeregisterInTime checks that Deregister waits for a segment in transit,
// and ends the connection if the peer delays that segment too long
// (R8166-4.5.4-2).
func TestDeregisterInTime(t *testing.T) {
	for _, rest := range []bool{true, false} {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
			mem := make([]byte, 4)
			r, err := e.Register(mem, rdma.RemoteWrite)
			require.NoError(t, err)
			fpdu := frameFPDU(false, writeSeg(true, r.STag(), 0, []byte("data")))
			p.writeBytes(fpdu[:18])
			synctest.Wait()
			start := time.Now()
			gone := runAsync(r.Deregister)
			time.Sleep(revokeTimeout - time.Second)
			select {
			case <-gone:
				assert.Fail(t, "did not wait")
			default:
			}
			if rest {
				p.writeBytes(fpdu[18:])
				<-gone
				assert.Equal(t, "data", string(mem))
				assert.Equal(t, revokeTimeout-time.Second, time.Since(start))
				assert.Empty(t, e.inbox.closed)
				return
			}
			<-gone
			assert.Equal(t, revokeTimeout, time.Since(start))
			assert.ErrorContains(t, e.inbox.closeError(t), "revoked")
		})
	}
}

// A revokingHandler is an upper layer that deregisters memory when a message arrives,
// on the connection's reader goroutine.
type revokingHandler struct {
	*inboxHandler
	revoke func()
}

func (r revokingHandler) Receive(m rdma.Recv) {
	r.revoke()
	r.inboxHandler.Receive(m)
}

// TestDeregisterByReader checks Deregister on the reader goroutine while Read
// Responses are queued. The wait must end although the reader itself is
// blocked.
func TestDeregisterByReader(t *testing.T) {
	for _, closing := range []bool{false, true} {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
			r, err := e.Register(make([]byte, 4), rdma.RemoteRead)
			require.NoError(t, err)
			start, waited := time.Now(), time.Duration(0)
			e.handler = revokingHandler{e.inbox, func() {
				if closing { // the responses are held back, and are never sent
					go e.Close()
					synctest.Wait()
				}
				r.Deregister()
				waited = time.Since(start)
			}}
			read := func(msn uint32) []byte {
				return requestSeg(msn, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()})
			}
			p.sendSegments(read(1), read(2), read(3), sendSeg(true, 1, 0, nil))
			err = e.inbox.closeError(t)
			if closing {
				assert.ErrorIs(t, err, io.EOF)
				assert.Zero(t, waited)
				return
			}
			assert.ErrorContains(t, err, "revoked")
			assert.Equal(t, revokeTimeout, waited)
		})
	}
}

// TestDeregisterWithResponses checks that Deregister waits no longer than
// revokeTimeout for Read Responses that the peer does not accept.
func TestDeregisterWithResponses(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		r, err := e.Register(make([]byte, 4), rdma.RemoteRead)
		require.NoError(t, err)
		for i := range uint32(3) {
			p.sendSegments(requestSeg(i+1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}))
		}
		synctest.Wait()
		start := time.Now()
		r.Deregister()
		assert.Equal(t, revokeTimeout, time.Since(start))
		assert.ErrorContains(t, e.inbox.closeError(t), "revoked")
	})
}
