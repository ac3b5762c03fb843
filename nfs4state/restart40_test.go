package nfs4state

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// reopen is OPEN in its turn, with CLAIM_PREVIOUS or not.
func (g *saga) reopen(s *Session, owner, key string, deny uint32, reclaim bool) (id nfs4.StateID, status nfs4.Status) {
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

// TestReclaim40: a client of version 4.0 reclaims after a restart, until grace ends
// by time, for as long as the earlier lease at least (R7530-9.6.2-1,
// R7530-9.6.2-4). Until then its own other opens and locks wait (R7530-9.6.2-2,
// R7530-16.16-6), and after that no reclaim is granted (R7530-9.6.2-5). A reclaim
// asks for no OPEN_CONFIRM (R7530-9.1.11-1). Client IDs do not come again
// (R7530-9.1.1-8, R7530-16.33-7).
func TestReclaim40(t *testing.T) {
	g := newSaga(t)
	s := g.plain("c")
	old := s.ClientID()
	_, status := g.reopen(s, "o", "f", 1, false)
	want(t, "OPEN", status, nfs4.OK)
	g.config.Lease = testLease / 4
	g.crash()
	want(t, "grace", g.Grace(), Grace{Clients: 1, Left: testLease + graceSlack, Deny: 1})
	_, status = g.ByClientID(TCP, Host{}, old)
	want(t, "client ID of the earlier server (R7530-9.1.1-9)", status, nfs4.ErrStaleClientID)
	s = g.plain("c")
	want(t, "client ID is new", s.ClientID() != old, true)
	_, status = g.reopen(s, "o", "g", 0, false)
	want(t, "OPEN without a reclaim", status, nfs4.ErrGrace)
	id, status := g.reopen(s, "o", "f", 1, true)
	want(t, "reclaim", status, nfs4.OK)
	_, status = g.Open(s, &id)
	want(t, "stateid needs no OPEN_CONFIRM", status, nfs4.OK)
	want(t, "LOCK without a reclaim", g.hold(s, id, "f", false), nfs4.ErrGrace)
	want(t, "LOCK with a reclaim", g.hold(s, id, "f", true), nfs4.ErrReclaimBad)
	other := g.client("other")
	want(t, "OPEN by another", g.openStatus(other, "o", "h", 1, 0), nfs4.ErrGrace)
	want(t, "READ without an open (R7530-9.6.2-3)", g.Denied("x", nfs4.ShareRead), nfs4.ErrGrace)
	s.Leave()
	g.sleep(testLease + graceSlack - time.Second)
	want(t, "clients that may reclaim", g.Grace().Clients, 1)
	g.sleep(time.Second)
	want(t, "grace after its time", g.Grace(), Grace{})
	want(t, "OPEN by another", g.openStatus(other, "o", "h", 1, 0), nfs4.OK)
	want(t, "READ without an open", g.Denied("x", nfs4.ShareRead), nfs4.OK)
	s = g.enter(s.ClientID())
	_, status = g.reopen(s, "p", "i", 0, true)
	want(t, "reclaim after grace", status, nfs4.ErrNoGrace)
	s.Leave()

	// The end of grace has stored that the client has state (R7530-9.6.3.4.3-1).
	g.crash()
	s = g.plain("c")
	_, status = g.reopen(s, "o", "f", 1, true)
	want(t, "reclaim after the next restart", status, nfs4.OK)
	s.Leave()
}

// TestEdges40: a client that has not reclaimed before grace ended, or whose state
// another client got, cannot after another restart (R7530-9.6.3.4-2): both edge
// conditions of RFC 7530, Section 9.6.3.4.
func TestEdges40(t *testing.T) {
	g := newSaga(t)
	s := g.plain("cut off")
	_, status := g.reopen(s, "o", "f", 1, false)
	want(t, "OPEN", status, nfs4.OK)
	s.Leave()
	g.crash()
	g.sleep(testLease + graceSlack)
	g.prepare("other", "f", 1, false)
	g.crash()
	s = g.plain("cut off")
	_, status = g.reopen(s, "o", "f", 1, true)
	want(t, "reclaim after two restarts", status, nfs4.ErrNoGrace)
	s.Leave()

	g = newSaga(t)
	s = g.plain("silent")
	_, status = g.reopen(s, "o", "f", 1, false)
	want(t, "OPEN", status, nfs4.OK)
	s.Leave()
	g.sleep(testLease + 1)
	g.prepare("other", "f", 1, false)
	g.crash()
	s = g.plain("silent")
	_, status = g.reopen(s, "o", "f", 1, true)
	want(t, "reclaim of what another got", status, nfs4.ErrNoGrace)
	s.Leave()
}

// TestRecords40: the records of version 4.0 are those of other clients, and a
// client of the name by a later version reclaims nothing by them.
func TestRecords40(t *testing.T) {
	g := newSaga(t)
	s := g.plain("c")
	_, status := g.reopen(s, "o", "f", 0, false)
	want(t, "OPEN", status, nfs4.OK)
	s.Leave()
	g.crash()
	want(t, "clients that may reclaim", g.Grace().Clients, 1)
	_, status = g.reclaim(g.arrive("c"), "f", 1, 0)
	want(t, "reclaim by version 4.1", status, nfs4.ErrNoGrace)
	_, _, _, status = g.SetClientID(setting("c", 1, 7))
	want(t, "SETCLIENTID by another principal", status, nfs4.ErrClidInUse)
	want(t, "EndGrace", g.EndGrace(), true)
	s = g.plain("c")
	_, status = g.reopen(s, "o", "f", 0, true)
	want(t, "reclaim after EndGrace", status, nfs4.ErrNoGrace)
	s.Leave()

	r := record{principal: Principal{Flavor: 1, UID: 7}, had: hadLocks}
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
