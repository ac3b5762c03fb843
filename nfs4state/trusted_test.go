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
	for name, end := range map[string]func(g *saga, s *Session){
		"RECLAIM_COMPLETE": func(g *saga, s *Session) { g.complete(s) },
		"end of grace":     func(g *saga, _ *Session) { assert.True(g.t, g.EndGrace()) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newSaga(t)
			s := g.callable("a")
			g.open(s, "o", "x", nfs4.ShareRead, 0, "open")
			g.delegate(s, "x", "delegated")
			g.crash()
			s = g.back("a")
			id, status := g.reclaim(s, "x", nfs4.ShareRead, 0)
			want(t, "a reclaim of an open", status, nfs4.OK)
			_, status = g.Delegate(s, &Delegate{Key: "x", Reclaim: true}, "again")
			want(t, "a reclaim", status, nfs4.OK)
			want(t, "CLOSE", g.Close(s, &id), nfs4.OK)
			end(g, s)
			assert.False(t, g.Trusted())
			g.crash()
			assert.True(t, g.Trusted(), "the client trusts its delegation")
		})
	}
}

// TestTrustedRevoked checks that changes wait after a restart for a client that can
// reclaim nothing, because one of its delegations was revoked: until the client
// learns of the restart, it trusts the others.
func TestTrustedRevoked(t *testing.T) {
	for name, end := range map[string]func(g *saga){
		"the client comes": func(g *saga) {
			s := g.back("a")
			_, status := g.reclaim(s, "y", nfs4.ShareRead, 0)
			want(g.t, "a reclaim", status, nfs4.ErrNoGrace)
			g.complete(s)
		},
		"the client stays away": func(g *saga) { g.sleep(testLease + graceSlack); g.Sweep() },
	} {
		t.Run(name, func(t *testing.T) {
			g := newSaga(t)
			s := g.callable("a")
			for _, key := range []string{"x", "y"} {
				g.open(s, "o", key, nfs4.ShareRead, 0, nil)
			}
			d := g.delegate(s, "x", "x")
			g.delegate(s, "y", "y")
			g.RevokeDelegation(d)
			g.releasing.Wait()
			for range 2 {
				g.crash()
				assert.True(t, g.Trusted(), "the client trusts the other delegation")
			}
			want(t, "clients with delegations", g.Grace().Reads, 1)
			other := g.callable("b")
			g.open(other, "o", "z", nfs4.ShareRead, 0, nil)
			end(g)
			assert.False(t, g.Trusted())
			g.crash()
			assert.False(t, g.Trusted())
		})
	}
}

// TestClaimedDeny checks that in grace an OPEN by a delegation may deny nobody the
// access that another client may yet reclaim.
func TestClaimedDeny(t *testing.T) {
	g := newSaga(t)
	a, b := g.callable("a"), g.callable("b")
	g.open(a, "o", "x", nfs4.ShareRead, 0, nil)
	g.delegate(a, "x", "delegated")
	g.open(b, "o", "x", nfs4.ShareRead, 0, nil)
	g.crash()
	a, b = g.back("a"), g.back("b")
	_, status := g.reclaim(a, "x", nfs4.ShareRead, 0)
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
	_, status = g.reclaim(b, "x", nfs4.ShareRead, 0)
	want(t, "a reclaim by another client", status, nfs4.OK)
}
