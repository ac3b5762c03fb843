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

// A resuming is a gate whose calls may be repeated.
type resuming struct {
	gate
	first context.Context // of the first call
}

func (g *resuming) Resumes() bool { return true }

func (g *resuming) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	g.mu.Lock()
	if g.first == nil {
		g.first = ctx
	}
	g.mu.Unlock()
	return g.gate.Serve(ctx, req, rep)
}

// occupy makes a host take as many of 16 connections as the server grants, one
// per second, with a call under way on each, and returns the connections.
func (r *rig) occupy(host byte) (all []*requester) {
	for range 16 {
		q := &requester{t: r.t}
		if !r.tryFrom(host, q) {
			continue
		}
		all = append(all, q)
		q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
		time.Sleep(time.Second)
	}
	synctest.Wait()
	return all
}

// tryFrom connects q, or returns false if it was rejected.
func (r *rig) tryFrom(host byte, q *requester) bool {
	r.tap.from = &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: 1000}
	c, err := r.listen.Dial(r.t.Context(), rdma.ConnConfig{Handler: q, PrivateData: linux.AppendTo(nil), RecvSize: 1 << 12, Recvs: 1 << 10})
	if err != nil {
		return false
	}
	q.Conn = c
	return true
}

// TestPlacesForOthers checks that one party cannot keep others out by
// connections with calls under way: the last eighth of the places is reserved
// for others, and if that is taken, the connection whose calls have made no
// progress for longest is ended (R5042-6.4.1-1).
func TestPlacesForOthers(t *testing.T) {
	g := new(resuming)
	serve(t, &Server{Handler: g, MaxConns: 16}, func(t *testing.T, r *rig) {
		g.open = make(chan struct{})
		all := r.occupy(1)
		require.Len(t, all, 14)
		for host := range byte(3) {
			q := &requester{t: t}
			assert.True(t, r.tryFrom(2+host, q), host)
			q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
			synctest.Wait()
		}
		s := r.Stats()
		assert.Equal(t, [2]uint64{2, 1}, [2]uint64{s.Refused, s.Replaced})
		assert.Len(t, all[0].ended(), 1, "the oldest")
		assert.ErrorIs(t, context.Cause(g.first), ErrBound)
		for _, q := range all[1:] {
			assert.Empty(t, q.ended())
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
	serve(t, &Server{Handler: g, MaxConns: 16}, func(t *testing.T, r *rig) {
		g.open = make(chan struct{})
		defer close(g.open)
		r.occupy(1)
		require.Len(t, r.occupy(2), 2)
		assert.False(t, r.tryFrom(3, &requester{t: t}))
		assert.Zero(t, r.Stats().Replaced)
	})
}

// TestPlacesOfCallsThatHang checks that few connections have lost their places
// and still exist because their calls do not end.
func TestPlacesOfCallsThatHang(t *testing.T) {
	g := new(resuming)
	serve(t, &Server{Handler: g, MaxConns: 16}, func(t *testing.T, r *rig) {
		g.open = make(chan struct{})
		r.occupy(1)
		n := 0
		for host := range byte(8) {
			q := &requester{t: t}
			if r.tryFrom(2+host, q) {
				n++
				q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
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
	s := tight(new(gate))
	s.Handler, s.MaxConns, s.MaxMemory = null, 16, 2*s.MaxMemory
	serve(t, s, func(t *testing.T, r *rig) {
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
			require.Empty(t, waits.answers())
			time.Sleep(fairshare.PressTime)
			assert.Len(t, waits.answers(), 1)
			cut := 0
			for _, q := range stalled {
				cut += len(q.ended())
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
// connection was ended because of a bound of the server, and not because of its
// client.
func TestPlacesToldToLinks(t *testing.T) {
	theirs, ours := new(side), new(side)
	serve(t, &Server{Handler: null, MaxConns: 1, Extensions: theirs.config(4)}, func(t *testing.T, r *rig) {
		c, err := DialConn(t.Context(), &dialer{l: r.listen}, "", ClientConnConfig{Extensions: ours.config(4)})
		require.NoError(t, err)
		synctest.Wait()
		r.dialLinux()
		require.Len(t, theirs.ends(), 1)
		assert.ErrorIs(t, theirs.ends()[0], ErrBound)
		assert.ErrorIs(t, errOverLimit, ErrBound)
		_ = c.Close()
	})
}
