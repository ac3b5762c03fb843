package delegation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShare checks that one party does not get all grants: the next party finds
// some.
func TestShare(t *testing.T) {
	g := newTestGrantor(t, Config{Grants: 64})
	for i, want := range []int{32, 21, 2} {
		party := fmt.Sprint(i)
		got := 0
		for c := attachParty(g, party); acquireReason(g, c, fmt.Sprint("object", i, got), false, 0) == 0; got++ {
			if got%10 == 9 {
				c = attachParty(g, party) // more connections do not help
			}
		}
		assert.GreaterOrEqual(t, got, want, i)
		assert.LessOrEqual(t, got, 32, i)
		assert.Equal(t, got, g.Parties()[party])
	}
}

// TestShareGivenBack checks that for a party below its share the Grantor
// recalls grants from parties above their share, from a late party first, at a
// limited rate. The party receives the returned grants, and the others do not
// get them back.
func TestShareGivenBack(t *testing.T) {
	for _, late := range []string{"", "b"} {
		g := newTestGrantor(t, Config{Grants: 1000})
		a, b, next := attachParty(g, "a"), attachParty(g, "b"), attachParty(g, "c")
		for i, c := range []*Conn{a, b} {
			for n := 0; acquireReason(g, c, fmt.Sprint(i, " ", n), false, 0) == 0; n++ { //nolint:revive // counts
			}
		}
		g.cfg.Grants = g.grantCount // the total is exhausted
		if late != "" {
			g.addPenalty(penaltyKey{late, ""}, 10*lease, 0)
		}
		from := a
		if late != "" {
			from = b
		}
		for second := range 2 {
			var recalls []Recall
			for range 3 * recallRate {
				q, why, fx := g.Prepare(next, []byte("wanted"), 0)
				require.Zero(t, why)
				require.Empty(t, fx.Recalls)
				_, why, fx = g.Commit(q, time.Duration(second)*time.Second)
				require.Equal(t, ReasonLimit, why)
				recalls = append(recalls, fx.Recalls...)
			}
			require.NotEmpty(t, recalls)
			assert.LessOrEqual(t, len(recalls), recallRate)
			for _, r := range recalls {
				assert.Same(t, from, r.Conn)
				require.Empty(t, g.Immediate(r.Conn, returnedMessage(Grant{r.Slot, r.Generation})).Cuts)
			}
			for i := range recalls {
				if late == "" { // and so far above its share
					assert.Equal(t, ReasonLimit, acquireReason(g, from, "again", false, 0))
				}
				assert.Zero(t, acquireReason(g, next, fmt.Sprint("wanted ", second, i), false, 0))
			}
			if late != "" {
				break
			}
		}
	}
}

// TestShareOfManyConnections checks that a party above its share, with many
// connections, does not get the grants that another party holds on a single one,
// even if none of those are in use.
func TestShareOfManyConnections(t *testing.T) {
	g := newTestGrantor(t, Config{Grants: 100})
	one := attachParty(g, "one")
	for n := range 30 {
		require.Zero(t, acquireReason(g, one, fmt.Sprint("one ", n), false, 0))
		slot := n + 1
		one.words.(*memWords).w[slot] = uint64(makeWord(one.generations[slot], 0))
	}
	many := make([]*Conn, 50)
	for n := range many {
		many[n] = attachParty(g, "many")
		acquireReason(g, many[n], fmt.Sprint("many ", n), false, 0)
	}
	g.cfg.Grants = g.grantCount // the total is exhausted
	for n := range 200 {
		assert.Equal(t, ReasonLimit, acquireReason(g, many[n%len(many)], fmt.Sprint("more ", n), false, 0))
	}
	assert.Equal(t, 30, g.Parties()["one"])
}
