package recall

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// TestOneLimit checks that all waits of a change together have one limit, whichever holders it
// waits for, and that the change has a new limit when it is tried again.
func TestOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		first, _ := holdObject(t, table, 1, false, "first")
		last, _ := holdObject(t, table, 2, false, "last")
		var ch Change
		begin := func(key string) bool { return table.Begin(&ch, Changer{}, []byte(key)) }
		wait := func() error { return table.Wait(t.Context(), &ch, fairshare.Name{}) }

		start := time.Now()
		time.AfterFunc(MaxWait*3/4, first.Return)
		require.False(t, begin("first"))
		require.NoError(t, wait())
		require.True(t, begin("first"))
		require.False(t, begin("last"))
		assert.ErrorIs(t, wait(), ErrTryLater)
		assert.Equal(t, MaxWait, time.Since(start))

		time.AfterFunc(MaxWait*3/4, last.Return)
		require.True(t, begin("first"))
		require.False(t, begin("last"))
		assert.NoError(t, wait())
		assert.Equal(t, MaxWait*7/4, time.Since(start))
		table.Done(&ch)
		assert.Zero(t, table.total.n.Load())
	})
}

// TestRetryPause checks that an object that was held by a holder with a RetryPause can be held again
// as soon as a change is complete, but not for the RetryPause after a change that must be tried
// again has waited for it, whatever the reason. The other holders' pauses do not concern a holder
// with a RetryPause.
func TestRetryPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 5 * time.Second
		table := newTable()
		hold := func(pause time.Duration) *Holder {
			h := &Holder{RetryPause: pause, Recall: func(Changer) {}}
			if !table.Hold(h, []byte("x")) {
				return nil
			}
			require.True(t, h.Confirm())
			return h
		}
		var ch Change
		wait := func(ctx context.Context) error {
			require.False(t, table.Begin(&ch, Changer{}, []byte("x")))
			return table.Wait(ctx, &ch, fairshare.Name{})
		}
		h := hold(pause)
		time.AfterFunc(MaxWait/2, h.Return)
		require.NoError(t, wait(t.Context()))
		assert.Nil(t, hold(pause), "the change runs")
		table.Done(&ch)
		h = hold(pause)
		require.NotNil(t, h)

		full := func() {
			for table.places.Take(fairshare.Name{}) {
			}
		}
		for _, occupy := range []func(){func() {}, full} {
			occupy()
			require.ErrorIs(t, wait(t.Context()), ErrTryLater)
			h.Return()
			assert.Nil(t, hold(pause))
			assert.Nil(t, hold(0), "nor by others")
			time.Sleep(pause - 1)
			assert.Nil(t, hold(pause))
			time.Sleep(time.Nanosecond)
			h = hold(pause)
			require.NotNil(t, h)
		}
		for table.places.Taken() > 0 {
			table.places.Give(fairshare.Name{})
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		require.ErrorIs(t, wait(ctx), gone)
		h.Return()
		h = hold(pause)
		require.NotNil(t, h, "the change is not tried again")
		h.Return()

		h = hold(0)
		require.ErrorIs(t, wait(t.Context()), ErrTryLater)
		h.Return()
		assert.Nil(t, hold(0))
		h = hold(pause)
		require.NotNil(t, h)
		h.Return()
		time.Sleep(pauseTime)
		g := table.groupOf([]byte("x"))
		g.findObject(nil, table.config.Now())
		assert.Empty(t, g.objects)
	})
}

// TestConn checks which changes are a holder's own if it is held on a connection: those on that
// connection, after Confirm.
func TestConn(t *testing.T) {
	table := newTable()
	var by []Changer
	yields := 0
	newHolder := func() *Holder {
		h := &Holder{Conn: "own", IgnoreOwner: true, RetryPause: 1, Yield: func() { yields++ }, Recall: func(c Changer) { by = append(by, c) }}
		require.True(t, table.Hold(h, []byte("x")))
		return h
	}
	var ch Change
	change := func(conn any) bool {
		defer table.Done(&ch)
		return table.Begin(&ch, Changer{Conn: conn}, []byte("x"))
	}
	h := newHolder()
	assert.False(t, change("own"), "the client may get an object that has changed")
	assert.False(t, h.Confirm())
	h.Return()

	h = newHolder()
	require.True(t, h.Confirm())
	assert.True(t, change("own"))
	assert.Equal(t, 1, yields)
	assert.Empty(t, by)
	assert.False(t, change("other"))
	assert.False(t, change(nil))
	assert.Equal(t, 1, yields)
	assert.Equal(t, []Changer{{Conn: "other"}}, by, "once")
	h.Return()
}

// TestReturnAtOnce checks that a change does not wait for a holder whose Recall returns the object.
func TestReturnAtOnce(t *testing.T) {
	table := newTable()
	h := new(Holder)
	h.Recall = func(Changer) { h.Return() }
	require.True(t, table.Hold(h, []byte("x")))
	require.True(t, h.Confirm())
	var ch Change
	assert.True(t, table.Begin(&ch, Changer{}, []byte("x")))
	assert.False(t, table.Hold(new(Holder), []byte("x")))
	table.Done(&ch)
	assert.Zero(t, table.total.n.Load())
}

// TestIsAwaited checks that a holder is awaited while a change waits for it, and after Break.
func TestIsAwaited(t *testing.T) {
	table := newTable()
	h, _ := holdObject(t, table, 1, false, "x")
	table.RecallAll()
	assert.False(t, h.IsAwaited())
	var ch Change
	require.False(t, table.Begin(&ch, Changer{}, []byte("x")))
	assert.True(t, h.IsAwaited())
	table.Done(&ch)
	assert.False(t, h.IsAwaited())
	h.Break()
	assert.True(t, h.IsAwaited())
	h.Return()
}

// TestPausesBound checks that an object's pauses occupy memory once, however often changes of the object
// are tried again, and that the last of them ends the object's place in the table.
func TestPausesBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		const pause = 3 * pauseTime
		var held []*Holder
		for _, p := range []time.Duration{pause, 0} {
			h := &Holder{RetryPause: p, Recall: func(Changer) {}}
			require.True(t, table.Hold(h, []byte("x")) && h.Confirm())
			held = append(held, h)
		}
		for table.places.Take(fairshare.Name{}) {
		}
		var ch Change
		for range 100 {
			require.False(t, table.Begin(&ch, Changer{}, []byte("x")))
			require.ErrorIs(t, table.Wait(t.Context(), &ch, fairshare.Name{}), ErrTryLater)
			time.Sleep(pauseTime / 50)
		}
		g := table.groupOf([]byte("x"))
		assert.Len(t, g.pauses, 1)
		for _, h := range held {
			h.Return()
		}
		time.Sleep(pause - pauseTime/50 - 1)
		assert.False(t, table.Hold(&Holder{RetryPause: pause}, []byte("x")), "the last pause counts")
		time.Sleep(time.Nanosecond)
		g.findObject(nil, table.config.Now())
		assert.Empty(t, g.objects)
		assert.Empty(t, g.pauses)
	})
}
