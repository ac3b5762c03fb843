package nfs4state

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// openInTurn sends OPEN in its turn, with or without CLAIM_PREVIOUS.
func (g *restartingState) openInTurn(s *Session, owner, key string, deny uint32, reclaim bool) (id nfs4.StateID, status nfs4.Status) {
	g.t.Helper()
	a := &Turn{Op: nfs4.OpOpen, Owner: []byte(owner), SeqID: 1}
	want(g.t, "OPEN in its turn", g.BeginTurn(g.t.Context(), s, a), nfs4.OK)
	_, id, status = g.OpenFile(s, &OpenFile{Owner: []byte(owner), Key: key, Access: 3, Deny: deny, Reclaim: reclaim}, nil)
	if status == nfs4.OK {
		g.ConfirmOwner(a)
	}
	g.EndTurn(a, status, []byte("reply"), nil)
	return id, status
}

// TestReclaim40: an NFSv4.0 client reclaims after a restart, until the grace period
// ends by time, for as long as the earlier lease at least (R7530-9.6.2-1,
// R7530-9.6.2-4). Until then its own other opens and locks wait (R7530-9.6.2-2,
// R7530-16.16-6), and after that no reclaim is granted (R7530-9.6.2-5). A reclaim
// asks for no OPEN_CONFIRM (R7530-9.1.11-1). Client IDs do not come again
// (R7530-9.1.1-8, R7530-16.33-7).
func TestReclaim40(t *testing.T) {
	g := newRestartingState(t)
	s := g.newClient40("c")
	old := s.ClientID()
	_, status := g.openInTurn(s, "o", "f", 1, false)
	want(t, "OPEN", status, nfs4.OK)
	g.config.Lease = testLease / 4
	g.crashState()
	want(t, "grace", g.Grace(), Grace{Clients: 1, Left: testLease + graceSlack, Deny: 1})
	_, status = g.ByClientID(TCP, Host{}, old)
	want(t, "client ID of the earlier server (R7530-9.1.1-9)", status, nfs4.ErrStaleClientID)
	s = g.newClient40("c")
	want(t, "client ID is new", s.ClientID() != old, true)
	_, status = g.openInTurn(s, "o", "g", 0, false)
	want(t, "OPEN without a reclaim", status, nfs4.ErrGrace)
	id, status := g.openInTurn(s, "o", "f", 1, true)
	want(t, "reclaim", status, nfs4.OK)
	_, status = g.Open(s, &id)
	want(t, "stateid needs no OPEN_CONFIRM", status, nfs4.OK)
	want(t, "LOCK without a reclaim", g.lockFirstByte(s, id, "f", false), nfs4.ErrGrace)
	want(t, "LOCK with a reclaim", g.lockFirstByte(s, id, "f", true), nfs4.ErrReclaimBad)
	other := g.newTestClient("other")
	want(t, "OPEN by another", g.openStatus(other, "o", "h", 1, 0), nfs4.ErrGrace)
	want(t, "READ without an open (R7530-9.6.2-3)", g.Denied("x", nfs4.ShareRead), nfs4.ErrGrace)
	s.Leave()
	g.advanceClock(testLease + graceSlack - time.Second)
	want(t, "clients that may reclaim", g.Grace().Clients, 1)
	g.advanceClock(time.Second)
	want(t, "grace after its time", g.Grace(), Grace{})
	want(t, "OPEN by another", g.openStatus(other, "o", "h", 1, 0), nfs4.OK)
	want(t, "READ without an open", g.Denied("x", nfs4.ShareRead), nfs4.OK)
	s = g.mustEnter(s.ClientID())
	_, status = g.openInTurn(s, "p", "i", 0, true)
	want(t, "reclaim after grace", status, nfs4.ErrNoGrace)
	s.Leave()

	// The end of grace has stored that the client has state (R7530-9.6.3.4.3-1).
	g.crashState()
	s = g.newClient40("c")
	_, status = g.openInTurn(s, "o", "f", 1, true)
	want(t, "reclaim after the next restart", status, nfs4.OK)
	s.Leave()
}

// TestEdges40: a client that has not reclaimed before the grace period ended, or
// whose state another client got, cannot after another restart (R7530-9.6.3.4-2):
// both edge conditions of RFC 7530, Section 9.6.3.4.
func TestEdges40(t *testing.T) {
	g := newRestartingState(t)
	s := g.newClient40("cut off")
	_, status := g.openInTurn(s, "o", "f", 1, false)
	want(t, "OPEN", status, nfs4.OK)
	s.Leave()
	g.crashState()
	g.advanceClock(testLease + graceSlack)
	g.prepareClient("other", "f", 1, false)
	g.crashState()
	s = g.newClient40("cut off")
	_, status = g.openInTurn(s, "o", "f", 1, true)
	want(t, "reclaim after two restarts", status, nfs4.ErrNoGrace)
	s.Leave()

	g = newRestartingState(t)
	s = g.newClient40("silent")
	_, status = g.openInTurn(s, "o", "f", 1, false)
	want(t, "OPEN", status, nfs4.OK)
	s.Leave()
	g.advanceClock(testLease + 1)
	g.prepareClient("other", "f", 1, false)
	g.crashState()
	s = g.newClient40("silent")
	_, status = g.openInTurn(s, "o", "f", 1, true)
	want(t, "reclaim of what another got", status, nfs4.ErrNoGrace)
	s.Leave()
}

// TestRecords40: NFSv4.0 records belong to separate clients, and a client with
// the same name in a later version cannot reclaim with them.
func TestRecords40(t *testing.T) {
	g := newRestartingState(t)
	s := g.newClient40("c")
	_, status := g.openInTurn(s, "o", "f", 0, false)
	want(t, "OPEN", status, nfs4.OK)
	s.Leave()
	g.crashState()
	want(t, "clients that may reclaim", g.Grace().Clients, 1)
	_, status = g.reclaimOpen(g.newArrival("c"), "f", 1, 0)
	want(t, "reclaim by version 4.1", status, nfs4.ErrNoGrace)
	_, _, _, status = g.SetClientID(setClientIDArgs("c", 1, 7))
	want(t, "SETCLIENTID by another principal", status, nfs4.ErrClidInUse)
	want(t, "EndGrace", g.EndGrace(), true)
	s = g.newClient40("c")
	_, status = g.openInTurn(s, "o", "f", 0, true)
	want(t, "reclaim after EndGrace", status, nfs4.ErrNoGrace)
	s.Leave()

	r := record{principal: Principal{Flavor: 1, UID: 7}, kinds: hadLocks}
	past, err := ReadPast([][]byte{
		appendBoot(nil, 7, testLease), r.appendTo(nil, ownerKey{RDMA | sessionless, "c"}), r.appendTo(nil, ownerKey{RDMA, "c"}),
		appendGone(nil, ownerKey{RDMA, "c"}),
	})
	want(t, "error", err, nil)
	want(t, "clients", past.Clients(), 1)
	_, ok := past.clients[ownerKey{RDMA | sessionless, "c"}]
	want(t, "record of version 4.0", ok, true)
	_, err = ReadPast([][]byte{appendGone(nil, ownerKey{2 | sessionless, "c"})})
	want(t, "unknown transport is an error (R7530-9.6.3.4.3-2)", err != nil, true)
}
