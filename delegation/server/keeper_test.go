package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/bootahead"
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
	var ch Change
	assert.True(t, k.Blind(&ch))
	k.Done(&ch)
	k.RecallAll()
	k.Drain()
	assert.Zero(t, k.Left())
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

// beginChange begins a change from elsewhere that must wait for a recall.
func (r *testServer) beginChange(key string) *Change {
	ch := new(Change)
	assert.False(r.t, r.Begin(ch, nil, []byte(key)))
	return ch
}

// TestWait checks that a waiting change ends with its context, or is postponed
// after a while, or immediately if too many of its party's changes wait.
func TestWait(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		require.Zero(t, c.acquireGrant("a"))
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		assert.ErrorIs(t, r.Wait(ctx, r.beginChange("a"), nil), gone)

		start := time.Now()
		most := maxWaiting / 2
		ends := make(chan error, most+1)
		for range most {
			ch := r.beginChange("a")
			go func() { ends <- r.Wait(context.Background(), ch, nil) }()
		}
		synctest.Wait()
		assert.ErrorIs(t, r.Wait(t.Context(), r.beginChange("a"), nil), ErrPutOff)
		assert.Zero(t, time.Since(start))
		ch := r.beginChange("a")
		other := &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700")}
		go func() { ends <- r.Wait(context.Background(), ch, other) }()
		synctest.Wait()
		assert.Empty(t, ends, "another party may wait")
		for range most + 1 {
			assert.ErrorIs(t, <-ends, ErrPutOff)
		}
		assert.Equal(t, delegation.Patience, time.Since(start))

		ch = r.beginChange("a")
		go func() { ends <- r.Wait(context.Background(), ch, nil) }()
		c.returnGrants()
		require.NoError(t, <-ends)
		assert.True(t, r.Begin(ch, nil, []byte("a")))
		r.Done(ch)
		assert.Zero(t, r.waitPlaces.Taken())
	})
}

// TestWaitAgain checks that a change has one time limit for all its waits
// together.
func TestWaitAgain(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		require.Zero(t, c.acquireGrant("a"))
		require.Zero(t, c.acquireGrant("b"))
		start, ends := time.Now(), make(chan error)
		ch := r.beginChange("a")
		go func() { ends <- r.Wait(context.Background(), ch, nil) }()
		time.Sleep(delegation.Patience * 3 / 4)
		c.returnGrants()
		require.NoError(t, <-ends)
		require.False(t, r.Begin(ch, nil, []byte("b")))
		assert.ErrorIs(t, r.Wait(context.Background(), ch, nil), ErrPutOff)
		assert.Equal(t, delegation.Patience, time.Since(start))

		// A Change can be reused after Done.
		start = time.Now()
		require.False(t, r.Begin(ch, nil, []byte("b")))
		assert.ErrorIs(t, r.Wait(context.Background(), ch, nil), ErrPutOff)
		assert.Equal(t, delegation.Patience, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), delegation.Patience/2)
		defer cancel()
		require.False(t, r.Begin(ch, nil, []byte("b")))
		assert.ErrorIs(t, r.Wait(ctx, ch, nil), context.DeadlineExceeded)
		start = time.Now()
		require.False(t, r.Begin(ch, nil, []byte("b")))
		assert.ErrorIs(t, r.Wait(context.Background(), ch, nil), ErrPutOff)
		assert.Equal(t, delegation.Patience, time.Since(start))
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
				ch, start := new(Change), time.Now()
				end.do(r, c)
				for !r.Begin(ch, nil, []byte("a")) {
					<-ch.wakeup
				}
				r.Done(ch)
				assert.Equal(t, end.serves, time.Since(start))
				c.closeConn()
			})
		})
	}
}

// TestBlindAndLeases checks that no change is blind while a file system lease
// is being released.
func TestBlindAndLeases(t *testing.T) {
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
		var ch Change
		assert.False(t, r.Blind(&ch))
		close(free)
		synctest.Wait()
		assert.True(t, r.Blind(&ch))
		r.Done(&ch)
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

// TestBoundTold checks that docs/operations.md states the bound on waiting
// changes.
func TestBoundTold(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprintf("\n| changes and reads that wait for delegations, and GETATTRs that wait for a client | %d | %d, or half of the rest | |\n", maxWaiting, maxWaiting/2),
		fmt.Sprintf("wait for delegations: NFS3ERR_JUKEBOX at once, and after %.0f s of waiting.", delegation.Patience.Seconds()),
	} {
		assert.Contains(t, strings.ReplaceAll(string(doc), "\n  ", " "), text)
	}
}
