package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A fakeRecorder is a Recorder in memory.
type fakeRecorder struct {
	live            func() int
	making          int // grants that have not ended
	refuses, isBusy bool
	leases          []time.Duration
}

func (f *fakeRecorder) WatchCounterGrants(live func() int) { f.live = live }

func (f *fakeRecorder) BeginCounterGrant(lease time.Duration) (ok, busy bool) {
	if f.refuses || f.isBusy {
		return false, f.isBusy
	}
	f.making++
	f.leases = append(f.leases, lease)
	return true, false
}

func (f *fakeRecorder) EndCounterGrant() { f.making-- }

// TestRecorder checks that a grant is made only if the Recorder permits it, and that the Recorder
// learns how many are in force.
func TestRecorder(t *testing.T) {
	f := new(fakeRecorder)
	runTest(t, Config{Recorder: f}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		f.refuses = true
		assert.Equal(t, delegation.ReasonLimit, c.acquireGrant("a"))
		f.refuses, f.isBusy = false, true
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		assert.Zero(t, f.live())
		assert.Empty(t, f.leases)
		f.isBusy = false
		assert.Zero(t, c.acquireGrant("a"))
		assert.Equal(t, []time.Duration{term}, f.leases)
		assert.Equal(t, 1, f.live())
		assert.Equal(t, delegation.ReasonHeld, c.acquireGrant("a"), "it is held")
		assert.Zero(t, f.making)
		c.returnGrants()
		assert.Zero(t, f.live())
	})
}

// TestRecorderLeaseHung checks that a grant that reclaims others to make room has ended for the
// Recorder before the file system releases their leases, which may take long.
func TestRecorderLeaseHung(t *testing.T) {
	f := new(fakeRecorder)
	runTest(t, Config{Recorder: f, Grants: 1}, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		released := 0
		r.take = func(func()) (func(), error) {
			return func() {
				released++
				assert.Zero(t, f.making)
			}, nil
		}
		require.Zero(t, c.acquireGrant("a"))
		require.NoError(t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(1), delegation.OpClose.Operands(), c, 0))
		synctest.Wait()
		require.Zero(t, c.acquireGrant("b"))
		assert.Equal(t, 1, released)
	})
}

// TestDrain checks that no grant is in force after a Drain and the end of the
// connections if all were returned. Otherwise a client may still trust its cache.
func TestDrain(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(r *testServer, c *fakeClient)
		took  time.Duration
		stays bool
	}{
		"returned":  {func(_ *testServer, c *fakeClient) { c.returnGrants() }, time.Millisecond, false},
		"closed":    {func(_ *testServer, c *fakeClient) { c.closeConn() }, time.Millisecond, false},
		"no answer": {func(*testServer, *fakeClient) {}, recall.MaxWait, true},
		"reset":     {func(_ *testServer, c *fakeClient) { c.conn.Conn().Abort(errors.New("enough")) }, recall.MaxWait, true},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, Config{Recorder: new(fakeRecorder)}, func(t *testing.T, r *testServer) {
				c := r.dialWithCounters()
				defer c.closeConn()
				require.Zero(t, c.acquireGrant("a"))
				start := time.Now()
				drained := make(chan struct{})
				go func() {
					r.Drain()
					assert.Equal(t, tt.took, time.Since(start))
					close(drained)
				}()
				time.Sleep(time.Millisecond)
				tt.end(r, c)
				<-drained
				if name != "closed" && name != "reset" {
					assert.Equal(t, delegation.ReasonOver, c.acquireGrant("b"), "no more grants")
				}
				synctest.Wait()
				require.NoError(t, r.srv.Shutdown(t.Context())) // before the client closes its connection
				assert.Equal(t, tt.stays, r.Stats().InForce > 0)
			})
		})
	}
}
