package rpcrdma

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A callerGroup is one client's callers, each with one call.
type callerGroup struct {
	t          *testing.T
	c          *ClientConn
	p          *fakeServer
	results    chan error
	unanswered []receivedCall // unanswered
}

func (g *callerGroup) startCalls(n int) {
	for range n {
		go func() {
			x := new(oncrpc.Exchange)
			err := g.c.Call(g.t.Context(), x)
			x.Release()
			g.results <- err
		}()
	}
	g.recordCalls()
}

// recordCalls records the messages that have arrived, and checks that each of the
// requester's receives is for a call (R8166-3.3.1-7).
func (g *callerGroup) recordCalls() {
	g.unanswered = append(g.unanswered, g.p.newCalls()...)
	assert.Equal(g.t, len(g.unanswered), g.c.conn.(*watchedConn).Conn.(interface{ Recvs() int }).Recvs())
}

// answerOldest answers the oldest call, with a grant.
func (g *callerGroup) answerOldest(grant int) {
	g.t.Helper()
	h := g.unanswered[0]
	g.unanswered = g.unanswered[1:]
	r := wire.Header{XID: h.XID, Vers: 1, Credit: uint32(grant)}
	g.p.sendRaw(r.AppendTo(nil), appendSuccess(nil, h.XID))
	assert.NoError(g.t, <-g.results)
	g.recordCalls()
}

// TestGrants grows and shrinks grants, even below the calls in flight. It
// checks that no call is sent that exceeds the last grant (R8166-3.3.1-1,
// R8166-3.3.1-3, R8166-3.3.1-5, R8166-3.3.3-2, R8166-3.3.3-3).
func TestGrants(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{Credits: 40}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		g := &callerGroup{t: t, c: c, p: p, results: make(chan error, 1000)}
		g.startCalls(300)
		assert.Len(t, g.unanswered, 1, "R8166-3.3.3-2: alone until its reply")
		assert.EqualValues(t, 40, g.unanswered[0].Credit, "R8166-3.3.1-4")
		for _, tt := range []struct{ grant, under, granted int }{
			{32, 32, 32},
			{4, 31, 4}, // 31 are in flight: the other 27 wait
			{4, 30, 4},
			{31, 31, 31},
			{0, 30, 1}, // R8166-3.3.1-2: a grant of 0 counts as 1
			{1, 29, 1},
			{40, 40, 40},
			{1000, 40, 40}, // more than the requester asked for
			{1<<32 - 1, 40, 40},
			{16, 39, 16},
		} {
			g.answerOldest(tt.grant)
			assert.Len(t, g.unanswered, tt.under, "%v", tt)
			assert.Equal(t, tt.granted, c.Credits())
		}
		for len(g.unanswered) > 16 {
			g.answerOldest(16)
		}
		for range 20 {
			g.answerOldest(16)
			assert.Len(t, g.unanswered, 16)
		}
		for len(g.unanswered) > 1 {
			g.answerOldest(1)
		}
		for len(g.unanswered) > 0 {
			g.answerOldest(1)
			assert.LessOrEqual(t, len(g.unanswered), 1)
		}
		assert.Empty(t, g.results)
	})
}

// TestNoOverrun checks that a server with exactly as many receives as it grants
// is never overrun, not even by cancelled calls (R8166-3.3.1-1): their credits
// return with their replies.
func TestNoOverrun(t *testing.T) {
	const grant = 5
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		p.requireSuccess(c)
		g := &callerGroup{t: t, c: c, p: p, results: make(chan error, 100)}
		g.startCalls(1)
		g.answerOldest(grant)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []<-chan error
		for range grant {
			gone = append(gone, startCall(ctx, c, replyCall()))
		}
		g.recordCalls()
		cancel()
		for _, done := range gone {
			assert.ErrorIs(t, callError(t, done), context.Canceled)
		}
		g.startCalls(grant)
		assert.Len(t, g.unanswered, grant, "no credit is free")
		for i, h := range g.unanswered {
			p.sendReply(h, wire.Header{Credit: grant})
			assert.Len(t, p.newCalls(), 1, i)
		}
		assert.Len(t, c.calls, grant)
	})
}

// TestClientUp checks that the longest waiter gets a credit first, and that a
// call that leaves the line takes none.
func TestClientUp(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		var done []<-chan error
		var ends []context.CancelCauseFunc
		for i := range 6 {
			ctx, cancel := context.WithCancelCause(t.Context())
			x := &oncrpc.Exchange{Proc: uint32(i)}
			done, ends = append(done, startCall(ctx, c, x)), append(ends, cancel)
			synctest.Wait()
		}
		cause := errors.New("no patience")
		for _, i := range []int{1, 3} {
			ends[i](cause)
			assert.ErrorIs(t, callError(t, done[i]), cause)
		}
		for _, i := range []int{0, 2, 4, 5} {
			h := p.onlyCall()
			assert.EqualValues(t, i, h.body[23], "procedure")
			p.sendReply(h, wire.Header{Proc: wire.Error, Code: wire.ErrChunk, Credit: 1})
			var remote *RemoteError
			assert.ErrorAs(t, callError(t, done[i]), &remote)
		}
	})
}

// TestCreditAndCancel checks that a credit that arrives just as its caller
// leaves is not lost.
func TestCreditAndCancel(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		for range 200 {
			x, y := new(oncrpc.Exchange), new(oncrpc.Exchange)
			first := startCall(t.Context(), c, x)
			h := p.onlyCall()
			ctx, cancel := context.WithCancel(t.Context())
			second := startCall(ctx, c, y)
			synctest.Wait()
			r := wire.Header{XID: h.XID, Vers: 1, Credit: 1}
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{append(r.AppendTo(nil), appendSuccess(nil, h.XID)...)}}))
			cancel()
			require.NoError(t, callError(t, first))
			x.Release()
			require.ErrorIs(t, callError(t, second), context.Canceled)
			for _, h := range p.newCalls() { // sent, and then cancelled
				p.sendReply(h, wire.Header{Credit: 1})
			}
			require.Empty(t, c.calls)
		}
		p.requireSuccess(c)
	})
}

// TestLossGivesBack checks that the connection's end ends calls in flight,
// calls that wait for a credit, and abandoned calls, and releases their memory.
func TestLossGivesBack(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		p.requireSuccess(c)
		g := &callerGroup{t: t, c: c, p: p, results: make(chan error, 100)}
		g.startCalls(1)
		g.answerOldest(3)
		ctx, cancel := context.WithCancel(t.Context())
		x := itemCall()
		x.Item = rampBytes(5000)
		gone := startCall(ctx, c, x)
		g.recordCalls()
		cancel()
		assert.ErrorIs(t, callError(t, gone), context.Canceled)
		g.startCalls(10)
		assert.Len(t, g.unanswered, 3)
		cause := errors.New("cable cut")
		p.Abort(cause)
		for range 10 {
			err := <-g.results
			assert.ErrorIs(t, err, rdma.ErrClosed)
			assert.ErrorIs(t, err, cause)
		}
		assert.ErrorIs(t, c.Call(t.Context(), x), rdma.ErrClosed, "from then on")
	})
}
