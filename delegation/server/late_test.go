package server

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// TestLateParty checks that a client that resets its connection while a change
// waits for it counts as late, on its next connection too. A client whose
// connection the server closes does not.
func TestLateParty(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(r *testServer, c *fakeClient)
		late uint64
	}{
		"client aborts": {func(_ *testServer, c *fakeClient) { c.conn.Conn().Abort(errors.New("enough")) }, 1},
		"server closes": {func(r *testServer, _ *fakeClient) { require.NoError(r.t, r.srv.Shutdown(r.t.Context())) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, Config{}, func(t *testing.T, r *testServer) {
				c := r.dialWithCounters()
				require.Zero(t, c.acquireGrant("a"))
				ch := r.startWaiting("a")
				tt.end(r, c)
				synctest.Wait()
				assert.Equal(t, tt.late, r.Stats().Late)
				r.awaitChange(ch, "a")
				c.closeConn()
				if tt.late > 0 {
					again := r.dialWithCounters()
					assert.Equal(t, delegation.ReasonContended, again.acquireGrant("a"))
					assert.Zero(t, again.acquireGrant("b"))
					again.closeConn()
				}
			})
		})
	}
}

// TestLateNeighbour checks that a client with the same address as a late one
// keeps its grants, is not late itself, and gets grants for other objects.
func TestLateNeighbour(t *testing.T) {
	runTest(t, Config{}, func(t *testing.T, r *testServer) {
		late, neighbour := r.dialWithCounters(), r.dialWithCounters()
		defer neighbour.closeConn()
		defer late.closeConn()
		for _, c := range []*fakeClient{late, neighbour} {
			require.Zero(t, c.acquireGrant("a"))
		}
		require.Zero(t, neighbour.acquireGrant("b"))
		ch := r.startWaiting("a")
		neighbour.returnGrants()
		late.conn.Conn().Abort(errors.New("enough"))
		r.awaitChange(ch, "a")
		assert.EqualValues(t, 1, r.Stats().Late)
		assert.EqualValues(t, 1, r.Stats().InForce, "b stays")
		assert.Equal(t, delegation.ReasonContended, neighbour.acquireGrant("a"), "it cannot be told from the late one")
		assert.Zero(t, neighbour.acquireGrant("c"))
		synctest.Wait()
		assert.Empty(t, neighbour.got, "it is asked for nothing more")
	})
}
