package rpcrdma

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCancelled cancels a call with each kind of memory. It checks that the
// memory is the caller's again, although the server still reads and writes at
// the advertised addresses (R8166-4.4.1-2, R8166-4.4.1-1). That costs neither
// the server nor other calls the connection; the STags die with the late reply.
func TestCancelled(t *testing.T) {
	for _, invalidate := range []bool{false, true} {
		withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
			x := itemCall()
			x.Item = rampBytes(5000)
			ctx, cancel := context.WithCancel(t.Context())
			done := startCall(ctx, c, x)
			h := p.onlyCall()
			read, write := h.Lists.Reads[0].Segment, h.Lists.Write(0)[0]
			p.writeMemory(write, rampBytes(10))
			assert.Equal(t, rampBytes(10), x.Sink[:10])
			cancel()
			assert.ErrorIs(t, callError(t, done), context.Canceled)
			clear(x.Item) // now the caller's own
			clear(x.Sink)
			x.Proc = 99

			assert.Equal(t, rampBytes(5000), p.readMemory(read), "the call's text")
			p.writeMemory(write, rampBytes(5001))
			assert.Equal(t, make([]byte, 5001), x.Sink)
			h.Lists.Reads = nil
			r := wire.Header{XID: h.XID, Vers: 1, Credit: 9, Lists: h.Lists}
			wr := rdma.WR{Op: rdma.OpSend, Data: [][]byte{append(r.AppendTo(nil), appendSuccess(nil, h.XID)...)}}
			wr.WithInvalidate, wr.Invalidate = invalidate, rdma.STag(write.Handle)
			require.NoError(t, p.Post(wr))
			synctest.Wait()
			assert.Empty(t, p.watched.live)
			assert.Empty(t, c.calls)
			assert.Equal(t, 9, c.Credits())
			p.requireSuccess(c)
			assert.False(t, p.isLost())

			p.writeMemory(write, rampBytes(1)) // R8166-8.1.3-1: the RPC is over
			assert.True(t, p.isLost())
		})
	}
}

// TestCancelledHeldUp checks that a server that does not take the bytes that it
// reads delays only that call's end: other calls are answered during that time.
func TestCancelledHeldUp(t *testing.T) {
	withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		x := itemCall()
		x.Item = rampBytes(5000)
		ctx, cancel := context.WithCancel(t.Context())
		done := startCall(ctx, c, x)
		h := p.onlyCall()
		cancel()
		assert.ErrorIs(t, callError(t, done), context.Canceled)
		hold := make(chan struct{})
		p.watched.onEnd = func(*exposure) { <-hold }
		p.sendReply(h, wire.Header{Proc: wire.Msg})
		p.watched.onEnd = nil
		p.requireSuccess(c)
		assert.NotEmpty(t, p.watched.live)
		close(hold)
		require.NoError(t, c.Close())
		assert.Empty(t, p.watched.live)
	})
}

// TestCancelledLong checks the same for the call's own memory: a Reply chunk,
// and a message at position zero.
func TestCancelledLong(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		x := replyCall()
		x.Args = rampBytes(3000)
		ctx, cancel := context.WithCancel(t.Context())
		done := startCall(ctx, c, x)
		h := p.onlyCall()
		whole := p.wholeMessage(h)
		cancel()
		assert.ErrorIs(t, callError(t, done), context.Canceled)
		clear(x.Args)
		assert.Equal(t, whole, p.wholeMessage(h))
		p.writeMemory(h.Lists.Reply[0], rampBytes(int(h.Lists.Reply[0].Length)))
		p.sendReply(h, wire.Header{Proc: wire.NoMsg, Lists: chunks.Lists{Reply: h.Lists.Reply, HasReply: true}})
		assert.Empty(t, p.watched.live)
		p.requireSuccess(c)
	})
}

// TestCancelledRigid checks that, if the provider cannot exchange memory, the
// server's access ends with the call; a later access costs the connection
// (R8166-4.4.1-2).
func TestCancelledRigid(t *testing.T) {
	withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		p.watched.noRemap = true
		x := itemCall()
		ctx, cancel := context.WithCancel(t.Context())
		done := startCall(ctx, c, x)
		h := p.onlyCall()
		cancel()
		assert.ErrorIs(t, callError(t, done), context.Canceled)
		assert.Empty(t, p.watched.live)
		p.writeMemory(h.Lists.Write(0)[0], rampBytes(1))
		assert.True(t, p.isLost())
		assert.Equal(t, make([]byte, 5001), x.Sink)
	})
}

// TestCancelledLate checks that a call that is cancelled just as its reply
// arrives leaks nothing.
func TestCancelledLate(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		for range 200 {
			x := replyCall()
			ctx, cancel := context.WithCancel(t.Context())
			done := startCall(ctx, c, x)
			h := p.onlyCall()
			r := wire.Header{XID: h.XID, Vers: 1, Credit: 1}
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{append(r.AppendTo(nil), appendSuccess(nil, h.XID)...)}}))
			cancel()
			if err := callError(t, done); err == nil {
				x.Release()
			}
			require.Empty(t, c.calls)
			require.Empty(t, p.watched.live)
		}
	})
}

// TestCancelledAnswered checks that a call that is cancelled after its reply has
// arrived, and before the caller took the reply, leaks nothing.
func TestCancelledAnswered(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		o, err := c.acquireCredit(t.Context(), replyCall(), 0, false)
		require.NoError(t, err)
		require.NoError(t, o.sendCall())
		h := p.onlyCall()
		r := wire.Header{XID: h.XID, Vers: 1, Credit: 1}
		require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{append(r.AppendTo(nil), appendSuccess(nil, h.XID)...)}}))
		synctest.Wait()
		require.Len(t, o.outcomes, 1)
		o.abandonCall()
		assert.Empty(t, c.calls)
		assert.Empty(t, p.watched.live)
	})
}

// TestFreshSTags checks that each call has its own STags, on each connection,
// that are valid until its reply and dead afterwards (R8166-8.1.2-1,
// R8166-8.1.3-1, R8166-3.4.5.1-1).
func TestFreshSTags(t *testing.T) {
	withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		seen := make(map[uint32]bool)
		for range 50 {
			x := itemCall()
			x.Item = rampBytes(5000)
			done := startCall(t.Context(), c, x)
			h := p.onlyCall()
			for _, s := range []chunks.Segment{h.Lists.Reads[0].Segment, h.Lists.Write(0)[0]} {
				assert.False(t, seen[s.Handle])
				seen[s.Handle] = true
			}
			assert.Len(t, p.watched.live, 2)
			p.readMemory(h.Lists.Reads[0].Segment)
			p.sendReply(h, wire.Header{})
			require.NoError(t, callError(t, done))
			assert.Empty(t, p.watched.live)
			x.Release()
		}
	})
}
