package server

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/bootahead"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Lease: time.Microsecond}, {Lease: MaxLease + 1}, {Slots: 1}, {Grants: -1}} {
		_, err := New(c)
		assert.Error(t, err)
	}
	k, err := New(Config{})
	require.NoError(t, err)
	defer k.Close()
	x := k.Extension()
	assert.Equal(t, 1<<16, x.Counters)
	assert.Equal(t, 32, x.ImmediateRecvs)
	assert.Equal(t, 10*time.Second, k.Lease())
	before := k.currentTime()
	assert.GreaterOrEqual(t, k.currentTime(), before)
}

// TestNil checks that the nil Keeper lets changes pass and holds no grants.
func TestNil(t *testing.T) {
	var k *Keeper
	assert.Nil(t, k.Holders())
	k.Drain()
	assert.Zero(t, k.Lease())
	assert.Zero(t, k.Stats())
	assert.Zero(t, k.Held(nil))
	assert.Nil(t, k.Extension())
	k.Close()
}

// TestSilence checks that a client that is silent for a lease loses its grants
// even if no change needs them.
func TestSilence(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		for range 3 { // from the second round on the client has added to its counter before
			require.Zero(t, c.acquireGrant("a"))
			require.Equal(t, 1, r.Stats().InForce)
			time.Sleep(term - time.Second)
			require.Equal(t, 1, r.Stats().InForce)
			require.NoError(t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(0), delegation.OpRenew.Operands(), c, 0))
			time.Sleep(term - time.Second)
			assert.Equal(t, 1, r.Stats().InForce)
			time.Sleep(term/4 + time.Second)
			assert.Zero(t, r.Stats().InForce)
			c.returnGrants()
		}
		assert.EqualValues(t, 3, r.Stats().Silent)
		assert.EqualValues(t, 3, r.Stats().Returned)
	})
}

// TestWithoutCounters checks that a connection without counters gets no grants.
func TestWithoutCounters(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		for _, x := range []rpcrdma.ExtensionConfig{{}, {Atomics: true}, {ImmediateRecvs: 4}} {
			c := r.dialClient(x)
			assert.Equal(t, delegation.ReasonOver, c.acquireGrant("a"))
			c.closeConn()
		}
		c := r.dialWithCounters()
		defer c.closeConn()
		assert.Zero(t, c.acquireGrant("a"))
		require.Len(t, r.peers, 4)
		for i, p := range r.peers {
			assert.Equal(t, i == 3, r.Serves(p))
			n := r.Held(rpcrdma.ExtensionConnOf(p))
			assert.Equal(t, i == 3, n == 1)
		}
		assert.False(t, r.Serves(nil))
		assert.False(t, r.Serves(new(oncrpc.Peer)))
	})
}

// TestWait checks that a change waits for the return of a grant, and is postponed if that takes
// too long: then nothing is granted for a lease.
func TestWait(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		require.Zero(t, c.acquireGrant("a"))
		start, ends := time.Now(), make(chan error)
		ch := r.startWaiting("a")
		go func() { ends <- r.Holders().Wait(t.Context(), ch, fairshare.Name{}) }()
		time.Sleep(recall.MaxWait / 2)
		c.returnGrants()
		require.NoError(t, <-ends)
		assert.Equal(t, recall.MaxWait/2, time.Since(start))
		assert.True(t, r.beginChange(ch, nil, "a"))
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		r.Holders().Done(ch)
		require.Zero(t, c.acquireGrant("a"), "nobody wants it any more")

		start = time.Now()
		assert.False(t, r.beginChange(ch, nil, "a"), "a Change can be used again")
		assert.ErrorIs(t, r.Holders().Wait(t.Context(), ch, fairshare.Name{}), recall.ErrTryLater)
		assert.Equal(t, recall.MaxWait, time.Since(start))
		c.returnGrants()
		time.Sleep(term - 1)
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		time.Sleep(time.Nanosecond)
		assert.Zero(t, c.acquireGrant("a"))

		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		assert.ErrorIs(t, r.Holders().Wait(ctx, r.startWaiting("a"), fairshare.Name{}), gone)
		c.returnGrants()
		assert.Zero(t, c.acquireGrant("a"), "its caller does not try again")
	})
}

// TestOwnChange checks that a client's change does not recall its own grant, and recalls the
// grant of another client.
func TestOwnChange(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		a, b := r.dialWithCounters(), r.dialWithCounters()
		defer a.closeConn()
		defer b.closeConn()
		require.Zero(t, a.acquireGrant("a"))
		require.Zero(t, b.acquireGrant("b"))
		var ch recall.Change
		assert.True(t, r.beginChange(&ch, r.peers[0], "a"))
		assert.False(t, r.beginChange(&ch, r.peers[0], "b"))
		b.returnGrants()
		assert.True(t, r.beginChange(&ch, r.peers[0], "b"))
		r.Holders().Done(&ch)
		assert.Empty(t, a.got)
	})
}

// TestOwnDirectory checks that a client keeps its grant of a directory that it changes, and that the
// directory is not granted if another client changes it in turn with this one.
func TestOwnDirectory(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		r.dirs = true
		c := r.dialWithCounters()
		defer c.closeConn()
		for range 3 {
			require.Zero(t, c.acquireGrant("d"))
			var ch recall.Change
			assert.True(t, r.beginChange(&ch, r.peers[0], "d"))
			r.Holders().Done(&ch)
			assert.Empty(t, c.got)
			other := r.startWaiting("d")
			c.returnGrants()
			r.awaitChange(other, "d")
		}
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("d"))
		time.Sleep(term)
		assert.Zero(t, c.acquireGrant("d"))
	})
}

// TestWriters checks that an object is not granted to a client while another
// client gets the right to change it in its cache, and that no client gets that
// right while the object is granted, or requested.
func TestWriters(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		hold := func() (*recall.Holder, bool) {
			h := &recall.Holder{Writer: t, Recall: func(recall.Changer) {}}
			return h, r.Holders().Hold(h, []byte("a"))
		}
		h, ok := hold()
		require.True(t, ok)
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		h.Return()
		s, why := r.Prepare(r.peers[0], []byte("a"))
		require.Zero(t, why)
		_, ok = hold()
		assert.False(t, ok)
		s.Cancel()
		require.Zero(t, c.acquireGrant("a"))
		_, ok = hold()
		assert.False(t, ok)
		r.Holders().RecallAll()
		c.returnGrants()
		h, ok = hold()
		assert.True(t, ok)
		h.Return()
		c.closeConn()
	})
}

// TestUnnamedChanges checks that nothing is granted while a change runs that does not name its
// objects, and that changes name them while anything is granted, or was refused for that reason.
func TestUnnamedChanges(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		var ch, named recall.Change
		require.True(t, r.Holders().NothingHeld(&ch))
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		r.Holders().Done(&ch)
		assert.False(t, r.Holders().NothingHeld(&ch))
		require.True(t, r.beginChange(&named, nil, "a"))
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		r.Holders().Done(&named)
		require.Zero(t, c.acquireGrant("a"))
		time.Sleep(namedTime / 2)
		c.renewLease()
		time.Sleep(namedTime / 2)
		assert.False(t, r.Holders().NothingHeld(&ch), "held")
		assert.False(t, r.Holders().BeginFree(&ch, 0, []byte("a")))
		assert.True(t, r.Holders().BeginFree(&ch, 0, []byte("b")))
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("b"))
		r.Holders().Done(&ch)
		assert.Zero(t, c.acquireGrant("b"))
	})
}

// TestEndOfConnection checks that a client's grants end immediately if the
// client closes its connection gracefully. If the connection is aborted, or the
// server closes it, the client may not know yet, so its grants stay in force
// for a while.
func TestEndOfConnection(t *testing.T) {
	for name, end := range map[string]struct {
		do     func(r *testServer, c *fakeClient)
		serves time.Duration
	}{
		"client closes": {func(_ *testServer, c *fakeClient) { c.closeConn() }, 0},
		"client aborts": {func(_ *testServer, c *fakeClient) {
			c.conn.Conn().Abort(errors.New("enough"))
			c.closeConn()
		}, term * 2 / 3},
		"server closes": {func(r *testServer, _ *fakeClient) { require.NoError(r.t, r.srv.Shutdown(r.t.Context())) }, term * 2 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, Config{}, func(t *testing.T, r *testServer) {
				c := r.dialWithCounters()
				require.Zero(t, c.acquireGrant("a"))
				start := time.Now()
				end.do(r, c)
				r.awaitChange(new(recall.Change), "a")
				assert.Equal(t, end.serves, time.Since(start))
				c.closeConn()
			})
		})
	}
}

// TestUnnamedAndLeases checks that changes name their objects while a file
// system lease is being released.
func TestUnnamedAndLeases(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		releasing, free := make(chan struct{}), make(chan struct{})
		r.take = func(func()) (func(), error) {
			return func() {
				close(releasing)
				<-free
			}, nil
		}
		require.Zero(t, c.acquireGrant("a"))
		go c.closeConn()
		<-releasing
		var ch recall.Change
		assert.False(t, r.Holders().NothingHeld(&ch))
		assert.False(t, r.Holders().BeginFree(&ch, 0, []byte("a")))
		close(free)
		synctest.Wait()
		assert.True(t, r.Holders().NothingHeld(&ch))
		r.Holders().Done(&ch)
	})
}

// TestAcquireAndRelease checks that the release of a lease completes before
// another lease is taken for the object.
func TestAcquireAndRelease(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		a, b := r.dialWithCounters(), r.dialWithCounters()
		defer b.closeConn()
		require.Zero(t, b.acquireGrant("b"))
		releasing, free := make(chan struct{}), make(chan struct{})
		var taken atomic.Int32
		r.take = func(func()) (func(), error) {
			assert.EqualValues(t, 1, taken.Add(1))
			return func() {
				if releasing != nil {
					close(releasing)
					<-free
					releasing = nil
				}
				taken.Add(-1)
			}, nil
		}
		require.Zero(t, a.acquireGrant("a"))
		go a.closeConn()
		<-releasing
		asked := make(chan delegation.Reason)
		go func() { asked <- b.acquireGrant("a") }()
		for range 1000 {
			runtime.Gosched()
		}
		close(free)
		assert.Zero(t, <-asked)
		assert.EqualValues(t, 1, taken.Load())
	})
}

// TestBoottime checks that a Keeper's clock continues during suspend, as a
// client's does.
func TestBoottime(t *testing.T) {
	bootahead.Run(t, func(t *testing.T) {
		var mono unix.Timespec
		assert.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
		assert.GreaterOrEqual(t, readBootTime()-time.Duration(mono.Nano()), bootahead.By)
		k, err := New(Config{})
		assert.NoError(t, err)
		defer k.Close()
		assert.GreaterOrEqual(t, k.currentTime()-time.Duration(mono.Nano()), bootahead.By)
	})
}
