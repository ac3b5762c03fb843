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
	before := k.now()
	assert.GreaterOrEqual(t, k.now(), before)
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
	run(t, Config{}, func(t *testing.T, r *rig) {
		c := r.counting()
		defer c.close()
		for range 3 { // from the second round on the client has added to its counter before
			require.Zero(t, c.ask("a"))
			require.Equal(t, 1, r.Stats().InForce)
			time.Sleep(term - time.Second)
			require.Equal(t, 1, r.Stats().InForce)
			require.NoError(t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(0), delegation.OpRenew.Operands(), c, 0))
			time.Sleep(term - time.Second)
			assert.Equal(t, 1, r.Stats().InForce)
			time.Sleep(term/4 + time.Second)
			assert.Zero(t, r.Stats().InForce)
			c.returns()
		}
		assert.EqualValues(t, 3, r.Stats().Silent)
		assert.EqualValues(t, 3, r.Stats().Returned)
	})
}

// TestWithoutCounters checks that a connection without counters gets no grants.
func TestWithoutCounters(t *testing.T) {
	run(t, Config{}, func(t *testing.T, r *rig) {
		for _, x := range []rpcrdma.ExtensionConfig{{}, {Atomics: true}, {ImmediateRecvs: 4}} {
			c := r.dial(x)
			assert.Equal(t, delegation.ReasonOver, c.ask("a"))
			c.close()
		}
		c := r.counting()
		defer c.close()
		assert.Zero(t, c.ask("a"))
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

// begin begins a change from elsewhere that must wait for a recall.
func (r *rig) begin(key string) *Change {
	ch := new(Change)
	assert.False(r.t, r.Begin(ch, nil, []byte(key)))
	return ch
}

// TestWait checks that a waiting change ends with its context, or is put off
// after a while; at once if too many changes of its party wait.
func TestWait(t *testing.T) {
	run(t, Config{}, func(t *testing.T, r *rig) {
		c := r.counting()
		defer c.close()
		require.Zero(t, c.ask("a"))
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		assert.ErrorIs(t, r.Wait(ctx, r.begin("a"), nil), gone)

		start := time.Now()
		most := maxWaiting / 2
		ends := make(chan error, most+1)
		for range most {
			ch := r.begin("a")
			go func() { ends <- r.Wait(context.Background(), ch, nil) }()
		}
		synctest.Wait()
		assert.ErrorIs(t, r.Wait(t.Context(), r.begin("a"), nil), ErrPutOff)
		assert.Zero(t, time.Since(start))
		ch := r.begin("a")
		other := &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700")}
		go func() { ends <- r.Wait(context.Background(), ch, other) }()
		synctest.Wait()
		assert.Empty(t, ends, "another party may wait")
		for range most + 1 {
			assert.ErrorIs(t, <-ends, ErrPutOff)
		}
		assert.Equal(t, delegation.Patience, time.Since(start))

		ch = r.begin("a")
		go func() { ends <- r.Wait(context.Background(), ch, nil) }()
		c.returns()
		require.NoError(t, <-ends)
		assert.True(t, r.Begin(ch, nil, []byte("a")))
		r.Done(ch)
		assert.Zero(t, r.waiting.Taken())
	})
}

// TestWaitAgain checks that a change has one time limit for all its waits
// together.
func TestWaitAgain(t *testing.T) {
	run(t, Config{}, func(t *testing.T, r *rig) {
		c := r.counting()
		defer c.close()
		require.Zero(t, c.ask("a"))
		require.Zero(t, c.ask("b"))
		start, ends := time.Now(), make(chan error)
		ch := r.begin("a")
		go func() { ends <- r.Wait(context.Background(), ch, nil) }()
		time.Sleep(delegation.Patience * 3 / 4)
		c.returns()
		require.NoError(t, <-ends)
		require.False(t, r.Begin(ch, nil, []byte("b")))
		assert.ErrorIs(t, r.Wait(context.Background(), ch, nil), ErrPutOff)
		assert.Equal(t, delegation.Patience, time.Since(start))

		// A Change that is over is as good as new.
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

// TestEndOfConnection checks that the grants of a client end at once if the
// client closes its connection in good order. If the connection is aborted, or
// the server closes it, the client may not know yet, so its grants stay in
// force for a while.
func TestEndOfConnection(t *testing.T) {
	for name, end := range map[string]struct {
		do     func(r *rig, c *client)
		serves time.Duration
	}{
		"client closes": {func(_ *rig, c *client) { c.close() }, 0},
		"client aborts": {func(_ *rig, c *client) {
			c.c.Conn().Abort(errors.New("enough"))
			c.close()
		}, term * 2 / 3},
		"server closes": {func(r *rig, _ *client) { require.NoError(r.t, r.srv.Shutdown(r.t.Context())) }, term * 2 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Config{}, func(t *testing.T, r *rig) {
				c := r.counting()
				require.Zero(t, c.ask("a"))
				ch, start := new(Change), time.Now()
				end.do(r, c)
				for !r.Begin(ch, nil, []byte("a")) {
					<-ch.woken
				}
				r.Done(ch)
				assert.Equal(t, end.serves, time.Since(start))
				c.close()
			})
		})
	}
}

// TestBlindAndLeases checks that no change is blind while a lease of the file
// system is being released.
func TestBlindAndLeases(t *testing.T) {
	run(t, Config{}, func(t *testing.T, r *rig) {
		c := r.counting()
		releasing, free := make(chan struct{}), make(chan struct{})
		r.take = func(func()) (func(), error) {
			return func() {
				close(releasing)
				<-free
			}, nil
		}
		require.Zero(t, c.ask("a"))
		go c.close()
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
	run(t, Config{}, func(t *testing.T, r *rig) {
		a, b := r.counting(), r.counting()
		defer b.close()
		require.Zero(t, b.ask("b"))
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
		require.Zero(t, a.ask("a"))
		go a.close()
		<-releasing
		asked := make(chan delegation.Reason)
		go func() { asked <- b.ask("a") }()
		for range 1000 {
			runtime.Gosched()
		}
		close(free)
		assert.Zero(t, <-asked)
		assert.EqualValues(t, 1, taken.Load())
	})
}

// TestBoottime checks that the clock of a Keeper continues while the machine
// sleeps, as a client's does.
func TestBoottime(t *testing.T) {
	bootahead.Run(t, func(t *testing.T) {
		var mono unix.Timespec
		assert.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
		assert.GreaterOrEqual(t, boottime()-time.Duration(mono.Nano()), bootahead.By)
		k, err := New(Config{})
		assert.NoError(t, err)
		defer k.Close()
		assert.GreaterOrEqual(t, k.now()-time.Duration(mono.Nano()), bootahead.By)
	})
}

// TestBoundTold checks that docs/operations.md states the bound on waiting
// changes.
func TestBoundTold(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	row := fmt.Sprintf("\n| changes and reads that wait for clients to return delegations, and GETATTRs that wait for a client's answer | %d | %d, or half of what others leave | | NFS3ERR_JUKEBOX at once; after %.0f s of waiting", maxWaiting, maxWaiting/2, delegation.Patience.Seconds())
	assert.True(t, strings.Contains(string(doc), row), row)
}
