package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// xidCall sends an inline call.
func (q *requester) xidCall(xid uint32) {
	q.t.Helper()
	q.sendCall(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
}

// xidsOf returns the answers' XIDs.
func xidsOf(answers []serverMessage) (xids []uint32) {
	for _, a := range answers {
		xids = append(xids, a.XID)
	}
	return xids
}

// An xidGate holds calls with some XIDs until it is opened.
type xidGate struct {
	open  chan struct{}
	from  uint32 // XIDs from here on
	calls atomic.Int32
}

func (s *xidGate) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.calls.Add(1)
	if binary.BigEndian.Uint32(req.Msg) >= s.from {
		<-s.open
	}
	return null(ctx, req, rep)
}

// TestReaderServes checks that a short call is answered before its Receive
// returns, and that a call with much to return, or something to pull, is not.
func TestReaderServes(t *testing.T) {
	p := &tapListener{handsOff: true}
	var within atomic.Int32
	p.onSend = func() {
		if receiving() {
			within.Add(1)
		}
	}
	withTappedServer(t, &Server{Handler: null, Log: testLog(t)}, p, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.xidCall(1)
		small, _ := q.writeChunk(shortReply)
		var l chunks.Lists
		l.AddWrite(small)
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		assert.Len(t, q.newAnswers(), 2)
		assert.EqualValues(t, 2, within.Load())

		large, _ := q.writeChunk(shortReply + 1)
		l = chunks.Lists{}
		l.AddWrite(large)
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.sendCall(newMsg(chunks.Lists{Reads: q.readSegments(40, []byte("data"))}), rpcCall(testXID, ""))
		assert.Len(t, q.newAnswers(), 2)
		assert.EqualValues(t, 2, within.Load(), "the dispatcher's, and when the chunk has come")

		gss := rpcCall(testXID, "")
		binary.BigEndian.PutUint32(gss[24:], rpcmsg.AuthGSS)
		for _, n := range []int{shortSealed, shortSealed + 1} {
			l = chunks.Lists{HasReply: true}
			l.Reply, _ = q.writeChunk(n)
			q.sendCall(newMsg(l), gss)
			assert.Len(t, q.newAnswers(), 1)
			assert.EqualValues(t, 3, within.Load(), "space for %d bytes that may be encrypted", n)
		}
	})
}

// chunkCall sends a call with n bytes to pull.
func (q *requester) chunkCall(xid uint32, n int) {
	q.t.Helper()
	q.sendCall(wire.Header{XID: xid, Proc: wire.Msg, Lists: chunks.Lists{Reads: q.readSegments(40, make([]byte, n))}}, rpcCall(xid, ""))
}

// TestReaderServesPulled checks that the reader serves a call whose chunk has
// arrived, and that such a call delays others on its connection no longer than
// a short one.
func TestReaderServesPulled(t *testing.T) {
	s := &xidGate{from: 100}
	withTappedServer(t, &Server{Handler: s}, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
		s.open = make(chan struct{})
		q := r.dialLinux()
		q.chunkCall(100, large)
		synctest.Wait()
		q.chunkCall(1, large)
		q.xidCall(2)
		assert.Empty(t, q.newAnswers(), "the reader is kept")
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []uint32{1, 2}, xidsOf(q.newAnswers()))
		q.chunkCall(3, large)
		assert.Equal(t, []uint32{3}, xidsOf(q.newAnswers()))
		close(s.open)
		assert.Equal(t, []uint32{100}, xidsOf(q.newAnswers()))
		synctest.Wait()
		assert.Zero(t, r.calls.running)
	})
}

// TestReaderHandsOverReading checks that a call for which much was pulled inside TLS is served by
// the goroutine that has pulled, while another reads on.
func TestReaderHandsOverReading(t *testing.T) {
	const held = 100
	for _, tt := range []struct {
		name   string
		pulled int
		tls    bool
		places int // in the dispatcher
		on     bool
	}{
		{"large", minHandOffPull, true, 4, true},
		{"short", minHandOffPull - 4, true, 4, false},
		{"in clear", minHandOffPull, false, 4, false},
		{"no place is free", minHandOffPull, true, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &xidGate{from: held}
			var inline atomic.Int32
			h := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				if calledBy("call).CompleteInline") {
					inline.Add(1)
				}
				return s.Serve(ctx, req, rep)
			})
			withTappedServer(t, &Server{Handler: h}, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
				s.open = make(chan struct{})
				q := r.dialLinux()
				r.calls.max = tt.places
				r.calls.adoptGoroutine(r.onlyConn().party.Own.queue) // as if a call were running
				if tt.tls {
					r.onlyConn().peer.Security = new(oncrpc.Security)
				}
				q.chunkCall(held, tt.pulled)
				synctest.Wait()
				assert.EqualValues(t, 1, inline.Load(), "served by the goroutine that has pulled")
				q.xidCall(1)
				assert.Equal(t, tt.on, len(q.newAnswers()) == 1, "read on at once")
				close(s.open)
				synctest.Wait()
				assert.Equal(t, 1, r.calls.running)
			})
		})
	}
}

// TestSlowByBytes checks that a call's time limit grows with the pulled bytes.
func TestSlowByBytes(t *testing.T) {
	const pulled = large                 // at timePerByte each
	const limit = 150 * time.Microsecond // on an infinitely fast processor, which a bubble has
	for _, tt := range []struct {
		took time.Duration
		slow bool
	}{
		{limit + pulled*timePerByte, false},
		{limit + pulled*timePerByte + 1, true},
	} {
		s := &Server{Handler: serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			time.Sleep(tt.took)
			return null(ctx, req, rep)
		})}
		withTappedServer(t, s, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			q.chunkCall(1, pulled)
			time.Sleep(time.Second)
			assert.Len(t, q.newAnswers(), 1)
			away := 0
			for _, k := range r.onlyConn().reader.kinds {
				away += k.Away()
			}
			assert.Equal(t, tt.slow, away > 0, tt.took)
		})
	}
}

// TestReaderRelieved checks that calls that never end, one or many, delay no
// other call on their connection or on others.
func TestReaderRelieved(t *testing.T) {
	s := &xidGate{open: make(chan struct{}), from: 100}
	withTappedServer(t, &Server{Handler: s, Log: testLog(t)}, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
		s.open = make(chan struct{}) // in the bubble
		a, b := r.dialLinux(), r.dialLinux()
		for i := range uint32(20) {
			a.xidCall(100 + i)
			a.xidCall(1 + i)
		}
		b.xidCall(50)
		synctest.Wait()
		assert.Equal(t, []uint32{50}, xidsOf(b.newAnswers()), "at once")
		time.Sleep(time.Second)
		assert.Len(t, xidsOf(a.newAnswers()), 20)
		b.xidCall(51)
		assert.Equal(t, []uint32{51}, xidsOf(b.newAnswers()))
		assert.EqualValues(t, 42, s.calls.Load(), "all have been started")
		close(s.open)
		assert.Len(t, xidsOf(a.newAnswers()), 20)
		synctest.Wait()
		assert.Zero(t, r.calls.running)
	})
}

// TestReaderJoinsDispatcher checks that a relieved reader becomes a goroutine
// in the dispatcher: it is counted, and takes waiting calls.
func TestReaderJoinsDispatcher(t *testing.T) {
	s := &xidGate{from: 100}
	withTappedServer(t, &Server{Handler: s}, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
		s.open = make(chan struct{})
		r.calls.max = 1
		q := r.dialLinux()
		q.xidCall(100)
		time.Sleep(time.Second)
		q.xidCall(1)
		assert.Empty(t, q.newAnswers(), "the busy dispatcher has calls of this kind now")
		close(s.open)
		assert.Equal(t, []uint32{100, 1}, xidsOf(q.newAnswers()))
	})
}

// TestReaderRelievedAtTheEnd checks that a connection's end does not wait for a
// call that holds its first reader.
func TestReaderRelievedAtTheEnd(t *testing.T) {
	s := &xidGate{from: 100}
	withTappedServer(t, &Server{Handler: s}, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
		s.open = make(chan struct{})
		q := r.dialLinux()
		q.xidCall(100)
		time.Sleep(time.Second)
		c := r.onlyConn()
		q.Abort(errors.New("enough"))
		synctest.Wait()
		assert.Len(t, q.closeErrors(), 1)
		assert.Error(t, c.ctx.Err())
		close(s.open)
	})
}

// TestReaderYields checks that a busy reader lets other goroutines run.
func TestReaderYields(t *testing.T) {
	run, stop := newCallRunner(t, newMsg(chunks.Lists{}))
	defer stop()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var over atomic.Bool
	yields := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; !over.Load(); yields++ {
			runtime.Gosched()
		}
	}()
	for range 10 * relief.MaxTurn {
		run()
	}
	over.Store(true)
	<-done
	assert.GreaterOrEqual(t, yields, 5) // out of 10; the scheduler does not promise that the next turn is theirs
}

// A handOffConn is a connection whose reader can be relieved.
type handOffConn struct{ *tappedConn }

func (c handOffConn) HandOffReader() { c.Conn.(rdma.ReaderHandoff).HandOffReader() }

func TestReaderNeedsRelief(t *testing.T) {
	var r connReader
	r.init(handOffConn{}, true)
	require.NotNil(t, r.handoff)
	r = connReader{}
	r.init(&tappedConn{}, true)
	assert.Nil(t, r.handoff)
	r.init(handOffConn{}, false)
	assert.Nil(t, r.handoff)
}

// TestKind checks that Server.Kind distinguishes calls to one procedure: a slow
// kind does not send the others to other goroutines.
func TestKind(t *testing.T) {
	const slow = 1 << 20 // XIDs from here on belong to the slow kind
	s := &Server{
		Handler: serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			if binary.BigEndian.Uint32(req.Msg) >= slow {
				time.Sleep(time.Second)
			}
			return null(ctx, req, rep)
		}),
		Kind: func(msg []byte) uint32 { return binary.BigEndian.Uint32(msg) / slow },
	}
	withTappedServer(t, s, &tapListener{handsOff: true}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		for i := range uint32(10) {
			q.xidCall(slow + i)
			time.Sleep(2 * time.Second)
			q.xidCall(1 + i)
			synctest.Wait()
		}
		assert.Len(t, q.newAnswers(), 20)
		served := r.onlyConn().reader.relief.Calls()
		assert.GreaterOrEqual(t, served, uint64(10), "all of the quick kind")
		assert.Less(t, served, uint64(16), "few of the slow kind")
	})
}
