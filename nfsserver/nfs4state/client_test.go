package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// R8881-2.4.3-2, R8881-18.35.4-1 to -6: the nine cases of EXCHANGE_ID, each on the records of
// earlier calls.
//
// R8881-18.35.4-2, R8881-18.35.4-3, R8881-18.35.4-4, R8881-18.35.4-5,
// R8881-18.35.4-6.
func TestExchangeID(t *testing.T) {
	const confirmed, unconfirmed, none = "confirmed", "unconfirmed", "none"
	for _, test := range []struct {
		name          string
		record        string
		verifier, uid int // the call's; those of the record are 1 and 0
		update        bool
		state         bool // the record has a session and a lease
		status        nfs4.Status
		same          bool // the record's ID comes back
		stays         bool // the record stays
	}{
		{"1 new owner", none, 1, 0, false, false, nfs4.OK, false, false},
		{"2 again", confirmed, 1, 0, false, true, nfs4.OK, true, true},
		{"3 collision", confirmed, 1, 1, false, true, nfs4.ErrClidInUse, false, true},
		{"3 collision with other verifier", confirmed, 2, 1, false, true, nfs4.ErrClidInUse, false, true},
		{"3 collision without state", confirmed, 1, 1, false, false, nfs4.OK, false, false},
		{"4 unconfirmed", unconfirmed, 1, 0, false, false, nfs4.OK, false, false},
		{"4 unconfirmed, other verifier", unconfirmed, 2, 0, false, false, nfs4.OK, false, false},
		{"4 unconfirmed, other principal", unconfirmed, 1, 1, false, false, nfs4.OK, false, false},
		{"5 restart", confirmed, 2, 0, false, true, nfs4.OK, false, true},
		{"6 update", confirmed, 1, 0, true, true, nfs4.OK, true, true},
		{"7 update of nothing", none, 1, 0, true, false, nfs4.ErrNoEnt, false, false},
		{"7 update of unconfirmed", unconfirmed, 1, 0, true, false, nfs4.ErrNoEnt, false, true},
		{"8 update, other verifier", confirmed, 2, 0, true, true, nfs4.ErrNotSame, false, true},
		{"8 update, other verifier and principal", confirmed, 2, 1, true, true, nfs4.ErrNotSame, false, true},
		{"9 update, other principal", confirmed, 1, 1, true, true, nfs4.ErrPerm, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestState(t)
			var old uint64
			var session *Session
			if test.record != none {
				var sequence uint32
				old, sequence, _ = w.mustExchange(exchangeArgs("c", 1, 0))
				if test.record == confirmed {
					session = w.mustCreateSession(createArgs(old, sequence, 0))
				}
				if session != nil && !test.state {
					want(t, "DESTROY_SESSION", w.DestroySession(session.ID, nil), nfs4.OK)
				}
			}
			x := exchangeArgs("c", test.verifier, test.uid)
			x.Update = test.update
			id, sequence, isConfirmed, status := w.ExchangeID(x)
			want(t, "status", status, test.status)
			if status == nfs4.OK {
				want(t, "same client ID", id == old, test.same)
				want(t, "confirmed", isConfirmed, test.same) // R8881-18.35.3-3
				if !test.same {                              // R8881-18.35.3-4
					w.mustCreateSession(createArgs(id, sequence, test.uid))
					want(t, "record after the new one is confirmed", w.clients[old], nil)
					return
				}
				w.mustCreateSession(createArgs(id, sequence, test.uid))
			}
			want(t, "record stays", w.clients[old] != nil, test.stays)
			if session != nil {
				want(t, "old session works", w.beginNextCall(session, 0).New, test.stays && test.state)
			}
		})
	}
}

// R8881-2.4.3-1, R8881-18.35.4-3: an expired lease protects nothing, but a call
// that runs keeps the lease (R8881-8.3-3).
func TestCollisionAfterLease(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	w.mustOpen(s, "o", "f", 1, 0, "file")
	w.beginNextCall(s, 0)
	w.advanceClock(10 * testLease)
	collide := func() nfs4.Status {
		_, _, _, status := w.ExchangeID(exchangeArgs("c", 1, 1))
		return status
	}
	want(t, "collision while a call runs", collide(), nfs4.ErrClidInUse)
	s.End(0, nil, false, false)
	w.advanceClock(testLease)
	want(t, "collision within the lease", collide(), nfs4.ErrClidInUse)
	want(t, "releases", w.releaseCount("file"), 0)
	w.advanceClock(1)
	want(t, "collision after the lease", collide(), nfs4.OK)
	want(t, "releases", w.releaseCount("file"), 1)
	want(t, "SEQUENCE of the old session", w.beginNextCall(s, 0).Status, nfs4.ErrBadSession)
}

// R8881-18.35.4-3: unidentified machines are distinguished by their names.
func TestCollisionOfNames(t *testing.T) {
	w := newTestState(t)
	of := func(verifier int, name string) *Exchange {
		x := exchangeArgs("c", verifier, 0)
		x.Principal = Principal{Flavor: 6, Name: name}
		return x
	}
	x := of(1, "host/a@R")
	id, sequence, _ := w.mustExchange(x)
	c := createArgs(id, sequence, 0)
	c.Principal = of(1, "host/b@R").Principal
	want(t, "CREATE_SESSION by another name", w.CreateSession(c).Status, nfs4.ErrClidInUse)
	c.Principal = x.Principal
	s := w.mustCreateSession(c)
	again, _, confirmed := w.mustExchange(x)
	want(t, "the same client", again == id && confirmed, true)
	want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	w.mustOpen(s, "o", "f", 1, 0, nil)
	_, _, _, status := w.ExchangeID(of(2, "host/b@R"))
	want(t, "collision within the lease", status, nfs4.ErrClidInUse)
	w.mustExchange(of(2, "host/a@R"))
	want(t, "the client is there", w.beginNextCall(s, 0).New, true)
}

// R8881-18.35.4-3, R8881-18.37.3-1: the lease protects opens without a session.
func TestCollisionWithoutSession(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	w.mustOpen(s, "o", "f", 1, 0, nil)
	w.advanceClock(2 * testLease)
	w.renewByCall(s)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	w.advanceClock(testLease)
	_, _, _, status := w.ExchangeID(exchangeArgs("c", 1, 1))
	want(t, "collision within the lease", status, nfs4.ErrClidInUse)
	w.advanceClock(1)
	w.mustExchange(exchangeArgs("c", 1, 1))
}

// R8881-2.4-2, R8881-2.4.3-4, R8881-8.4.1-1, R8881-8.4.2.1-3, R8881-18.35.4-5: a new incarnation
// removes all state of the old one when CREATE_SESSION confirms the record, also if the call uses a
// session of the old one, and not while another call runs.
func TestRestart(t *testing.T) {
	w := newTestState(t)
	old := w.newTestClient("c")
	other := w.newTestClient("other")
	oldID := old.ClientID()
	_, stateid := w.mustOpen(old, "o", "f", 1, nfs4.ShareBoth, "file")
	id, sequence, _ := w.mustExchange(exchangeArgs("c", 2, 0))
	want(t, "SEQUENCE before CREATE_SESSION", w.beginNextCall(old, 0).New, true)

	refused := createArgs(id, sequence, 0)
	refused.Refused = nfs4.ErrTooSmall // R8881-18.36.4-5
	want(t, "CREATE_SESSION", w.CreateSession(refused).Status, nfs4.ErrTooSmall)
	sequence++
	want(t, "stateid after a failed confirmation", w.TestStateID(old, &stateid), nfs4.OK)

	want(t, "CREATE_SESSION while an old call runs", w.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrDelay)
	want(t, "stateid after that", w.TestStateID(old, &stateid), nfs4.OK)
	inOld := createArgs(id, sequence, 0)
	inOld.Own = old // the running call is this one
	s := w.mustCreateSession(inOld)
	want(t, "releases", w.releaseCount("file"), 1)
	want(t, "stateid", w.TestStateID(old, &stateid), nfs4.ErrBadStateID)
	want(t, "OPEN in the rest of the COMPOUND", w.openStatus(old, "o", "f", 1, 0), nfs4.ErrBadSession)
	want(t, "RECLAIM_COMPLETE there", w.ReclaimComplete(old), nfs4.ErrBadSession)
	old.End(0, nil, false, false)
	want(t, "SEQUENCE of the old session", w.beginNextCall(old, 0).Status, nfs4.ErrBadSession)
	want(t, "old session", w.Session(old.ID), nil)
	want(t, "CREATE_SESSION with the old ID", w.CreateSession(createArgs(oldID, 2, 0)).Status, nfs4.ErrStaleClientID)
	want(t, "another's OPEN", w.openStatus(other, "o", "f", 3, 0), nfs4.OK)
	want(t, "OPEN before RECLAIM_COMPLETE", w.openStatus(s, "o", "f", 1, 0), nfs4.ErrGrace) // R8881-18.51.3-2
}

// R8881-18.51.3-1 to -3, R8881-8.4.2.1-8, R8881-8.4.3-3: RECLAIM_COMPLETE comes once, and there
// is nothing to reclaim.
//
// R8881-18.51.3-3.
func TestReclaimComplete(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	want(t, "second RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.ErrCompleteAlready)
	_, _, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 1, Reclaim: true}, "file")
	want(t, "reclaim", status, nfs4.ErrNoGrace)
	want(t, "releases of a File that no Open took", w.releaseCount("file"), 1)
}

// R8881-18.50.3-1, -3, R8881-2.4.2-2: DESTROY_CLIENTID.
//
// R8881-18.50.3-3.
func TestDestroyClientID(t *testing.T) {
	w := newTestState(t)
	want(t, "unknown", w.DestroyClientID(testEpoch<<32|99), nfs4.ErrStaleClientID)
	id, _, _ := w.mustExchange(exchangeArgs("u", 1, 0))
	want(t, "unconfirmed", w.DestroyClientID(id), nfs4.OK)
	w.checkEmpty()

	s := w.newTestClient("c")
	id = s.ClientID()
	_, stateid := w.mustOpen(s, "o", "f", 1, 0, "file")
	want(t, "with a session", w.DestroyClientID(id), nfs4.ErrClientIDBusy)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "with an open", w.DestroyClientID(id), nfs4.ErrClientIDBusy)
	s = w.mustCreateSession(createArgs(id, 2, 0)) // R8881-2.10.13.1.4-1: opens outlive sessions
	want(t, "CLOSE", w.Close(s, &stateid), nfs4.OK)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "without anything", w.DestroyClientID(id), nfs4.OK)
	want(t, "again", w.DestroyClientID(id), nfs4.ErrStaleClientID)
	w.checkEmpty()
}

// Each transport is a separate server: client records are not shared.
func TestTransportsApart(t *testing.T) {
	w := newTestState(t)
	over := exchangeArgs("c", 1, 1)
	over.Transport = RDMA
	s := w.newTestClient("c")
	id, _, confirmed := w.mustExchange(over)
	want(t, "same client", id == s.ClientID() || confirmed, false)
}

// Clients that only send EXCHANGE_ID displace each other, the oldest first.
//
// R8881-21-5.
func TestManyClients(t *testing.T) {
	w := newTestState(t)
	w.newTestClient("first")
	id, sequence, _ := w.mustExchange(exchangeArgs("x", 1, 0))
	for i := range maxUnconfirmed / 2 {
		w.advanceClock(1)
		w.mustExchange(exchangeArgs(fmt.Sprint("x", i), 1, 0))
	}
	want(t, "records", len(w.clients), maxUnconfirmed/2+1)
	want(t, "CREATE_SESSION of the oldest", w.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrStaleClientID)
}

// R8881-2.10.13.2.2-1: if a limit is reached, the client that has been silent
// the longest is removed, but no client with a valid lease.
func TestClientsWithoutRoom(t *testing.T) {
	w := newTestState(t)
	oldest := w.newTestClient("oldest")
	w.advanceClock(1)
	for i := range maxClients/2 - 1 {
		w.newTestClient(fmt.Sprint(i))
	}
	_, _, _, status := w.ExchangeID(exchangeArgs("one more", 1, 0))
	want(t, "EXCHANGE_ID", status, nfs4.ErrDelay)
	w.advanceClock(testLease)
	w.newTestClient("one more")
	want(t, "SEQUENCE of the oldest client", w.beginNextCall(oldest, 0).Status, nfs4.ErrBadSession)
	want(t, "records", len(w.clients), maxClients/2)
}

// TestClientIDsAfterRestart checks that a State that begins within the same
// second as an earlier State does not give out the earlier client IDs again.
//
// R8881-2.4-4.
func TestClientIDsAfterRestart(t *testing.T) {
	x := Exchange{Owner: []byte("client")}
	first, _, _, _ := newTestState(t).ExchangeID(&x)
	second, _, _, _ := newTestState(t).ExchangeID(&x)
	if first == second {
		t.Errorf("client ID %#x twice", first)
	}
}

// A client ID reveals nothing about others: neither half repeats or increments in the
// next (R8881-2.4-4). An ID of an earlier State is stale.
func TestClientIDsAreRandom(t *testing.T) {
	w := newTestState(t)
	high, low := make(map[uint32]bool), make(map[uint32]bool)
	var last uint64
	for i := range 100 {
		id, _, _ := w.mustExchange(exchangeArgs(fmt.Sprint(i), 1, 0))
		high[uint32(id>>32)], low[uint32(id)] = true, true
		want(t, "a step to the next ID", id-last < 1<<16 || last-id < 1<<16, false)
		last = id
	}
	want(t, "distinct halves", len(high) == 100 && len(low) == 100, true)
	later := newTestState(t)
	want(t, "CREATE_SESSION with an ID of an earlier State", later.CreateSession(createArgs(last, 1, 0)).Status, nfs4.ErrStaleClientID)
	_, status := later.ByClientID(TCP, Host{}, last)
	want(t, "RENEW with an ID of an earlier State", status, nfs4.ErrStaleClientID)
}

// R8881-18.36.4-1: a retry of CREATE_SESSION tells the session's ID. Only callers at
// the client's addresses learn it, and can create further sessions. A client whose
// address has changed sends its verifier in EXCHANGE_ID.
func TestCreateSessionFromElsewhere(t *testing.T) {
	w := newTestState(t)
	id, sequence, _ := w.mustExchange(exchangeFrom(1, "c"))
	a := createFrom(1, id, sequence)
	a.Conn = "other"
	s := w.mustCreateSession(a)
	a.Principal.UID = 1000
	want(t, "retry of another user of the host", w.CreateSession(a).Session, s.ID)
	for n := range uint32(4) {
		res := w.CreateSession(createFrom(66, id, n))
		want(t, "status for another host", res.Status, nfs4.ErrStaleClientID)
		want(t, "session for another host", res.Session, nfs4.SessionID{})
	}
	stranger := &Caller{Principal: Principal{Flavor: 1}, Party: exchangeFrom(66, "").Party}
	want(t, "another host manages the client", w.MayManage(id, stranger), false)
	want(t, "another host manages the session", s.Manages(stranger, "its connection"), false)
	want(t, "a bound connection manages the session", s.Manages(stranger, "other"), true)

	again, sequence, confirmed := w.mustExchange(exchangeFrom(2, "c"))
	want(t, "the same client at its new address", again == id && confirmed, true)
	w.mustCreateSession(createFrom(2, id, sequence))
	want(t, "at its old address", w.MayManage(id, &Caller{Party: exchangeFrom(1, "").Party}), true)
	for i := range maxKnownAddrs {
		w.mustExchange(exchangeFrom(byte(100+i), "c"))
	}
	want(t, "addresses that are remembered", len(w.clients[id].knownAddrs), maxKnownAddrs)
	want(t, "at the address of long ago", w.MayManage(id, &Caller{Party: exchangeFrom(1, "").Party}), false)
}

// Of a client whose principal is verified the address does not matter.
func TestVerifiedPrincipalManages(t *testing.T) {
	w := newTestState(t)
	x := exchangeFrom(1, "c")
	x.Principal = Principal{Flavor: 6, Name: "host/a@R"}
	id, sequence, _ := w.mustExchange(x)
	a := createFrom(1, id, sequence)
	a.Principal = x.Principal
	s := w.mustCreateSession(a)
	user := createFrom(1, id, sequence)
	want(t, "retry of a user who claims to be root", w.CreateSession(user).Status, nfs4.ErrClidInUse)
	user.Sequence++
	want(t, "another session", w.CreateSession(user).Status, nfs4.ErrClidInUse)
	by := &Caller{Principal: user.Principal, Party: user.Party}
	want(t, "the user manages the client", w.MayManage(id, by), false)
	want(t, "the user joins the session", s.Admits(by.Principal), false)
	same := &Caller{Principal: x.Principal, Party: exchangeFrom(9, "").Party}
	want(t, "the principal elsewhere", w.MayManage(id, same) && s.Admits(same.Principal), true)
}

// R8881-2.4.3-1: a caller with a client's name and user, but another address and verifier,
// does not remove the client while it is up. A client that has restarted at another address
// waits for its lease. For NFSv4.0 clients the same holds.
func TestRestartFromElsewhere(t *testing.T) {
	for _, version := range []string{"4.1", "4.0"} {
		t.Run(version, func(t *testing.T) {
			w := newTestState(t)
			var id uint64
			var renew func()
			claim := func() (status nfs4.Status) {
				x := exchangeFrom(66, "c")
				x.Verifier[0]++
				_, _, _, status = w.ExchangeID(x)
				return status
			}
			if version == "4.0" {
				claim = func() (status nfs4.Status) {
					a := setClientIDArgs("c", 2, 0)
					a.Party = exchangeFrom(66, "").Party
					_, _, _, status = w.SetClientID(a)
					return status
				}
				a := setClientIDArgs("c", 1, 0)
				a.Party = exchangeFrom(1, "").Party
				var confirm nfs4.Verifier
				id, confirm = w.mustSetClientID(a)
				want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, a.Principal, Host{}, id, confirm), nfs4.OK)
				s := w.mustEnter(id)
				w.openNewOwner(s, "o", "f", "file")
				s.Leave()
				renew = func() { w.mustEnter(id).Leave() }
			} else {
				var sequence uint32
				id, sequence, _ = w.mustExchange(exchangeFrom(1, "c"))
				s := w.mustCreateSession(createFrom(1, id, sequence))
				renew = func() { w.renewByCall(s) }
			}
			w.advanceClock(1)
			want(t, "claim", claim(), nfs4.ErrDelay)
			w.advanceClock(testLease / 2)
			renew()
			want(t, "claim of the name of a client that is up", claim(), nfs4.ErrClidInUse)
			w.advanceClock(testLease / 2)
			renew()
			w.advanceClock(1)
			want(t, "the client", w.clients[id] != nil, true)
			w.advanceClock(3 * testLease)
			want(t, "claim after the lease", claim(), nfs4.OK)
		})
	}
}
