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
