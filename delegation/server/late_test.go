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
// connection the server ends does not.
func TestLateParty(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(r *rig, c *client)
		late uint64
	}{
		"client aborts": {func(_ *rig, c *client) { c.c.Conn().Abort(errors.New("enough")) }, 1},
		"server closes": {func(r *rig, _ *client) { require.NoError(r.t, r.srv.Shutdown(r.t.Context())) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Config{}, func(t *testing.T, r *rig) {
				c := r.counting()
				require.Zero(t, c.ask("a"))
				ch := r.begin("a")
				tt.end(r, c)
				synctest.Wait()
				assert.Equal(t, tt.late, r.Stats().Late)
				for !r.Begin(ch, nil, []byte("a")) {
					<-ch.woken
				}
				r.Done(ch)
				c.close()
				if tt.late > 0 {
					again := r.counting()
					assert.Equal(t, delegation.ReasonContended, again.ask("a"))
					assert.Zero(t, again.ask("b"))
					again.close()
				}
			})
		})
	}
}

// TestLateNeighbour checks that a client of the same address as a late one
// keeps its grants, is not late itself, and gets grants of other objects.
func TestLateNeighbour(t *testing.T) {
	run(t, Config{}, func(t *testing.T, r *rig) {
		late, neighbour := r.counting(), r.counting()
		defer neighbour.close()
		defer late.close()
		for _, c := range []*client{late, neighbour} {
			require.Zero(t, c.ask("a"))
		}
		require.Zero(t, neighbour.ask("b"))
		ch := r.begin("a")
		neighbour.returns()
		late.c.Conn().Abort(errors.New("enough"))
		for !r.Begin(ch, nil, []byte("a")) {
			<-ch.woken
		}
		r.Done(ch)
		assert.EqualValues(t, 1, r.Stats().Late)
		assert.EqualValues(t, 1, r.Stats().InForce, "b stays")
		assert.Equal(t, delegation.ReasonContended, neighbour.ask("a"), "it cannot be told from the late one")
		assert.Zero(t, neighbour.ask("c"))
		synctest.Wait()
		assert.Empty(t, neighbour.got, "it is asked for nothing more")
	})
}
