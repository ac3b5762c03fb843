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
	q.call(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
}

// xidsOf returns the XIDs of answers.
func xidsOf(answers []answer) (xids []uint32) {
	for _, a := range answers {
		xids = append(xids, a.XID)
	}
	return xids
}

// A snare holds calls of some XIDs until it is opened.
type snare struct {
	open  chan struct{}
	from  uint32 // XIDs from here on
	calls atomic.Int32
}

func (s *snare) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.calls.Add(1)
	if binary.BigEndian.Uint32(req.Msg) >= s.from {
		<-s.open
	}
	return null(ctx, req, rep)
}

// TestReaderServes checks that a short call is answered before its Receive
// returns, and that a call with much to return, or something to pull, is not.
func TestReaderServes(t *testing.T) {
	p := &tap{relievable: true}
	var within atomic.Int32
	p.onSend = func() {
		if receiving() {
			within.Add(1)
		}
	}
	serveTap(t, &Server{Handler: null, Log: testLog(t)}, p, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		q.xidCall(1)
		small, _ := q.writable(shortReply)
		var l chunks.Lists
		l.AddWrite(small)
		q.call(msg(l), rpcCall(testXID, ""))
		assert.Len(t, q.answers(), 2)
		assert.EqualValues(t, 2, within.Load())

		large, _ := q.writable(shortReply + 1)
		l = chunks.Lists{}
		l.AddWrite(large)
		q.call(msg(l), rpcCall(testXID, ""))
		q.call(msg(chunks.Lists{Reads: q.reads(40, []byte("data"))}), rpcCall(testXID, ""))
		assert.Len(t, q.answers(), 2)
		assert.EqualValues(t, 2, within.Load(), "the dispatcher's, and when the chunk has come")

		gss := rpcCall(testXID, "")
		binary.BigEndian.PutUint32(gss[24:], rpcmsg.AuthGSS)
		for _, n := range []int{shortSealed, shortSealed + 1} {
			l = chunks.Lists{HasReply: true}
			l.Reply, _ = q.writable(n)
			q.call(msg(l), gss)
			assert.Len(t, q.answers(), 1)
			assert.EqualValues(t, 3, within.Load(), "room for %d bytes that may be encrypted", n)
		}
	})
}

// chunkCall sends a call with n bytes to pull.
func (q *requester) chunkCall(xid uint32, n int) {
	q.t.Helper()
	q.call(wire.Header{XID: xid, Proc: wire.Msg, Lists: chunks.Lists{Reads: q.reads(40, make([]byte, n))}}, rpcCall(xid, ""))
}

// TestReaderServesPulled checks that the reader serves a call whose chunk has
// arrived, and that such a call holds up others of its connection no longer
// than a short one.
func TestReaderServesPulled(t *testing.T) {
	s := &snare{from: 100}
	serveTap(t, &Server{Handler: s}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		s.open = make(chan struct{})
		q := r.dialLinux()
		q.chunkCall(100, large)
		synctest.Wait()
		q.chunkCall(1, large)
		q.xidCall(2)
		assert.Empty(t, q.answers(), "the reader is kept")
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []uint32{1, 2}, xidsOf(q.answers()))
		q.chunkCall(3, large)
		assert.Equal(t, []uint32{3}, xidsOf(q.answers()))
		close(s.open)
		assert.Equal(t, []uint32{100}, xidsOf(q.answers()))
		synctest.Wait()
		assert.Zero(t, r.calls.running)
	})
}

// TestReaderHandsOverReading checks that a call for which much was pulled inside of TLS is
// served by the goroutine that has pulled, while another reads on.
func TestReaderHandsOverReading(t *testing.T) {
	const held = 100
	for _, tt := range []struct {
		name   string
		pulled int
		tls    bool
		places int // of the dispatcher
		on     bool
	}{
		{"large", minAside, true, 4, true},
		{"short", minAside - 4, true, 4, false},
		{"in clear", minAside, false, 4, false},
		{"no place is free", minAside, true, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &snare{from: held}
			var inline atomic.Int32
			h := service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				if calledBy("call).CompleteInline") {
					inline.Add(1)
				}
				return s.Serve(ctx, req, rep)
			})
			serveTap(t, &Server{Handler: h}, &tap{relievable: true}, func(t *testing.T, r *rig) {
				s.open = make(chan struct{})
				q := r.dialLinux()
				r.calls.max = tt.places
				r.calls.adopt(r.onlyConn().party.Own.queue) // as if a call were running
				if tt.tls {
					r.onlyConn().peer.Security = new(oncrpc.Security)
				}
				q.chunkCall(held, tt.pulled)
				synctest.Wait()
				assert.EqualValues(t, 1, inline.Load(), "served by the goroutine that has pulled")
				q.xidCall(1)
				assert.Equal(t, tt.on, len(q.answers()) == 1, "read on at once")
				close(s.open)
				synctest.Wait()
				assert.Equal(t, 1, r.calls.running)
			})
		})
	}
}

// TestSlowByBytes checks that the time limit of a call grows with the pulled
// bytes.
func TestSlowByBytes(t *testing.T) {
	const pulled = large                 // at slowByte each
	const limit = 150 * time.Microsecond // of an infinitely fast processor, which a bubble has
	for _, tt := range []struct {
		took time.Duration
		slow bool
	}{
		{limit + pulled*slowByte, false},
		{limit + pulled*slowByte + 1, true},
	} {
		s := &Server{Handler: service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			time.Sleep(tt.took)
			return null(ctx, req, rep)
		})}
		serveTap(t, s, &tap{relievable: true}, func(t *testing.T, r *rig) {
			q := r.dialLinux()
			q.chunkCall(1, pulled)
			time.Sleep(time.Second)
			assert.Len(t, q.answers(), 1)
			away := 0
			for _, k := range r.onlyConn().reader.kinds {
				away += k.Away()
			}
			assert.Equal(t, tt.slow, away > 0, tt.took)
		})
	}
}

// TestReaderRelieved checks that calls that never end, one or many, hold up no
// other call of their connection or of other connections.
func TestReaderRelieved(t *testing.T) {
	s := &snare{open: make(chan struct{}), from: 100}
	serveTap(t, &Server{Handler: s, Log: testLog(t)}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		s.open = make(chan struct{}) // in the bubble
		a, b := r.dialLinux(), r.dialLinux()
		for i := range uint32(20) {
			a.xidCall(100 + i)
			a.xidCall(1 + i)
		}
		b.xidCall(50)
		synctest.Wait()
		assert.Equal(t, []uint32{50}, xidsOf(b.answers()), "at once")
		time.Sleep(time.Second)
		assert.Len(t, xidsOf(a.answers()), 20)
		b.xidCall(51)
		assert.Equal(t, []uint32{51}, xidsOf(b.answers()))
		assert.EqualValues(t, 42, s.calls.Load(), "all have been started")
		close(s.open)
		assert.Len(t, xidsOf(a.answers()), 20)
		synctest.Wait()
		assert.Zero(t, r.calls.running)
	})
}

// TestReaderJoinsDispatcher checks that a relieved reader becomes a goroutine
// of the dispatcher: it is counted, and takes waiting calls.
func TestReaderJoinsDispatcher(t *testing.T) {
	s := &snare{from: 100}
	serveTap(t, &Server{Handler: s}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		s.open = make(chan struct{})
		r.calls.max = 1
		q := r.dialLinux()
		q.xidCall(100)
		time.Sleep(time.Second)
		q.xidCall(1)
		assert.Empty(t, q.answers(), "the busy dispatcher has calls of this kind now")
		close(s.open)
		assert.Equal(t, []uint32{100, 1}, xidsOf(q.answers()))
	})
}

// TestReaderRelievedAtTheEnd checks that the end of a connection does not wait
// for a call that holds its first reader.
func TestReaderRelievedAtTheEnd(t *testing.T) {
	s := &snare{from: 100}
	serveTap(t, &Server{Handler: s}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		s.open = make(chan struct{})
		q := r.dialLinux()
		q.xidCall(100)
		time.Sleep(time.Second)
		c := r.onlyConn()
		q.Abort(errors.New("enough"))
		synctest.Wait()
		assert.Len(t, q.ended(), 1)
		assert.Error(t, c.ctx.Err())
		close(s.open)
	})
}

// TestReaderYields checks that a busy reader lets other goroutines run.
func TestReaderYields(t *testing.T) {
	run, stop := calls(t, msg(chunks.Lists{}))
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
	assert.GreaterOrEqual(t, yields, 5) // of 10; the scheduler does not promise that the next turn is theirs
}

// A relievable is a connection whose reader can be relieved.
type relievable struct{ *tappedConn }

func (c relievable) HandOffReader() { c.Conn.(rdma.ReaderHandoff).HandOffReader() }

func TestReaderNeedsRelief(t *testing.T) {
	var r reader
	r.init(relievable{}, true)
	require.NotNil(t, r.relief)
	r = reader{}
	r.init(&tappedConn{}, true)
	assert.Nil(t, r.relief)
	r.init(relievable{}, false)
	assert.Nil(t, r.relief)
}

// TestKind checks that calls of one procedure are told apart by Server.Kind: a
// slow kind does not send the others to other goroutines.
func TestKind(t *testing.T) {
	const slow = 1 << 20 // XIDs from here on are of the slow kind
	s := &Server{
		Handler: service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			if binary.BigEndian.Uint32(req.Msg) >= slow {
				time.Sleep(time.Second)
			}
			return null(ctx, req, rep)
		}),
		Kind: func(msg []byte) uint32 { return binary.BigEndian.Uint32(msg) / slow },
	}
	serveTap(t, s, &tap{relievable: true}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		for i := range uint32(10) {
			q.xidCall(slow + i)
			time.Sleep(2 * time.Second)
			q.xidCall(1 + i)
			synctest.Wait()
		}
		assert.Len(t, q.answers(), 20)
		served := r.onlyConn().reader.turn.Calls()
		assert.GreaterOrEqual(t, served, uint64(10), "all of the quick kind")
		assert.Less(t, served, uint64(16), "few of the slow kind")
	})
}
