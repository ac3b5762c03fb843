package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var nobody = rpcmsg.Cred{}

// TestRefusals checks that the server's reason determines how soon an object is
// asked for again.
func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		res      *delegation.AcquireRes
		calls    int
		early    time.Duration // still too soon
		late     time.Duration // soon enough; 0: never on this connection
		everyone bool          // applies to other objects too
	}{
		"contended": {refused(delegation.ReasonContended), 1, firstPause - 1, firstPause, false},
		"types":     {refused(delegation.ReasonTypes), 1, time.Hour, 0, false},
		"limit":     {refused(delegation.ReasonLimit), 1, fullPause - 1, fullPause, true},
		"late":      {refused(delegation.ReasonLate), 1, penalty*lateLease - 1, penalty * lateLease, true},
		"held":      {refused(delegation.ReasonHeld), 2, firstPause - 1, firstPause, false},
		"over":      {refused(delegation.ReasonOver), 1, time.Hour, 0, true},
		"unknown":   {refused(99), 1, time.Hour, 0, false},
		"no right":  {&delegation.AcquireRes{Status: delegation.StatusAcces}, 1, firstPause - 1, firstPause, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				calls := 0
				r.k.answer = func(*served, *delegation.AcquireArgs) *delegation.AcquireRes {
					calls++
					return tt.res
				}
				o := r.object("file")
				assert.Zero(t, r.acquire(o).Types)
				assert.Equal(t, tt.calls, calls)
				r.k.answer = nil
				other := r.object("other")
				assert.Equal(t, tt.everyone, r.acquire(other).Types == 0)
				time.Sleep(tt.early)
				assert.Zero(t, r.acquire(o).Types)
				if tt.late > 0 {
					time.Sleep(tt.late - tt.early)
					assert.NotZero(t, r.acquire(o).Types)
					return
				}
				r.conn().Abort(context.Canceled)
				synctest.Wait()
				require.NoError(t, r.null(0))
				assert.NotZero(t, r.acquire(o).Types, "the next connection may do better")
			})
		})
	}
}

// TestAcquireFails checks that a failed call is not repeated at once, and never
// if the server does not know the procedure.
func TestAcquireFails(t *testing.T) {
	for _, tt := range []struct {
		err   error
		again bool
	}{{oncrpc.ErrProcUnavail, false}, {oncrpc.ErrGarbageArgs, true}} {
		run(t, func(t *testing.T, r *rig) {
			r.k.fail = tt.err
			o := r.object("file")
			_, err := r.Acquire(t.Context(), o, delegation.FileData, nobody)
			require.ErrorIs(t, err, tt.err)
			r.k.fail = nil
			assert.Zero(t, r.acquire(o).Types)
			assert.EqualValues(t, 1, r.Stats().Asked)
			time.Sleep(firstPause)
			assert.Equal(t, tt.again, r.acquire(o).Types != 0)
		})
	}
}

// TestNoCounters checks that the client asks nothing of a server without
// counters, and aborts the connection if such a server recalls anyway.
func TestNoCounters(t *testing.T) {
	runWith(t, func(k *keeper) { k.slots = 0 }, 1, func(t *testing.T, r *rig) {
		o := r.object("file")
		assert.False(t, r.Available(o))
		assert.Zero(t, r.acquire(o).Types)
		assert.False(t, o.Open(t.Context()))
		o.Close()
		r.k.last().recall(1, 1)
		synctest.Wait()
		require.NoError(t, r.null(0))
		assert.Len(t, r.conns, 2)
		assert.Zero(t, r.Stats())
	})
}

// TestReluctance checks that pauses grow if an object is recalled soon each
// time, and restart if the object was held for long.
func TestReluctance(t *testing.T) {
	var r backoff
	for i := range 4 {
		r.recalled(time.Hour, time.Millisecond)
		assert.Equal(t, time.Hour+firstPause<<i, r.until)
	}
	for range 30 {
		r.postpone(0)
	}
	assert.Equal(t, maxPause, r.until)
	r.recalled(0, worthwhile*maxPause)
	assert.Equal(t, firstPause, r.until)
}

// TestAcquireOnce checks that one caller asks at a time, and that other callers
// do not wait for the reply.
func TestAcquireOnce(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o, asked := r.object("file"), make(chan struct{})
		r.k.answer = func(*served, *delegation.AcquireArgs) *delegation.AcquireRes {
			<-asked
			return nil
		}
		done := make(chan Granted)
		go func() { done <- r.acquire(o) }()
		synctest.Wait()
		assert.Zero(t, r.acquire(o).Types)
		close(asked)
		assert.NotZero(t, (<-done).Types)
		assert.Zero(t, r.acquire(o).Types, "it is held")
		assert.EqualValues(t, 1, r.Stats().Asked)
	})
}

// TestAcquireCancelled checks that a reply is used even after its caller
// stopped waiting: the granted delegation is held, and unused.
func TestAcquireCancelled(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.object("file")
		r.conn().Delay(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := r.Acquire(ctx, o, delegation.FileData, nobody)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		r.conn().Delay(0)
		time.Sleep(3 * time.Second)
		assert.Equal(t, delegation.FileData, o.Types())
		assert.False(t, o.Trust() > 0)
		assert.True(t, o.Check(t.Context()))
		assert.True(t, r.unused("file"))
	})
}

// TestRecallOvertakes checks that a delegation recalled before its reply
// arrives is returned at once, and that the reply is then void.
func TestRecallOvertakes(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.k.answer = func(s *served, args *delegation.AcquireArgs) *delegation.AcquireRes {
			a, _, _ := r.k.g.Prepare(s.conn, args.Handle, r.k.now())
			gt, _, _ := r.k.g.Commit(a, r.k.now())
			r.k.do(r.k.g.Replied(s.conn, gt)) // too soon
			assert.Less(t, r.k.change("file", func() {}), time.Second, "no caller waits for the lease")
			return grantOf(gt.Slot, gt.Generation, args.Types, lease)
		}
		o := r.object("file")
		assert.Zero(t, r.acquire(o).Types)
		assert.Zero(t, o.Types())
		assert.Empty(t, r.k.cuts)
		assert.Empty(t, r.drops())
		r.k.answer = nil
		time.Sleep(firstPause)
		assert.NotZero(t, r.acquire(o).Types)
	})
}

// TestHostileServer checks that a server that breaks the rules loses the
// connection and gets no further ACQUIRE.
func TestHostileServer(t *testing.T) {
	acquire := func(res func(n int) *delegation.AcquireRes) func(r *rig) {
		return func(r *rig) {
			n := 0
			r.k.answer = func(*served, *delegation.AcquireArgs) *delegation.AcquireRes { n++; return res(n) }
			for _, fh := range []string{"a", "b"} {
				_, _ = r.Acquire(r.t.Context(), r.object(fh), delegation.FileData, nobody)
			}
		}
	}
	for name, break_ := range map[string]func(r *rig){
		"unknown slot": acquire(func(int) *delegation.AcquireRes { return grantOf(8, 1, 1, lease) }),
		"slot 0":       acquire(func(int) *delegation.AcquireRes { return grantOf(0, 1, 1, lease) }),
		"no lease":     acquire(func(int) *delegation.AcquireRes { return grantOf(1, 1, 1, 0) }),
		"twice":        acquire(func(int) *delegation.AcquireRes { return grantOf(1, 1, 1, lease) }),
		"recall of an unknown slot": func(r *rig) {
			r.k.last().recall(8, 1)
		},
		"recall twice": func(r *rig) {
			r.hold = make(chan struct{})
			defer close(r.hold)
			r.holds("file")
			r.k.last().recall(1, 1)
			r.k.last().recall(1, 1)
			synctest.Wait()
		},
		"another kind": func(r *rig) {
			word := delegation.Immediate{Kind: delegation.KindReturned, Slot: 1, Generation: 1}.Bytes()
			assert.NoError(r.t, r.k.last().link.PostImmediate(word, nil, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				o := r.object("file")
				assert.True(t, r.Available(o))
				break_(r)
				synctest.Wait()
				assert.False(t, r.Available(o))
				r.k.answer = nil
				require.NoError(t, r.null(0), "the line has another connection")
				assert.Len(t, r.conns, 2)
				assert.False(t, r.Available(o))
				assert.Zero(t, r.acquire(o).Types)
			})
		})
	}
}
