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
		"contended": {refusedRes(delegation.ReasonContended), 1, firstPause - 1, firstPause, false},
		"types":     {refusedRes(delegation.ReasonTypes), 1, time.Hour, 0, false},
		"limit":     {refusedRes(delegation.ReasonLimit), 1, limitPause - 1, limitPause, true},
		"late":      {refusedRes(delegation.ReasonLate), 1, penaltyLeases*assumedLease - 1, penaltyLeases * assumedLease, true},
		"held":      {refusedRes(delegation.ReasonHeld), 2, firstPause - 1, firstPause, false},
		"over":      {refusedRes(delegation.ReasonOver), 1, time.Hour, 0, true},
		"unknown":   {refusedRes(99), 1, time.Hour, 0, false},
		"no right":  {&delegation.AcquireRes{Status: delegation.StatusAcces}, 1, firstPause - 1, firstPause, false},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(t *testing.T, r *testClient) {
				calls := 0
				r.server.answer = func(*fakeServerConn, *delegation.AcquireArgs) *delegation.AcquireRes {
					calls++
					return tt.res
				}
				o := r.newObject("file")
				assert.Zero(t, r.acquireObject(o).Types)
				assert.Equal(t, tt.calls, calls)
				r.server.answer = nil
				other := r.newObject("other")
				assert.Equal(t, tt.everyone, r.acquireObject(other).Types == 0)
				time.Sleep(tt.early)
				assert.Zero(t, r.acquireObject(o).Types)
				if tt.late > 0 {
					time.Sleep(tt.late - tt.early)
					assert.NotZero(t, r.acquireObject(o).Types)
					return
				}
				r.lastConn().Abort(context.Canceled)
				synctest.Wait()
				require.NoError(t, r.callNull(0))
				assert.NotZero(t, r.acquireObject(o).Types, "the next connection may do better")
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
		runTest(t, func(t *testing.T, r *testClient) {
			r.server.fail = tt.err
			o := r.newObject("file")
			_, err := r.Acquire(t.Context(), o, delegation.FileData, nobody)
			require.ErrorIs(t, err, tt.err)
			r.server.fail = nil
			assert.Zero(t, r.acquireObject(o).Types)
			assert.EqualValues(t, 1, r.Stats().Asked)
			time.Sleep(firstPause)
			assert.Equal(t, tt.again, r.acquireObject(o).Types != 0)
		})
	}
}

// TestNoCounters checks that the client sends no ACQUIRE to a server without
// counters, and aborts the connection if such a server recalls anyway.
func TestNoCounters(t *testing.T) {
	runWith(t, func(k *fakeServer) { k.slots = 0 }, 1, func(t *testing.T, r *testClient) {
		o := r.newObject("file")
		assert.False(t, r.Available(o))
		assert.Zero(t, r.acquireObject(o).Types)
		assert.False(t, o.Open(t.Context()))
		o.Close()
		r.server.lastConn().postRecall(1, 1)
		synctest.Wait()
		require.NoError(t, r.callNull(0))
		assert.Len(t, r.conns, 2)
		assert.Zero(t, r.Stats())
	})
}

// TestReluctance checks that pauses grow if an object is recalled soon each
// time, and restart if the object was held for long.
func TestReluctance(t *testing.T) {
	var r acquireBackoff
	for i := range 4 {
		r.pauseAfterRecall(time.Hour, time.Millisecond)
		assert.Equal(t, time.Hour+firstPause<<i, r.pauseEnd)
	}
	for range 30 {
		r.startPause(0)
	}
	assert.Equal(t, maxPause, r.pauseEnd)
	r.pauseAfterRecall(0, worthwhilePauses*maxPause)
	assert.Equal(t, firstPause, r.pauseEnd)
}

// TestAcquireOnce checks that one caller acquires at a time, and that other
// callers do not wait for the reply.
func TestAcquireOnce(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o, asked := r.newObject("file"), make(chan struct{})
		r.server.answer = func(*fakeServerConn, *delegation.AcquireArgs) *delegation.AcquireRes {
			<-asked
			return nil
		}
		done := make(chan AcquireResult)
		go func() { done <- r.acquireObject(o) }()
		synctest.Wait()
		assert.Zero(t, r.acquireObject(o).Types)
		close(asked)
		assert.NotZero(t, (<-done).Types)
		assert.Zero(t, r.acquireObject(o).Types, "it is held")
		assert.EqualValues(t, 1, r.Stats().Asked)
	})
}

// TestAcquireCancelled checks that a reply is used even after its caller
// stopped waiting: the granted delegation is held, and unused.
func TestAcquireCancelled(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.newObject("file")
		r.lastConn().Delay(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := r.Acquire(ctx, o, delegation.FileData, nobody)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		r.lastConn().Delay(0)
		time.Sleep(3 * time.Second)
		assert.Equal(t, delegation.FileData, o.Types())
		assert.False(t, o.Trust() > 0)
		assert.True(t, o.Check(t.Context()))
		assert.True(t, r.isReclaimable("file"))
	})
}

// TestRecallOvertakes checks that a delegation recalled before its reply
// arrives is returned at once, and that the reply is then void.
func TestRecallOvertakes(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		r.server.answer = func(s *fakeServerConn, args *delegation.AcquireArgs) *delegation.AcquireRes {
			gt, _ := s.grantObject(args.Handle)
			r.server.applyEffects(r.server.grantor.Replied(s.conn, gt)) // too soon
			assert.Less(t, r.server.changeObject("file", func() {}), time.Second, "no caller waits for the lease")
			return grantRes(gt.Slot, gt.Generation, args.Types, lease)
		}
		o := r.newObject("file")
		assert.Zero(t, r.acquireObject(o).Types)
		assert.Zero(t, o.Types())
		assert.Empty(t, r.server.cuts)
		assert.Empty(t, r.takeDropped())
		r.server.answer = nil
		time.Sleep(firstPause)
		assert.NotZero(t, r.acquireObject(o).Types)
	})
}

// TestHostileServer checks that a server that breaks the rules loses the
// connection and gets no further ACQUIRE.
func TestHostileServer(t *testing.T) {
	acquire := func(res func(n int) *delegation.AcquireRes) func(r *testClient) {
		return func(r *testClient) {
			n := 0
			r.server.answer = func(*fakeServerConn, *delegation.AcquireArgs) *delegation.AcquireRes { n++; return res(n) }
			for _, fh := range []string{"a", "b"} {
				_, _ = r.Acquire(r.t.Context(), r.newObject(fh), delegation.FileData, nobody)
			}
		}
	}
	for name, break_ := range map[string]func(r *testClient){
		"unknown slot": acquire(func(int) *delegation.AcquireRes { return grantRes(8, 1, 1, lease) }),
		"slot 0":       acquire(func(int) *delegation.AcquireRes { return grantRes(0, 1, 1, lease) }),
		"no lease":     acquire(func(int) *delegation.AcquireRes { return grantRes(1, 1, 1, 0) }),
		"twice":        acquire(func(int) *delegation.AcquireRes { return grantRes(1, 1, 1, lease) }),
		"recall of an unknown slot": func(r *testClient) {
			r.server.lastConn().postRecall(8, 1)
		},
		"recall twice": func(r *testClient) {
			r.hold = make(chan struct{})
			defer close(r.hold)
			r.heldObject("file")
			r.server.lastConn().postRecall(1, 1)
			r.server.lastConn().postRecall(1, 1)
			synctest.Wait()
		},
		"another kind": func(r *testClient) {
			word := delegation.Immediate{Kind: delegation.KindReturned, Slot: 1, Generation: 1}.Bytes()
			assert.NoError(r.t, r.server.lastConn().link.PostImmediate(word, nil, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(t *testing.T, r *testClient) {
				o := r.newObject("file")
				assert.True(t, r.Available(o))
				break_(r)
				synctest.Wait()
				assert.False(t, r.Available(o))
				r.server.answer = nil
				require.NoError(t, r.callNull(0), "the line has another connection")
				assert.Len(t, r.conns, 2)
				assert.False(t, r.Available(o))
				assert.Zero(t, r.acquireObject(o).Types)
			})
		})
	}
}
