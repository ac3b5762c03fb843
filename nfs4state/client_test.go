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
		verifier, uid int // of the call; those of the record are 1 and 0
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
			w := newWorld(t)
			var old uint64
			var session *Session
			if test.record != none {
				var sequence uint32
				old, sequence, _ = w.exchange(exchange("c", 1, 0))
				if test.record == confirmed {
					session = w.create(create(old, sequence, 0))
				}
				if session != nil && !test.state {
					want(t, "DESTROY_SESSION", w.DestroySession(session.ID, nil), nfs4.OK)
				}
			}
			x := exchange("c", test.verifier, test.uid)
			x.Update = test.update
			id, sequence, isConfirmed, status := w.ExchangeID(x)
			want(t, "status", status, test.status)
			if status == nfs4.OK {
				want(t, "same client ID", id == old, test.same)
				want(t, "confirmed", isConfirmed, test.same) // R8881-18.35.3-3
				want(t, "epoch", id>>32, testEpoch)
				if !test.same { // R8881-18.35.3-4
					w.create(create(id, sequence, test.uid))
					want(t, "record after the new one is confirmed", w.clients[old], nil)
					return
				}
				w.create(create(id, sequence, test.uid))
			}
			want(t, "record stays", w.clients[old] != nil, test.stays)
			if session != nil {
				want(t, "old session works", w.next(session, 0).New, test.stays && test.state)
			}
		})
	}
}

// R8881-2.4.3-1, R8881-18.35.4-3: an expired lease protects nothing, but a call
// that runs keeps the lease (R8881-8.3-3).
func TestCollisionAfterLease(t *testing.T) {
	w := newWorld(t)
	s := w.client("c")
	w.open(s, "o", "f", 1, 0, "file")
	w.next(s, 0)
	w.sleep(10 * testLease)
	collide := func() nfs4.Status {
		_, _, _, status := w.ExchangeID(exchange("c", 1, 1))
		return status
	}
	want(t, "collision while a call runs", collide(), nfs4.ErrClidInUse)
	s.End(0, nil, false, false)
	w.sleep(testLease)
	want(t, "collision within the lease", collide(), nfs4.ErrClidInUse)
	want(t, "releases", w.releases("file"), 0)
	w.sleep(1)
	want(t, "collision after the lease", collide(), nfs4.OK)
	want(t, "releases", w.releases("file"), 1)
	want(t, "SEQUENCE of the old session", w.next(s, 0).Status, nfs4.ErrBadSession)
}

// R8881-18.35.4-3: machines that are nobody are told apart by their names.
func TestCollisionOfNames(t *testing.T) {
	w := newWorld(t)
	of := func(verifier int, name string) *Exchange {
		x := exchange("c", verifier, 0)
		x.Principal = Principal{Flavor: 6, Name: name}
		return x
	}
	x := of(1, "host/a@R")
	id, sequence, _ := w.exchange(x)
	c := create(id, sequence, 0)
	c.Principal = of(1, "host/b@R").Principal
	want(t, "CREATE_SESSION by another name", w.CreateSession(c).Status, nfs4.ErrClidInUse)
	c.Principal = x.Principal
	s := w.create(c)
	again, _, confirmed := w.exchange(x)
	want(t, "the same client", again == id && confirmed, true)
	want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	w.open(s, "o", "f", 1, 0, nil)
	_, _, _, status := w.ExchangeID(of(2, "host/b@R"))
	want(t, "collision within the lease", status, nfs4.ErrClidInUse)
	w.exchange(of(2, "host/a@R"))
	want(t, "the client is there", w.next(s, 0).New, true)
}

// R8881-18.35.4-3, R8881-18.37.3-1: the lease protects opens without a session.
func TestCollisionWithoutSession(t *testing.T) {
	w := newWorld(t)
	s := w.client("c")
	w.open(s, "o", "f", 1, 0, nil)
	w.sleep(2 * testLease)
	w.call(s)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	w.sleep(testLease)
	_, _, _, status := w.ExchangeID(exchange("c", 1, 1))
	want(t, "collision within the lease", status, nfs4.ErrClidInUse)
	w.sleep(1)
	w.exchange(exchange("c", 1, 1))
}

// R8881-2.4-2, R8881-2.4.3-4, R8881-8.4.1-1, R8881-8.4.2.1-3, R8881-18.35.4-5: a new incarnation takes
// all state of the old one away when CREATE_SESSION confirms the record, also if
// the call uses a session of the old one, and not while another call runs.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	old := w.client("c")
	other := w.client("other")
	oldID := old.ClientID()
	_, stateid := w.open(old, "o", "f", 1, nfs4.ShareBoth, "file")
	id, sequence, _ := w.exchange(exchange("c", 2, 0))
	want(t, "SEQUENCE before CREATE_SESSION", w.next(old, 0).New, true)

	refused := create(id, sequence, 0)
	refused.Refused = nfs4.ErrTooSmall // R8881-18.36.4-5
	want(t, "CREATE_SESSION", w.CreateSession(refused).Status, nfs4.ErrTooSmall)
	sequence++
	want(t, "stateid after a failed confirmation", w.TestStateID(old, &stateid), nfs4.OK)

	want(t, "CREATE_SESSION while an old call runs", w.CreateSession(create(id, sequence, 0)).Status, nfs4.ErrDelay)
	want(t, "stateid after that", w.TestStateID(old, &stateid), nfs4.OK)
	inOld := create(id, sequence, 0)
	inOld.Own = old // the call that runs is this one
	s := w.create(inOld)
	want(t, "releases", w.releases("file"), 1)
	want(t, "stateid", w.TestStateID(old, &stateid), nfs4.ErrBadStateID)
	want(t, "OPEN in the rest of the COMPOUND", w.openStatus(old, "o", "f", 1, 0), nfs4.ErrBadSession)
	want(t, "RECLAIM_COMPLETE there", w.ReclaimComplete(old), nfs4.ErrBadSession)
	old.End(0, nil, false, false)
	want(t, "SEQUENCE of the old session", w.next(old, 0).Status, nfs4.ErrBadSession)
	want(t, "old session", w.Session(old.ID), nil)
	want(t, "CREATE_SESSION with the old ID", w.CreateSession(create(oldID, 2, 0)).Status, nfs4.ErrStaleClientID)
	want(t, "another's OPEN", w.openStatus(other, "o", "f", 3, 0), nfs4.OK)
	want(t, "OPEN before RECLAIM_COMPLETE", w.openStatus(s, "o", "f", 1, 0), nfs4.ErrGrace) // R8881-18.51.3-2
}

// R8881-18.51.3-1 to -3, R8881-8.4.2.1-8, R8881-8.4.3-3: RECLAIM_COMPLETE comes once, and there
// is nothing to reclaim.
//
// R8881-18.51.3-3.
func TestReclaimComplete(t *testing.T) {
	w := newWorld(t)
	s := w.client("c")
	want(t, "second RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.ErrCompleteAlready)
	_, _, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 1, Reclaim: true}, "file")
	want(t, "reclaim", status, nfs4.ErrNoGrace)
	want(t, "releases of a File that no Open took", w.releases("file"), 1)
}

// R8881-18.50.3-1, -3, R8881-2.4.2-2: DESTROY_CLIENTID.
//
// R8881-18.50.3-3.
func TestDestroyClientID(t *testing.T) {
	w := newWorld(t)
	want(t, "unknown", w.DestroyClientID(testEpoch<<32|99), nfs4.ErrStaleClientID)
	id, _, _ := w.exchange(exchange("u", 1, 0))
	want(t, "unconfirmed", w.DestroyClientID(id), nfs4.OK)
	w.empty()

	s := w.client("c")
	id = s.ClientID()
	_, stateid := w.open(s, "o", "f", 1, 0, "file")
	want(t, "with a session", w.DestroyClientID(id), nfs4.ErrClientIDBusy)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "with an open", w.DestroyClientID(id), nfs4.ErrClientIDBusy)
	s = w.create(create(id, 2, 0)) // R8881-2.10.13.1.4-1: opens outlive sessions
	want(t, "CLOSE", w.Close(s, &stateid), nfs4.OK)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "without anything", w.DestroyClientID(id), nfs4.OK)
	want(t, "again", w.DestroyClientID(id), nfs4.ErrStaleClientID)
	w.empty()
}

// Transports are servers of their own: their client records do not meet.
func TestTransportsApart(t *testing.T) {
	w := newWorld(t)
	over := exchange("c", 1, 1)
	over.Transport = RDMA
	s := w.client("c")
	id, _, confirmed := w.exchange(over)
	want(t, "same client", id == s.ClientID() || confirmed, false)
}

// Clients that only send EXCHANGE_ID displace each other, the oldest first. A
// client number that comes around again is not given to two (R8881-2.4-4).
//
// R8881-21-5.
func TestManyClients(t *testing.T) {
	w := newWorld(t)
	first := w.client("first")
	id, sequence, _ := w.exchange(exchange("x", 1, 0))
	for i := range maxUnconfirmed / 2 {
		w.sleep(1)
		w.exchange(exchange(fmt.Sprint("x", i), 1, 0))
	}
	want(t, "records", len(w.clients), maxUnconfirmed/2+1)
	want(t, "CREATE_SESSION of the oldest", w.CreateSession(create(id, sequence, 0)).Status, nfs4.ErrStaleClientID)
	w.number = uint32(first.ClientID()) - 2
	id, _, _ = w.exchange(exchange("wrapped", 1, 0))
	want(t, "client ID after the numbers came around", uint32(id) != 0 && id != first.ClientID(), true)
	want(t, "the first client's record", w.clients[first.ClientID()], first.client)
}

// R8881-2.10.13.2.2-1: if there is no more room, the client that has been silent
// the longest gives way, but no client that has a lease.
func TestClientsWithoutRoom(t *testing.T) {
	w := newWorld(t)
	oldest := w.client("oldest")
	w.sleep(1)
	for i := range maxClients/2 - 1 {
		w.client(fmt.Sprint(i))
	}
	_, _, _, status := w.ExchangeID(exchange("one more", 1, 0))
	want(t, "EXCHANGE_ID", status, nfs4.ErrDelay)
	w.sleep(testLease)
	w.client("one more")
	want(t, "SEQUENCE of the oldest client", w.next(oldest, 0).Status, nfs4.ErrBadSession)
	want(t, "records", len(w.clients), maxClients/2)
}

// TestClientIDsAfterRestart checks that a State that begins within the same
// second as an earlier State does not give out the earlier client IDs again.
//
// R8881-2.4-4.
func TestClientIDsAfterRestart(t *testing.T) {
	x := Exchange{Owner: []byte("client")}
	first, _, _, _ := newWorld(t).ExchangeID(&x)
	second, _, _, _ := newWorld(t).ExchangeID(&x)
	if first == second {
		t.Errorf("client ID %#x twice", first)
	}
}
