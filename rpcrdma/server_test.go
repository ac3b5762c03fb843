package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	s := &Server{Handler: null}
	require.NoError(t, s.init())
	assert.Equal(t, config{
		inline: 4096, credits: 128, maxPayload: 1 << 20, maxMemory: 256 << 20, maxInline: 256 << 20, maxConns: 1024,
	}, s.cfg)
	for want, s := range map[string]*Server{
		"Handler":     {},
		"inline":      {Handler: null, Inline: 1023},
		"inline size": {Handler: null, Inline: 262144 + 1024},
		"credits":     {Handler: null, Credits: -1},
		"4097":        {Handler: null, Credits: 4097},
		"payload":     {Handler: null, MaxPayload: -1},
		"67108865":    {Handler: null, MaxPayload: 64<<20 + 1},
		"memory":      {Handler: null, MaxMemory: 4 << 20},
		"messages":    {Handler: null, MaxInline: 1<<20 - 1},
		"connections": {Handler: null, MaxConns: -1},
	} {
		l := rdmatest.Listen(t)
		assert.ErrorContains(t, s.Serve(l), want)
		assert.ErrorContains(t, s.Shutdown(t.Context()), want)
		_, err := l.Accept(t.Context())
		assert.ErrorIs(t, err, rdma.ErrClosed, "the listener is closed")
	}
}

// TestShutdownDrains checks that calls in flight are answered, others are not
// taken, and the connection is closed in good order.
func TestShutdownDrains(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		busy, idle := r.dialLinux(), r.dialLinux()
		busy.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		require.Equal(t, 1, g.servingCount())
		over := make(chan error)
		go func() { over <- r.Shutdown(t.Context()) }()
		synctest.Wait()
		assert.Len(t, idle.closeErrors(), 1)
		assert.Empty(t, busy.closeErrors())
		busy.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID+1, ""))
		assert.Equal(t, 1, g.servingCount())
		_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{})
		assert.Error(t, err)
		close(g.open)
		require.NoError(t, <-over)
		got := busy.newAnswers()
		require.Len(t, got, 1)
		assert.EqualValues(t, testXID, got[0].XID)
		assert.Len(t, busy.closeErrors(), 1)

		l := rdmatest.Listen(t)
		assert.NoError(t, r.Serve(l), "a server that is shut down")
	})
}

// TestShutdownAborts checks that, when the time is over, connections are cut
// and handlers' contexts end.
func TestShutdownAborts(t *testing.T) {
	told := make(chan error, 1)
	h := serviceFunc(func(ctx context.Context, _ *oncrpc.Request, _ *oncrpc.Reply) bool {
		<-ctx.Done()
		told <- context.Cause(ctx)
		return false
	})
	withServer(t, &Server{Handler: h}, func(t *testing.T, r *testServer) {
		told = make(chan error, 1)
		q := r.dialLinux()
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, <-told, context.DeadlineExceeded)
		synctest.Wait()
		assert.Len(t, q.closeErrors(), 1)
	})
}

// TestLostConnection checks that a connection's end ends its handlers' context,
// and that their replies are dropped.
func TestLostConnection(t *testing.T) {
	h := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		<-ctx.Done()
		return null(ctx, req, rep)
	})
	withServer(t, &Server{Handler: h}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		for range 5 {
			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		synctest.Wait()
		q.Abort(errors.New("gone"))
	})
}

func TestMaxConns(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxConns: 2}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		q := r.dialLinux()
		for _, c := range []*requester{q, r.dialLinux()} {
			c.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		require.Equal(t, 2, g.servingCount())
		cfg := rdma.ConnConfig{Handler: &requester{t: t}}
		_, err := r.listen.Dial(t.Context(), cfg)
		assert.ErrorIs(t, err, rdmatest.ErrRejected)
		close(g.open)
		q.onlyAnswer()
		require.NoError(t, q.Close())
		synctest.Wait()
		r.dialLinux()
	})
}

func TestAcceptFails(t *testing.T) {
	p := tapListener{failAccept: errors.New("no queue pair")}
	withTappedServer(t, &Server{Handler: null, MaxConns: 1}, &p, func(t *testing.T, r *testServer) {
		for range 3 { // each place is free again
			_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{Handler: &requester{t: t}})
			assert.ErrorIs(t, err, rdmatest.ErrRejected)
			synctest.Wait()
		}
	})
}

func TestListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: null}
		l := rdmatest.Listen(t)
		require.NoError(t, l.Close())
		assert.ErrorIs(t, s.Serve(l), rdma.ErrClosed)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, s.Shutdown(t.Context()), "again")
	})
}

func TestAddrPort(t *testing.T) {
	tcp := &net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 700}
	assert.Equal(t, netip.MustParseAddrPort("192.0.2.7:700"), addrPort(tcp))
	tcp = &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 700}
	assert.Equal(t, netip.MustParseAddrPort("[2001:db8::1]:700"), addrPort(tcp))
	assert.Zero(t, addrPort(&net.UnixAddr{}))
}

// TestDispatcher checks that a server runs only a bounded number at once and
// keeps the others in order.
func TestDispatcher(t *testing.T) {
	g := new(gate)
	s := &Server{Handler: g}
	withServer(t, s, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		s.calls.max = 6
		q := r.dialLinux()
		for xid := range uint32(10) {
			q.sendCall(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
		}
		assert.Equal(t, 3, g.servingCount())
		close(g.open)
		assert.Len(t, q.newAnswers(), 10)
		assert.Zero(t, s.calls.running)
	})
}

// TestDispatcherShared checks that a party runs at most half of the remaining
// calls, and always one. Waiting calls are all served, in order.
func TestDispatcherShared(t *testing.T) {
	g := new(gate)
	s := &Server{Handler: g}
	withServer(t, s, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		s.calls.max = 8
		var all []*requester
		for i, running := range []int{4, 6, 7, 8, 9} {
			q := r.dialFrom(byte(1 + i))
			all = append(all, q)
			for xid := range uint32(20) {
				q.sendCall(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
			}
			assert.Equal(t, running, g.servingCount())
		}
		close(g.open)
		for _, q := range all {
			assert.Len(t, q.newAnswers(), 20)
		}
		assert.Zero(t, s.calls.running)
		assert.Zero(t, s.calls.queued.Len())
	})
}

// TestParallel has many callers with chunks both ways, in real time, for the
// race detector. It checks that written data are present with the reply
// (R8166-2.3.2-2).
func TestParallel(t *testing.T) {
	const conns, callers, calls = 4, 8, 25
	before := buf.Default.Out()
	echo := serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
		copy(rep.NewItem(len(req.Item)), req.Item)
		return true
	})
	s := &Server{Handler: echo, Credits: callers, MaxMemory: 8 << 20}
	l := rdmatest.Listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var all sync.WaitGroup
	for range conns {
		p := &parallelRequester{t: t, calls: make(map[uint32]chan struct{})}
		c, err := l.Dial(t.Context(), rdma.ConnConfig{Handler: p, PrivateData: linux.AppendTo(nil), Recvs: 1 << 20})
		require.NoError(t, err)
		for i := range callers {
			all.Go(func() {
				back := make([]byte, 512<<10) // large enough that calls wait for memory
				for n := range calls {
					p.echoChunks(c, uint32(i*calls+n), patternBytes(1+(i*calls+n)*97), back)
				}
			})
		}
	}
	all.Wait()
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-served)
	assert.Equal(t, before, buf.Default.Out())
}

// A parallelRequester is a requester with many callers.
type parallelRequester struct {
	t     *testing.T
	mu    sync.Mutex
	calls map[uint32]chan struct{}
}

func (p *parallelRequester) Receive(m rdma.Recv) {
	defer m.Buf.Release()
	xid := binary.BigEndian.Uint32(m.Buf.B)
	p.mu.Lock()
	defer p.mu.Unlock()
	if done := p.calls[xid]; assert.NotNil(p.t, done, xid) {
		close(done)
		delete(p.calls, xid)
	}
}

func (p *parallelRequester) Closed(error) {}

// echoChunks sends data to the server and back by chunks.
func (p *parallelRequester) echoChunks(c *rdmatest.Conn, xid uint32, data, back []byte) {
	from, err := c.Register(data, rdma.RemoteRead)
	if !assert.NoError(p.t, err) {
		return
	}
	to, err := c.Register(back, rdma.RemoteWrite)
	if !assert.NoError(p.t, err) {
		return
	}
	h := wire.Header{XID: xid, Vers: wire.Version, Credit: 1, Proc: wire.Msg}
	segment := func(r rdma.Region, n int) chunks.Segment {
		return chunks.Segment{Handle: uint32(r.STag()), Length: uint32(n), Offset: r.TO()}
	}
	h.Lists.Reads = []chunks.ReadSegment{{Position: 40, Segment: segment(from, len(data))}}
	h.Lists.AddWrite(chunks.Chunk{segment(to, len(back))})
	done := make(chan struct{})
	p.mu.Lock()
	p.calls[xid] = done
	p.mu.Unlock()
	err = c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{h.AppendTo(nil), rpcCall(xid, "")}})
	if !assert.NoError(p.t, err) {
		return
	}
	<-done
	from.Deregister()
	to.Deregister()
	assert.True(p.t, bytes.Equal(data, back[:len(data)]), "xid %d", xid)
}
