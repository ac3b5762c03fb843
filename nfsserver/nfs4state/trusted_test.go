package nfs4state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestTrustedWithoutOpen checks that a client which has reclaimed a delegation, and
// has no file open any more, is on the list for another restart: changes wait for
// the client then, whether it has sent RECLAIM_COMPLETE or grace has ended first.
func TestTrustedWithoutOpen(t *testing.T) {
	for name, end := range map[string]func(g *restartingState, s *Session){
		"RECLAIM_COMPLETE": func(g *restartingState, s *Session) { g.completeReclaim(s) },
		"end of grace":     func(g *restartingState, _ *Session) { assert.True(g.t, g.EndGrace()) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRestartingState(t)
			s := g.newCallableClient("a")
			g.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
			g.mustDelegate(s, "x", "delegated")
			g.crashState()
			s = g.reconnect("a")
			id, status := g.reclaimOpen(s, "x", nfs4.ShareRead, 0)
			want(t, "a reclaim of an open", status, nfs4.OK)
			_, status = g.Delegate(s, &Delegate{Key: "x", Reclaim: true}, "again")
			want(t, "a reclaim", status, nfs4.OK)
			want(t, "CLOSE", g.Close(s, &id), nfs4.OK)
			end(g, s)
			assert.False(t, g.HasEarlierDelegations())
			g.crashState()
			assert.True(t, g.HasEarlierDelegations(), "the client trusts its delegation")
		})
	}
}

// TestTrustedRevoked checks that changes wait after a restart for a client that can
// reclaim nothing, because one of its delegations was revoked: until the client
// learns of the restart, it trusts the others.
func TestTrustedRevoked(t *testing.T) {
	for name, end := range map[string]func(g *restartingState){
		"the client comes": func(g *restartingState) {
			s := g.reconnect("a")
			_, status := g.reclaimOpen(s, "y", nfs4.ShareRead, 0)
			want(g.t, "a reclaim", status, nfs4.ErrNoGrace)
			g.completeReclaim(s)
		},
		"the client stays away": func(g *restartingState) { g.advanceClock(testLease + graceSlack); g.Sweep() },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRestartingState(t)
			s := g.newCallableClient("a")
			for _, key := range []string{"x", "y"} {
				g.mustOpen(s, "o", key, nfs4.ShareRead, 0, nil)
			}
			d := g.mustDelegate(s, "x", "x")
			g.mustDelegate(s, "y", "y")
			g.RevokeDelegation(d)
			g.background.Wait()
			for range 2 {
				g.crashState()
				assert.True(t, g.HasEarlierDelegations(), "the client trusts the other delegation")
			}
			want(t, "clients with delegations", g.Grace().Reads, 1)
			other := g.newCallableClient("b")
			g.mustOpen(other, "o", "z", nfs4.ShareRead, 0, nil)
			end(g)
			assert.False(t, g.HasEarlierDelegations())
			g.crashState()
			assert.False(t, g.HasEarlierDelegations())
		})
	}
}

// TestClaimedDeny checks that in the grace period an OPEN by a delegation must not
// deny an access that another client may still reclaim.
func TestClaimedDeny(t *testing.T) {
	g := newRestartingState(t)
	a, b := g.newCallableClient("a"), g.newCallableClient("b")
	g.mustOpen(a, "o", "x", nfs4.ShareRead, 0, nil)
	g.mustDelegate(a, "x", "delegated")
	g.mustOpen(b, "o", "x", nfs4.ShareRead, 0, nil)
	g.crashState()
	a, b = g.reconnect("a"), g.reconnect("b")
	_, status := g.reclaimOpen(a, "x", nfs4.ShareRead, 0)
	want(t, "a reclaim of an open", status, nfs4.OK)
	_, status = g.Delegate(a, &Delegate{Key: "x", Reclaim: true}, "again")
	want(t, "a reclaim of a delegation", status, nfs4.OK)
	claim := OpenFile{Owner: []byte("p"), Key: "x", Access: nfs4.ShareRead, Claimed: true}
	_, _, status = g.OpenFile(a, &claim, nil)
	want(t, "an open by the delegation", status, nfs4.OK)
	claim.Deny = nfs4.ShareRead
	want(t, "such an open that denies reading", g.MayOpen(a, &claim), nfs4.ErrGrace)
	claim.Access, claim.Deny = nfs4.ShareWrite, 0
	want(t, "such an open for writing", g.MayOpen(a, &claim), nfs4.ErrGrace)
	_, status = g.reclaimOpen(b, "x", nfs4.ShareRead, 0)
	want(t, "a reclaim by another client", status, nfs4.OK)
}
