package rpcrdma

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A resumingGate is a gate whose calls may be repeated.
type resumingGate struct {
	gate
	first context.Context // the first call's context
}

func (g *resumingGate) Resumes() bool { return true }

func (g *resumingGate) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	g.mu.Lock()
	if g.first == nil {
		g.first = ctx
	}
	g.mu.Unlock()
	return g.gate.Serve(ctx, req, rep)
}

// occupyConns makes a host take as many connections, out of 16, as the server grants, one per
// second, with a call in flight on each, and returns the connections.
func (r *testServer) occupyConns(host byte) (all []*requester) {
	for range 16 {
		q := &requester{t: r.t}
		if !r.tryDialFrom(host, q) {
			continue
		}
		all = append(all, q)
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		time.Sleep(time.Second)
	}
	synctest.Wait()
	return all
}

// tryDialFrom connects q, or returns false if it was rejected.
func (r *testServer) tryDialFrom(host byte, q *requester) bool {
	r.tap.from = &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: 1000}
	c, err := r.listen.Dial(r.t.Context(), rdma.ConnConfig{Handler: q, PrivateData: linux.AppendTo(nil), RecvSize: 1 << 12, Recvs: 1 << 10})
	if err != nil {
		return false
	}
	q.Conn = c
	return true
}

// TestPlacesForOthers checks that one party cannot keep others out by
// connections with calls in flight: the last eighth is reserved for others, and
// if that is taken, the connection whose calls have made no progress for
// longest is ended (R5042-6.4.1-1).
func TestPlacesForOthers(t *testing.T) {
	g := new(resumingGate)
	withServer(t, &Server{Handler: g, MaxConns: 16}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		all := r.occupyConns(1)
		require.Len(t, all, 14)
		for host := range byte(3) {
			q := &requester{t: t}
			assert.True(t, r.tryDialFrom(2+host, q), host)
			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
			synctest.Wait()
		}
		s := r.Stats()
		assert.Equal(t, [2]uint64{2, 1}, [2]uint64{s.Refused, s.Replaced})
		assert.Len(t, all[0].closeErrors(), 1, "the oldest")
		assert.ErrorIs(t, context.Cause(g.first), ErrBound)
		for _, q := range all[1:] {
			assert.Empty(t, q.closeErrors())
		}
		close(g.open)
		synctest.Wait()
		assert.Equal(t, 16, r.Stats().Now)
	})
}

// TestPlacesOfCallsThatStay checks that calls that may not be repeated keep
// their connections.
func TestPlacesOfCallsThatStay(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxConns: 16}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		defer close(g.open)
		r.occupyConns(1)
		require.Len(t, r.occupyConns(2), 2)
		assert.False(t, r.tryDialFrom(3, &requester{t: t}))
		assert.Zero(t, r.Stats().Replaced)
	})
}

// TestPlacesOfCallsThatHang checks that few connections have lost their places
// and still exist because their calls do not end.
func TestPlacesOfCallsThatHang(t *testing.T) {
	g := new(resumingGate)
	withServer(t, &Server{Handler: g, MaxConns: 16}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		r.occupyConns(1)
		n := 0
		for host := range byte(8) {
			q := &requester{t: t}
			if r.tryDialFrom(2+host, q) {
				n++
				q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				synctest.Wait()
			}
		}
		assert.Equal(t, 4, n, "two in free places, two in others'")
		assert.Equal(t, 18, r.Stats().Now)
		close(g.open)
		synctest.Wait()
		assert.Equal(t, 16, r.Stats().Now)
	})
}

// TestPlacesOfStalled checks that connections whose calls hold all memory, or wait for it, lose
// their places when others need that memory, that each end of a connection gives its place back,
// and that the same clients can then come back, again and again.
func TestPlacesOfStalled(t *testing.T) {
	s := newTightServer(new(gate))
	s.Handler, s.MaxConns, s.MaxMemory = null, 16, 2*s.MaxMemory
	withServer(t, s, func(t *testing.T, r *testServer) {
		for round := range 3 {
			var stalled []*requester
			for i := range 14 {
				q := r.dialFrom(1 + byte(i%2))
				q.Delay(time.Hour)
				for xid := range uint32(4) {
					q.writeLarge(xid)
				}
				stalled = append(stalled, q)
			}
			waits := r.dialFrom(3)
			assert.Equal(t, 15, r.Stats().Now)
			time.Sleep(time.Hour) // the calls arrive
			synctest.Wait()
			waits.writeLarge(testXID)
			require.Empty(t, waits.newAnswers())
			time.Sleep(fairshare.PressTime)
			assert.Len(t, waits.newAnswers(), 1)
			cut := 0
			for _, q := range stalled {
				cut += len(q.closeErrors())
				q.Abort(nil)
			}
			assert.Positive(t, cut)
			assert.NoError(t, waits.Close())
			synctest.Wait()
			now := r.Stats()
			assert.Zero(t, now.Now)
			assert.Zero(t, now.Memory.InUse)
			assert.EqualValues(t, 15*(round+1), now.Total)
			assert.Zero(t, now.Refused)
		}
	})
}

// TestPlacesToldToLinks checks that an ExtensionHandler learns that its
// connection was ended for the server's bound, and not for its client's fault.
func TestPlacesToldToLinks(t *testing.T) {
	theirs, ours := new(extensionRecorder), new(extensionRecorder)
	withServer(t, &Server{Handler: null, MaxConns: 1, Extensions: theirs.newConfig(4)}, func(t *testing.T, r *testServer) {
		c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: ours.newConfig(4)})
		require.NoError(t, err)
		synctest.Wait()
		r.dialLinux()
		require.Len(t, theirs.closeErrors(), 1)
		assert.ErrorIs(t, theirs.closeErrors()[0], ErrBound)
		assert.ErrorIs(t, errOverLimit, ErrBound)
		_ = c.Close()
	})
}
