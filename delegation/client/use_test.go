package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// TestOpenClose checks that a held object is served without an atomic operation
// while in use, and with one while unused. A change silently reclaims an unused
// delegation.
func TestOpenClose(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o, ctx := r.newObject("file"), t.Context()
		assert.True(t, r.Available(o))
		assert.False(t, o.Open(ctx), "no delegation is held")
		assert.False(t, o.Check(ctx))
		g := r.acquireObject(o)
		assert.Equal(t, delegation.FileData, g.Types)
		assert.EqualValues(t, 1, g.Attr[0], "the grant carried the attributes")
		assert.Equal(t, delegation.FileData, o.Types())
		o.Close()
		assert.True(t, o.Trust() > 0, "one user")
		assert.True(t, o.Open(ctx))
		assert.True(t, o.Check(ctx))
		assert.Zero(t, r.Stats().Atomics)
		o.Close()
		o.Close()
		assert.False(t, o.Trust() > 0)

		assert.True(t, o.Check(ctx))
		assert.False(t, o.Trust() > 0, "once")
		assert.True(t, o.Open(ctx))
		assert.True(t, o.Trust() > 0)
		assert.EqualValues(t, 2, r.Stats().Atomics)
		o.Close()

		assert.True(t, r.isReclaimable("file"))
		assert.False(t, o.Open(ctx), "the generation has ended")
		o.Close()
		assert.Zero(t, o.Types())
		assert.Equal(t, []*Object{o}, r.takeDropped())
		assert.Equal(t, Stats{Asked: 1, Granted: 1, Served: 4, Atomics: 3}, r.Stats())
	})
}

// TestRecall checks that a change by another client waits until a delegation in
// use has been dropped.
func TestRecall(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o, other := r.heldObject("file"), r.heldObject("other")
		r.hold = make(chan struct{})
		go func() {
			time.Sleep(firstPause / 2)
			assert.Equal(t, []*Object{o}, r.takeDropped())
			assert.False(t, o.Trust() > 0)
			assert.False(t, o.Open(t.Context()))
			o.Close()
			assert.Zero(t, r.acquireObject(o).Types, "not before the last is done")
			close(r.hold)
		}()
		assert.Equal(t, firstPause/2, r.server.changeObject("file", func() {}))
		assert.True(t, other.Trust() > 0)
		assert.EqualValues(t, 1, r.Stats().Held)
		o.Close()

		// Asking again at once is not worthwhile.
		asked := r.Stats().Asked
		assert.Zero(t, r.acquireObject(o).Types)
		assert.Equal(t, asked, r.Stats().Asked)
		time.Sleep(firstPause)
		assert.NotZero(t, r.acquireObject(o).Types)
		assert.Empty(t, r.server.cuts)
	})
}

// TestRecallDuringUse checks that an atomic operation's response that arrives
// after a recall has no effect, and that kind 2 waits for it.
func TestRecallDuringUse(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.heldObject("file")
		o.Close()
		synctest.Wait()
		r.lastConn().Delay(time.Second) // the client's posts
		var opened bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			opened = o.Open(t.Context())
		}()
		synctest.Wait()
		r.server.lastConn().postRecall(1, 1) // the server already knows of the use
		assert.Equal(t, []*Object{o}, r.takeDropped())
		<-done
		assert.False(t, opened)
		o.Close()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Len(t, r.server.cuts, 1, "the Grantor sent no recall")
		assert.ErrorIs(t, r.server.cuts[0], delegation.ErrNoRecall)
	})
}

// TestOpenCancelled checks that an Open that stops waiting for the response has
// opened nothing, and that its use is still closed.
func TestOpenCancelled(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.heldObject("file")
		o.Close()
		synctest.Wait()
		r.lastConn().Delay(time.Second)
		for range 2 { // the second call validates the use that the first began
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			assert.False(t, o.Open(ctx))
			cancel()
		}
		o.Close()
		o.Close()
		r.lastConn().Delay(0)
		time.Sleep(3 * time.Second)
		assert.True(t, r.isReclaimable("file"), "opens is 0 again")
	})
}

// TestDisconnect checks that all delegations end with the connection, and that
// the next connection holds none.
func TestDisconnect(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		a, b := r.heldObject("a"), r.heldObject("b")
		b.Close()
		ended := r.Set.attachments[0].usableConn()
		r.lastConn().Abort(context.Canceled)
		assert.ElementsMatch(t, []*Object{a, b}, r.takeDropped())
		assert.False(t, r.Available(a))
		assert.False(t, a.Trust() > 0)
		assert.False(t, a.Check(t.Context()))
		assert.Zero(t, r.acquireObject(a).Types, "no connection")
		require.NoError(t, r.callNull(0))
		ended.Closed(nil) // may be late
		assert.True(t, r.Available(a))
		assert.NotZero(t, r.acquireObject(a).Types)
		a.Close()
		assert.True(t, a.Trust() > 0, "the first use is of the new holding now")
		a.Close()
		assert.False(t, a.Trust() > 0)
	})
}

// TestDisconnectDuringUse checks that an operation in flight ends when the
// connection closes.
func TestDisconnectDuringUse(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.heldObject("file")
		o.Close()
		synctest.Wait()
		r.lastConn().Delay(time.Hour)
		time.AfterFunc(time.Second, func() { r.lastConn().Abort(context.Canceled) })
		assert.False(t, o.Open(t.Context()))
		o.Close()
		assert.Equal(t, []*Object{o}, r.takeDropped())
	})
}

// TestForget checks that the server may reclaim a forgotten delegation, and
// that the client keeps no state for it.
func TestForget(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.heldObject("file")
		require.True(t, o.Open(t.Context()))
		r.Forget(o)
		assert.Zero(t, r.Stats().Held)
		assert.Zero(t, r.acquireObject(o).Types)
		assert.True(t, r.isReclaimable("file"))
		assert.Empty(t, r.takeDropped())

		// The next Object with that handle receives the delegation that the
		// server still counts.
		r.Forget(r.heldObject("again"))
		o = r.heldObject("again")
		o.Close()

		// An operation in progress completes first.
		synctest.Wait()
		r.lastConn().Delay(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		assert.False(t, o.Open(ctx))
		r.Forget(o)
		assert.NotZero(t, r.Stats().Held)
		r.lastConn().Delay(0)
		time.Sleep(3 * time.Second)
		assert.Zero(t, r.Stats().Held)
		assert.True(t, r.isReclaimable("again"))
	})
}

// TestNothing checks that a zero Object holds nothing, and neither does an
// Object on a mount without the extension.
func TestNothing(t *testing.T) {
	var s *Set
	for _, init := range []func(o *Object){
		func(*Object) {},
		func(o *Object) { s.Init(o, []byte("file"), 7) },
		func(o *Object) { New(Config{}).Init(o, []byte("file"), 7) },
	} {
		o := new(Object)
		init(o)
		assert.False(t, s.Available(o))
		assert.False(t, o.Open(t.Context()))
		assert.False(t, o.Trust() > 0)
		assert.Zero(t, o.Types())
		o.Close()
		s.Forget(o)
		g, err := s.Acquire(t.Context(), o, delegation.FileData, nobody)
		require.NoError(t, err)
		assert.Zero(t, g)
	}
	s.Saw(7)
	assert.Zero(t, s.ServerTime())
	assert.Zero(t, s.Stats())
	s.Close()
}
