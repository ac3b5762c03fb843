package server

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestSlowRelease checks that if the file system releases a lease slowly, this
// delays only goroutines that need the same object.
func TestSlowRelease(t *testing.T) {
	ls := leaseTable{byKey: make(map[string]*fsLease)}
	take := func(key string, release func()) *heldObject {
		o := new(heldObject)
		l, mine, why := ls.addUser(o, key)
		assert.True(t, mine)
		assert.Zero(t, why)
		ls.recordAnswer(l, release)
		o.lease = l
		return o
	}
	releasing, free := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(free) })
	t.Cleanup(let)
	a := take("a", func() {
		close(releasing)
		<-free
	})
	b := take("b", func() {})
	ended := func(f func()) <-chan struct{} {
		c := make(chan struct{})
		go func() {
			defer close(c)
			f()
		}()
		return c
	}
	within := func(c <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatal(what)
		}
	}

	left := ended(func() { ls.removeUser(a) })
	within(releasing, "no release")
	within(ended(func() { ls.removeUser(b) }), "the end of another grant waits")
	within(ended(func() { ls.removeUser(take("b", func() {})) }), "an ACQUIRE of another object waits")

	asked := ended(func() {
		l, mine, _ := ls.addUser(new(heldObject), "a")
		assert.True(t, mine, "a lease during its release")
		ls.recordAnswer(l, nil)
	})
	for _, c := range []<-chan struct{}{left, asked} {
		select {
		case <-c:
			t.Fatal("a caller continued before the release of the lease")
		case <-time.After(time.Millisecond):
		}
	}
	let()
	within(left, "the end of the grant waits still")
	within(asked, "the ACQUIRE waits still")
	assert.Empty(t, ls.byKey)
}

// TestMakeRoomShared checks that room is made although several clients have
// grants under the same lease.
func TestMakeRoomShared(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		held := 0
		r.take = func(func()) (func(), error) {
			held++
			return func() { held-- }, nil
		}
		a, b := r.dialWithCounters(), r.dialWithCounters()
		defer a.closeConn()
		defer b.closeConn()
		for _, c := range []*fakeClient{a, b} {
			require.Zero(t, c.acquireGrant("shared"))
			require.NoError(t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(1), delegation.OpClose.Operands(), c, 0))
		}
		synctest.Wait()
		require.Equal(t, 1, held)
		s, why := r.Prepare(r.peers[0], []byte("other"))
		require.Zero(t, why)
		defer s.Cancel()
		assert.True(t, s.MakeRoom())
		assert.Zero(t, held)
		assert.False(t, s.MakeRoom(), "nothing is left")
	})
}
