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
	run(t, func(t *testing.T, r *rig) {
		o, ctx := r.object("file"), t.Context()
		assert.True(t, r.Available(o))
		assert.False(t, o.Open(ctx), "no delegation is held")
		assert.False(t, o.Check(ctx))
		g := r.acquire(o)
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

		assert.True(t, r.unused("file"))
		assert.False(t, o.Open(ctx), "the generation has ended")
		o.Close()
		assert.Zero(t, o.Types())
		assert.Equal(t, []*Object{o}, r.drops())
		assert.Equal(t, Stats{Asked: 1, Granted: 1, Served: 4, Atomics: 3}, r.Stats())
	})
}

// TestRecall checks that a change by another client waits until a delegation in
// use has been dropped.
func TestRecall(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o, other := r.holds("file"), r.holds("other")
		r.hold = make(chan struct{})
		go func() {
			time.Sleep(firstPause / 2)
			assert.Equal(t, []*Object{o}, r.drops())
			assert.False(t, o.Trust() > 0)
			assert.False(t, o.Open(t.Context()))
			o.Close()
			assert.Zero(t, r.acquire(o).Types, "not before the last is done")
			close(r.hold)
		}()
		assert.Equal(t, firstPause/2, r.k.change("file", func() {}))
		assert.True(t, other.Trust() > 0)
		assert.EqualValues(t, 1, r.Stats().Held)
		o.Close()

		// Asking again at once is not worthwhile.
		asked := r.Stats().Asked
		assert.Zero(t, r.acquire(o).Types)
		assert.Equal(t, asked, r.Stats().Asked)
		time.Sleep(firstPause)
		assert.NotZero(t, r.acquire(o).Types)
		assert.Empty(t, r.k.cuts)
	})
}

// TestRecallDuringUse checks that the answer to an atomic operation that
// arrives behind a recall has no effect, and that kind 2 waits for that answer.
func TestRecallDuringUse(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.holds("file")
		o.Close()
		synctest.Wait()
		r.conn().Delay(time.Second) // the client's posts
		var opened bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			opened = o.Open(t.Context())
		}()
		synctest.Wait()
		r.k.last().recall(1, 1) // the server already knows of the use
		assert.Equal(t, []*Object{o}, r.drops())
		<-done
		assert.False(t, opened)
		o.Close()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Len(t, r.k.cuts, 1, "the Grantor sent no recall")
		assert.ErrorIs(t, r.k.cuts[0], delegation.ErrNoRecall)
	})
}

// TestOpenCancelled checks that an Open that stops waiting for the answer has
// opened nothing, and that its use is still closed.
func TestOpenCancelled(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.holds("file")
		o.Close()
		synctest.Wait()
		r.conn().Delay(time.Second)
		for range 2 { // the second call validates the use that the first began
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			assert.False(t, o.Open(ctx))
			cancel()
		}
		o.Close()
		o.Close()
		r.conn().Delay(0)
		time.Sleep(3 * time.Second)
		assert.True(t, r.unused("file"), "opens is 0 again")
	})
}

// TestDisconnect checks that all delegations end with the connection, and that
// the next connection holds none.
func TestDisconnect(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		a, b := r.holds("a"), r.holds("b")
		b.Close()
		ended := r.Set.lines[0].present()
		r.conn().Abort(context.Canceled)
		assert.ElementsMatch(t, []*Object{a, b}, r.drops())
		assert.False(t, r.Available(a))
		assert.False(t, a.Trust() > 0)
		assert.False(t, a.Check(t.Context()))
		assert.Zero(t, r.acquire(a).Types, "no connection")
		require.NoError(t, r.null(0))
		ended.Closed(nil) // may be late
		assert.True(t, r.Available(a))
		assert.NotZero(t, r.acquire(a).Types)
		a.Close()
		assert.True(t, a.Trust() > 0, "the first use is of the new holding now")
		a.Close()
		assert.False(t, a.Trust() > 0)
	})
}

// TestDisconnectDuringUse checks that the end of the connection also ends an
// operation under way.
func TestDisconnectDuringUse(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.holds("file")
		o.Close()
		synctest.Wait()
		r.conn().Delay(time.Hour)
		time.AfterFunc(time.Second, func() { r.conn().Abort(context.Canceled) })
		assert.False(t, o.Open(t.Context()))
		o.Close()
		assert.Equal(t, []*Object{o}, r.drops())
	})
}

// TestForget checks that the server may reclaim a forgotten delegation, and
// that the client keeps no state of it.
func TestForget(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.holds("file")
		require.True(t, o.Open(t.Context()))
		r.Forget(o)
		assert.Zero(t, r.Stats().Held)
		assert.Zero(t, r.acquire(o).Types)
		assert.True(t, r.unused("file"))
		assert.Empty(t, r.drops())

		// The next Object of that handle receives the delegation that the
		// server still counts.
		r.Forget(r.holds("again"))
		o = r.holds("again")
		o.Close()

		// An operation under way completes first.
		synctest.Wait()
		r.conn().Delay(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		assert.False(t, o.Open(ctx))
		r.Forget(o)
		assert.NotZero(t, r.Stats().Held)
		r.conn().Delay(0)
		time.Sleep(3 * time.Second)
		assert.Zero(t, r.Stats().Held)
		assert.True(t, r.unused("again"))
	})
}

// TestNothing checks that a zero Object holds nothing, and neither does an
// Object of a mount without the extension.
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
