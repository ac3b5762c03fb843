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

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// halfPipe is a net.Pipe with CloseWrite, which net.Pipe lacks. CloseWrite only
// closes fin; the pipe stays open.
type halfPipe struct {
	net.Conn
	fin chan struct{}
}

func (h halfPipe) CloseWrite() error {
	select {
	case <-h.fin:
	default:
		close(h.fin)
	}
	return nil
}

// inBubble runs f with a Conn over a pipe, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		e, fin := endpoint{in: newInbox()}, make(chan struct{})
		e.Conn = lab.newConn(newSocket(halfPipe{a, fin}), mpa.Params{IRD: 8, ORD: 8}, mpa.Frame{}, rdma.ConnConfig{Handler: e.in, Recvs: 8}, false)
		e.start()
		f(t, e, &rawPeer{t: t, nc: b}, fin)
		b.Close()
		require.NoError(t, e.Close())
		e.drain()
	})
}

// TestStallWithinFPDU checks that a peer may be silent for any time between
// FPDUs, but not within an FPDU (R5044-7.1.2-10-2).
func TestStallWithinFPDU(t *testing.T) {
	segment := fpdu(false, sendSeg(true, 1, 0, []byte("hello")))
	for n := range len(segment) {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
			time.Sleep(24 * time.Hour)
			p.write(segment[:n])
			synctest.Wait()
			time.Sleep(stallTimeout - time.Second)
			assert.Empty(t, e.in.closed)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n == 0 {
				assert.Empty(t, e.in.closed)
				return
			}
			assert.True(t, isTimeout(e.in.end(t)), "%d bytes", n)
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
					data := pattern(tt.bytes)
					frame := fpdu(false, sendSeg(true, 1, 0, data))
					pause := tt.allowed / time.Duration(len(frame)/tt.write+1)
					if late {
						pause += pause / 8
					}
					start := time.Now()
					for part := range slices.Chunk(frame, tt.write) {
						if len(e.in.closed) > 0 {
							break
						}
						p.write(part)
						synctest.Wait()
						time.Sleep(pause)
						synctest.Wait()
					}
					if late {
						assert.True(t, isTimeout(e.in.end(t)))
						assert.InDelta(t, tt.allowed, time.Since(start), float64(pause+tt.allowed/100))
						return
					}
					assert.Equal(t, data, e.in.next(t))
					time.Sleep(24 * time.Hour)
					p.send(sendSeg(true, 2, 0, []byte("again")))
					assert.Equal(t, "again", string(e.in.next(t)))
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
					data, done := pattern(fpdus*tt.bytes), make(waiter, 1)
					e.recvSize = len(data)
					var req rdmap.ReadRequest
					into := make([]byte, len(data))
					if tt.read {
						require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{into}, Done: done}))
						req = p.readRequest()
					}
					var all [][]byte
					allowed := stallTimeout
					for i := range fpdus {
						at, last := i*tt.bytes, i == fpdus-1
						seg := sendSeg(last, 1, uint32(at), data[at:][:tt.bytes])
						if tt.read {
							seg = responseSeg(last, req.SinkSTag, req.SinkTO+uint64(at), data[at:][:tt.bytes])
						}
						all = append(all, fpdu(false, seg))
						allowed += time.Duration(len(all[i])) * time.Second / slowestPeer
					}
					pause := allowed / (fpdus + 1)
					if late {
						pause += pause / 8
					}
					start := time.Now()
					for _, part := range all {
						if len(e.in.closed) > 0 {
							break
						}
						p.write(part)
						synctest.Wait()
						time.Sleep(pause)
						synctest.Wait()
					}
					switch {
					case late:
						assert.True(t, isTimeout(e.in.end(t)))
						assert.Less(t, time.Since(start), allowed+pause)
					case tt.read:
						assert.NoError(t, done.wait(t).Err)
						assert.Equal(t, data, into)
					default:
						assert.Equal(t, data, e.in.next(t))
					}
				})
			})
		}
	}
}

// TestNoTimeSavedUp checks that a fast FPDU gains no time for later FPDUs.
func TestNoTimeSavedUp(t *testing.T) {
	d := &debt{fpdu: 1 << 20}
	d.next(true)
	assert.Equal(t, debt{}, *d)
	d.fpdu, d.waited = slowestPeer, time.Minute
	d.next(true)
	assert.Equal(t, time.Minute-time.Second, d.waited)
	d.next(false)
	assert.Zero(t, *d)
}

// TestOverdue checks, for each kind of link, that a wait fails at once if the
// time limit has already passed.
func TestOverdue(t *testing.T) {
	world(t)
	for _, pipe := range []bool{false, true} {
		a, b := ncPair(t, pipe)
		defer b.Close()
		s := newSocket(a)
		defer s.close()
		overdue := &debt{owed: true, waited: stallTimeout}
		_, err := s.read([][]byte{make([]byte, 1)}, overdue)
		require.True(t, isTimeout(err), "%v", err)
		if !pipe {
			require.True(t, isTimeout(s.await(overdue)))
			_, err = b.Write([]byte{1})
			require.NoError(t, err)
			require.NoError(t, s.await(new(debt)))
		}
	}
}

// TestBusyReader checks that time in which the reader was not waiting is not
// charged to the peer.
func TestBusyReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		s, d := newSocket(a), &debt{owed: true}
		defer s.close()
		read := func() error {
			time.Sleep(10 * stallTimeout) // busy
			sent := done(func() {
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
		done := make(waiter, 1)
		start := time.Now()
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Done: done}))
		require.ErrorIs(t, (<-done).Err, rdma.ErrFlushed)
		assert.Equal(t, stallTimeout+reasonTimeout, time.Since(start))
		assert.True(t, isTimeout(e.in.end(t)))
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
				require.ErrorIs(t, e.in.end(t), io.EOF)
			})
		})
	}
}

// TestCloseDrains checks that Close first completes the posted work requests,
// Reads included, and then sends the FIN.
func TestCloseDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{}) {
		done := make(waiter, 2)
		require.NoError(t, e.Post(
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: done},
			rdma.WR{Op: rdma.OpSend, Fence: true, Done: done}, // R5041-6.2.1-1
		))
		closed := doneErr(e.Close)
		req := p.readRequest()
		synctest.Wait()
		assert.ErrorIs(t, e.Post(), rdma.ErrClosed) // R5041-6.2.1-2
		p.send(sendSeg(true, 1, 0, []byte("late"))) // R5041-6.2.1-6
		p.send(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}))
		assert.Equal(t, sendSeg(true, 1, 0, nil), p.segment())
		<-fin
		for range 2 {
			assert.NoError(t, (<-done).Err)
		}
		p.send(requestSeg(1, rdmap.ReadRequest{})) // too late
		p.nothing(time.Second)
		p.nc.Close()
		require.NoError(t, <-closed)
		assert.Equal(t, "late", string(e.in.next(t)))
		require.ErrorIs(t, e.in.end(t), io.EOF)
	})
}

// TestLinger checks that after a Terminate this end waits for the peer to
// close, but only for lingerTimeout.
func TestLinger(t *testing.T) {
	for _, abort := range []bool{false, true} {
		inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{}) {
			start := time.Now()
			p.send(sendSeg(true, 9, 0, nil))
			parseTerminate(t, p.segment())
			<-fin
			p.write(make([]byte, 1000))  // dropped
			p.nothing(lingerTimeout - 1) // R5040-5.4-9
			assert.Empty(t, e.in.closed)
			want := lingerTimeout
			if abort { // ends the wait early
				e.Abort(errors.New("enough"))
				want--
			}
			requireFault(t, e.in.end(t), false, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 3})
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
			fpdu := fpdu(false, writeSeg(true, r.STag(), 0, []byte("data")))
			p.write(fpdu[:18])
			synctest.Wait()
			start := time.Now()
			gone := done(r.Deregister)
			time.Sleep(revokeTimeout - time.Second)
			select {
			case <-gone:
				assert.Fail(t, "did not wait")
			default:
			}
			if rest {
				p.write(fpdu[18:])
				<-gone
				assert.Equal(t, "data", string(mem))
				assert.Equal(t, revokeTimeout-time.Second, time.Since(start))
				assert.Empty(t, e.in.closed)
				return
			}
			<-gone
			assert.Equal(t, revokeTimeout, time.Since(start))
			assert.ErrorContains(t, e.in.end(t), "revoked")
		})
	}
}

// A revoker is an upper layer that deregisters memory when a message arrives,
// on the connection's reader goroutine.
type revoker struct {
	*inboxHandler
	revoke func()
}

func (r revoker) Receive(m rdma.Recv) {
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
			e.handler = revoker{e.in, func() {
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
			p.send(read(1), read(2), read(3), sendSeg(true, 1, 0, nil))
			err = e.in.end(t)
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
			p.send(requestSeg(i+1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}))
		}
		synctest.Wait()
		start := time.Now()
		r.Deregister()
		assert.Equal(t, revokeTimeout, time.Since(start))
		assert.ErrorContains(t, e.in.end(t), "revoked")
	})
}
