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

// A crowd is callers of one client, each with one call.
type crowd struct {
	t    *testing.T
	c    *ClientConn
	p    *puppet
	ends chan error
	out  []heard // unanswered
}

func (g *crowd) start(n int) {
	for range n {
		go func() {
			x := new(oncrpc.Exchange)
			err := g.c.Call(g.t.Context(), x)
			x.Release()
			g.ends <- err
		}()
	}
	g.look()
}

// look records the messages that have arrived, and checks that each of the
// requester's receives is for a call (R8166-3.3.1-7).
func (g *crowd) look() {
	g.out = append(g.out, g.p.heard()...)
	assert.Equal(g.t, len(g.out), g.c.conn.(*watchedConn).Conn.(interface{ Recvs() int }).Recvs())
}

// answer answers the oldest call, with a grant.
func (g *crowd) answer(grant int) {
	g.t.Helper()
	h := g.out[0]
	g.out = g.out[1:]
	r := wire.Header{XID: h.XID, Vers: 1, Credit: uint32(grant)}
	g.p.say(r.AppendTo(nil), appendSuccess(nil, h.XID))
	assert.NoError(g.t, <-g.ends)
	g.look()
}

// TestGrants grows and shrinks grants, even below the calls under way. It
// checks that no call is sent that exceeds the last grant (R8166-3.3.1-1,
// R8166-3.3.1-3, R8166-3.3.1-5, R8166-3.3.3-2, R8166-3.3.3-3).
func TestGrants(t *testing.T) {
	withPuppet(t, nil, ClientConnConfig{Credits: 40}, func(t *testing.T, c *ClientConn, p *puppet) {
		g := &crowd{t: t, c: c, p: p, ends: make(chan error, 1000)}
		g.start(300)
		assert.Len(t, g.out, 1, "R8166-3.3.3-2: alone until its reply")
		assert.EqualValues(t, 40, g.out[0].Credit, "R8166-3.3.1-4")
		for _, tt := range []struct{ grant, under, granted int }{
			{32, 32, 32},
			{4, 31, 4}, // 31 are under way: the other 27 wait
			{4, 30, 4},
			{31, 31, 31},
			{0, 30, 1}, // R8166-3.3.1-2: a grant of 0 counts as 1
			{1, 29, 1},
			{40, 40, 40},
			{1000, 40, 40}, // more than the requester asked for
			{1<<32 - 1, 40, 40},
			{16, 39, 16},
		} {
			g.answer(tt.grant)
			assert.Len(t, g.out, tt.under, "%v", tt)
			assert.Equal(t, tt.granted, c.Credits())
		}
		for len(g.out) > 16 {
			g.answer(16)
		}
		for range 20 {
			g.answer(16)
			assert.Len(t, g.out, 16)
		}
		for len(g.out) > 1 {
			g.answer(1)
		}
		for len(g.out) > 0 {
			g.answer(1)
			assert.LessOrEqual(t, len(g.out), 1)
		}
		assert.Empty(t, g.ends)
	})
}

// TestNoOverrun checks that a server with exactly as many receives as it grants
// is never overrun, not even by cancelled calls (R8166-3.3.1-1): their credits
// return with their replies.
func TestNoOverrun(t *testing.T) {
	const grant = 5
	withPuppet(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *puppet) {
		p.works(c)
		g := &crowd{t: t, c: c, p: p, ends: make(chan error, 100)}
		g.start(1)
		g.answer(grant)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []<-chan error
		for range grant {
			gone = append(gone, begin(ctx, c, replyCall()))
		}
		g.look()
		cancel()
		for _, done := range gone {
			assert.ErrorIs(t, went(t, done), context.Canceled)
		}
		g.start(grant)
		assert.Len(t, g.out, grant, "no credit is free")
		for i, h := range g.out {
			p.reply(h, wire.Header{Credit: grant})
			assert.Len(t, p.heard(), 1, i)
		}
		assert.Len(t, c.calls, grant)
	})
}

// TestClientUp checks that the longest waiter gets a credit first, and that a
// call that leaves the line takes none.
func TestClientUp(t *testing.T) {
	withPuppet(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *puppet) {
		var done []<-chan error
		var ends []context.CancelCauseFunc
		for i := range 6 {
			ctx, cancel := context.WithCancelCause(t.Context())
			x := &oncrpc.Exchange{Proc: uint32(i)}
			done, ends = append(done, begin(ctx, c, x)), append(ends, cancel)
			synctest.Wait()
		}
		cause := errors.New("no patience")
		for _, i := range []int{1, 3} {
			ends[i](cause)
			assert.ErrorIs(t, went(t, done[i]), cause)
		}
		for _, i := range []int{0, 2, 4, 5} {
			h := p.call()
			assert.EqualValues(t, i, h.body[23], "procedure")
			p.reply(h, wire.Header{Proc: wire.Error, Code: wire.ErrChunk, Credit: 1})
			var remote *RemoteError
			assert.ErrorAs(t, went(t, done[i]), &remote)
		}
	})
}

// TestCreditAndCancel checks that a credit that arrives just as its caller
// leaves is not lost.
func TestCreditAndCancel(t *testing.T) {
	withPuppet(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *puppet) {
		for range 200 {
			x, y := new(oncrpc.Exchange), new(oncrpc.Exchange)
			first := begin(t.Context(), c, x)
			h := p.call()
			ctx, cancel := context.WithCancel(t.Context())
			second := begin(ctx, c, y)
			synctest.Wait()
			r := wire.Header{XID: h.XID, Vers: 1, Credit: 1}
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{append(r.AppendTo(nil), appendSuccess(nil, h.XID)...)}}))
			cancel()
			require.NoError(t, went(t, first))
			x.Release()
			require.ErrorIs(t, went(t, second), context.Canceled)
			for _, h := range p.heard() { // sent, and then cancelled
				p.reply(h, wire.Header{Credit: 1})
			}
			require.Empty(t, c.calls)
		}
		p.works(c)
	})
}

// TestLossGivesBack checks that the end of the connection ends calls under way,
// calls that wait for a credit, and abandoned calls, and releases their memory.
func TestLossGivesBack(t *testing.T) {
	withPuppet(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *puppet) {
		p.works(c)
		g := &crowd{t: t, c: c, p: p, ends: make(chan error, 100)}
		g.start(1)
		g.answer(3)
		ctx, cancel := context.WithCancel(t.Context())
		x := itemCall()
		x.Item = ramp(5000)
		gone := begin(ctx, c, x)
		g.look()
		cancel()
		assert.ErrorIs(t, went(t, gone), context.Canceled)
		g.start(10)
		assert.Len(t, g.out, 3)
		cause := errors.New("cable cut")
		p.Abort(cause)
		for range 10 {
			err := <-g.ends
			assert.ErrorIs(t, err, rdma.ErrClosed)
			assert.ErrorIs(t, err, cause)
		}
		assert.ErrorIs(t, c.Call(t.Context(), x), rdma.ErrClosed, "from then on")
	})
}
