package nfs4state

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// R8881-2.4-1, R8881-18.36.4-1 to -5: CREATE_SESSION's order of checks, and its reply cache of
// one slot, for failures too.
//
// R8881-18.36.4-4, R8881-18.36.4-5.
func TestCreateSession(t *testing.T) {
	w := newTestState(t)
	want(t, "unknown client ID", w.CreateSession(createArgs(testEpoch<<32|99, 1, 0)).Status, nfs4.ErrStaleClientID)
	id, sequence, _ := w.mustExchange(exchangeArgs("c", 1, 0))
	for _, misordered := range []uint32{sequence - 1, sequence + 1, sequence - 2} { // R8881-18.36.4-2
		want(t, "misordered", w.CreateSession(createArgs(id, misordered, 0)).Status, nfs4.ErrSeqMisordered)
	}
	want(t, "other principal", w.CreateSession(createArgs(id, sequence, 1)).Status, nfs4.ErrClidInUse)
	refused := createArgs(id, sequence, 0)
	refused.Refused = nfs4.ErrTooSmall
	want(t, "refused", w.CreateSession(refused).Status, nfs4.ErrTooSmall)
	want(t, "retry of it", w.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrTooSmall)
	want(t, "still unconfirmed", w.clients[id].confirmed, false)

	sequence++
	first := createArgs(id, sequence, 0)
	first.Flags = nfs4.SessionConnBackChan
	res := w.CreateSession(first)
	want(t, "status", res.Status, nfs4.OK)
	want(t, "csr_sequence", res.Sequence, sequence) // R8881-18.36.3-2
	for range 2 {
		want(t, "retry", w.CreateSession(createArgs(id, sequence, 0)), res)
	}
	want(t, "sessions", len(w.clients[id].sessions), 1)
	want(t, "sequence ID that EXCHANGE_ID tells", sequenceResult(w.mustExchange(exchangeArgs("c", 1, 0))), sequence+1)

	w.clients[id].sequence = ^uint32(0)            // the sequence ID wraps through 0
	s := w.mustCreateSession(createArgs(id, 0, 1)) // R8881-18.36.4-3: any principal, once confirmed
	want(t, "retry in another session's COMPOUND", w.CreateSession(createArgs(id, 0, 0)).Session, s.ID)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "retry when it is gone", w.CreateSession(createArgs(id, 0, 0)).Session, s.ID)
	w.mustCreateSession(createArgs(id, 1, 0))
}

func sequenceResult(_ uint64, sequence uint32, _ bool) uint32 { return sequence }

// R8881-18.36.4-6: sessions of a client are bounded.
//
// R8881-21-5.
func TestManySessions(t *testing.T) {
	w := newTestState(t)
	id, sequence, _ := w.mustExchange(exchangeArgs("c", 1, 0))
	for range maxSessions {
		w.mustCreateSession(createArgs(id, sequence, 0))
		sequence++
	}
	want(t, "CREATE_SESSION", w.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrNoSpc)
	want(t, "retry", w.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrNoSpc)
	want(t, "DESTROY_SESSION", w.DestroySession(w.clients[id].sessions[5].ID, nil), nfs4.OK)
	w.mustCreateSession(createArgs(id, sequence+1, 0))
}

// If all sessions together could keep very much, later ones get fewer slots, but
// one at least; the shortage ends with the sessions.
//
// R8881-21-5.
func TestShareOfReplies(t *testing.T) {
	w := newTestState(t)
	var sessions []*Session
	last := uint32(64)
	for c := range 40 {
		id, sequence, _ := w.mustExchange(exchangeArgs(string(rune('A'+c)), 1, 0))
		for range maxSessions {
			a := createArgs(id, sequence, 0)
			a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 64, 7584
			res := w.CreateSession(a)
			s := w.Session(res.Session)
			if n := res.Fore.MaxRequests; n > last || n < 1 || n != s.Fore.MaxRequests || int(n) != len(s.slots) {
				t.Fatalf("session %d has %d slots, after one with %d", len(sessions), n, last)
			}
			last = s.Fore.MaxRequests
			sessions = append(sessions, s)
			sequence++
		}
	}
	want(t, "slots of session 200", sessions[200].Fore.MaxRequests, 64)
	want(t, "slots of the last session", last, 1)
	want(t, "memory is within its bound", w.usage.get(replyBytes) <= replyMemory, true)
	for _, s := range sessions {
		w.DestroySession(s.ID, nil)
	}
	want(t, "memory when all were removed", w.usage.get(replyBytes), 0)
}

// R8881-18.37.3-1, -4: DESTROY_SESSION.
//
// R8881-18.37.3-4.
func TestDestroySession(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	_, stateid := w.mustOpen(s, "o", "f", 1, 0, nil)
	other := w.mustCreateSession(createArgs(s.ClientID(), 2, 0))
	stranger := w.newTestClient("d")
	want(t, "SEQUENCE", w.beginNextCall(s, 0).New, true)
	want(t, "while a call runs", w.DestroySession(s.ID, nil), nfs4.ErrDelay)
	want(t, "in another's COMPOUND", w.DestroySession(s.ID, other), nfs4.ErrDelay)
	want(t, "SEQUENCE", w.beginNextCall(s, 1).New, true)
	want(t, "in its own COMPOUND, another call runs", w.DestroySession(s.ID, s), nfs4.ErrDelay)
	s.End(1, nil, false, false)
	w.advanceClock(testLease)
	want(t, "in its own COMPOUND", w.DestroySession(s.ID, s), nfs4.OK)
	s.End(0, []byte("reply"), true, false)
	want(t, "retry", w.Begin(s, &Sequenced{Sequence: 1, Conn: "first"}).Status, nfs4.ErrBadSession)
	want(t, "again", w.DestroySession(s.ID, nil), nfs4.ErrBadSession)
	want(t, "Session", w.Session(s.ID), nil)
	bound, status := s.Bind("first", nfs4.BindFore)
	want(t, "Bind", status, nfs4.ErrBadSession)
	want(t, "bound", bound, 0)
	s.Unbind("first")

	// R8881-2.10.2.2-1, R8881-8.2-2: the rest is the client's.
	want(t, "stateid in the other session", w.TestStateID(other, &stateid), nfs4.OK)
	w.advanceClock(testLease)
	want(t, "conflict within the lease that the call renewed", w.openStatus(stranger, "o", "f", 1, 1), nfs4.ErrShareDenied)
	w.advanceClock(1)
	want(t, "conflict after it", w.openStatus(stranger, "o", "f", 1, 1), nfs4.OK)
}

// R8881-2.4-5, R8881-2.4-4: no identifier of another State is taken for ours.
//
// R8881-21-4.
func TestOtherEpoch(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	_, stateid := w.mustOpen(s, "o", "f", 1, 0, nil)
	sessionID := s.ID
	sessionID[3]++
	stateid.Other[3]++
	want(t, "session", w.Session(sessionID), nil)
	want(t, "client ID", w.CreateSession(createArgs(s.ClientID()+1<<32, 2, 0)).Status, nfs4.ErrStaleClientID)
	want(t, "stateid", w.TestStateID(s, &stateid), nfs4.ErrBadStateID) // never STALE_STATEID
	for i := range s.ID {
		id := s.ID
		id[i] ^= 0x80
		want(t, "session with another bit", w.Session(id), nil)
	}
}

// R8881-18.34.3-2, -3: the channels of a connection, and those of BIND_CONN.
//
// R8881-18.34.3-3.
func TestBind(t *testing.T) {
	const fore, back, both, backOrBoth = nfs4.BindFore, nfs4.BindBack, nfs4.BindBoth, nfs4.BindBackOrBoth
	for _, test := range []struct{ have, ask, bound uint32 }{
		{0, fore, fore},
		{0, back, back},
		{0, both, both},
		{0, backOrBoth, both},
		{fore, fore, fore},
		{fore, back, 0},
		{fore, both, both},
		{fore, backOrBoth, both},
		{back, fore, 0},
		{back, back, back},
		{back, both, both},
		{back, backOrBoth, both},
		{both, fore, 0},
		{both, back, 0},
		{both, both, both},
		{both, backOrBoth, both},
	} {
		w := newTestState(t)
		s := w.newTestClient("c")
		if test.have != 0 {
			_, status := s.Bind("conn", test.have)
			want(t, "first Bind", status, nfs4.OK)
		}
		bound, status := s.Bind("conn", test.ask)
		want(t, "bound", bound, test.bound)
		want(t, "INVAL", status == nfs4.ErrInval, test.bound == 0)
		if status == nfs4.OK {
			want(t, "directions", s.conns["conn"], bound)
		} else {
			want(t, "directions after a failure", s.conns["conn"], test.have)
		}
	}
}

// R8881-2.10.3.1-1, R8881-2.10.3.1-2, R8881-2.10.1-2: SEQUENCE joins a connection
// to the fore channel, CREATE_SESSION its own; sessions outlive connections.
//
// R8881-15.1.1.3-1.
func TestConnections(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	want(t, "directions of CREATE_SESSION's", s.conns["first"], nfs4.BindFore)
	a := Sequenced{Sequence: 2, Conn: "second"}
	o := w.Begin(s, &a)
	want(t, "misordered", o.Status, nfs4.ErrSeqMisordered)
	want(t, "a failed SEQUENCE joins", len(s.conns) == 2 || o.Joined, false)
	a.Sequence = 1
	want(t, "a new call joins", w.Begin(s, &a).Joined, true)
	a.Conn = "third"
	want(t, "a retry joins", w.Begin(s, &a).Joined, true)
	want(t, "again", w.Begin(s, &a).Joined, false)
	want(t, "directions", s.conns["third"], nfs4.BindFore)
	s.End(0, nil, false, false)
	s.Bind("back", nfs4.BindBack)
	want(t, "SEQUENCE on a backchannel", w.Begin(s, &Sequenced{Sequence: 2, Conn: "back"}).Joined, false)
	want(t, "its directions", s.conns["back"], nfs4.BindBoth)
	s.End(0, nil, false, false)
	for conn := range s.conns {
		s.Unbind(conn)
	}
	w.renewByCall(s)
	for n := len(s.conns); n < maxConns; n++ {
		_, status := s.Bind(n, nfs4.BindFore)
		want(t, "Bind", status, nfs4.OK)
	}
	_, status := s.Bind("one more", nfs4.BindFore)
	want(t, "Bind of one more", status, nfs4.ErrDelay)
	before := s.slots[0].sequence
	want(t, "SEQUENCE of one more", w.Begin(s, &Sequenced{Sequence: before + 1, Conn: "one more"}).Status, nfs4.ErrDelay)
	want(t, "sequence ID after that", s.slots[0].sequence, before)
}

// R8881-2.10.3.1-1, R8881-2.10.13.2.4-1, R8881-2.10.6.2-4, R8881-18.34.3-6: the flags for lost
// backchannels, of the session and of all.
//
// R8881-10.4.5-2, R8881-18.33.3-1, R8881-18.46.3-10.
func TestPathDown(t *testing.T) {
	w := newTestState(t)
	id, sequence, _ := w.mustExchange(exchangeArgs("c", 1, 0))
	session := func(flags uint32, conn string) *Session {
		a := createArgs(id, sequence, 0)
		a.Flags, a.Conn = flags, conn
		sequence++
		return w.mustCreateSession(a)
	}
	const mine, all = nfs4.SeqCBPathDownSession, nfs4.SeqCBPathDown
	plain := session(0, "x")
	want(t, "no backchannel requested", w.SequenceFlags(plain), 0)
	a, b := session(nfs4.SessionConnBackChan, "a"), session(nfs4.SessionConnBackChan, "b")
	check := func(what string, inPlain, inA, inB uint32) {
		t.Helper()
		want(t, what+": plain", w.SequenceFlags(plain), inPlain)
		want(t, what+": a", w.SequenceFlags(a), inA)
		want(t, what+": b", w.SequenceFlags(b), inB)
	}
	check("all up", 0, 0, 0)
	a.Unbind("a")
	a.Unbind("a")
	check("a down", 0, mine, 0)
	b.Unbind("b")
	check("both down", all, mine|all, mine|all)
	w.Begin(a, &Sequenced{Sequence: 1, Conn: "a"})
	a.End(0, nil, false, false)
	check("SEQUENCE is not enough", all, mine|all, mine|all)
	a.Bind("a", nfs4.BindForeOrBoth)
	a.Bind("a", nfs4.BindForeOrBoth)
	check("a is back", 0, 0, mine)
	want(t, "DESTROY_SESSION", w.DestroySession(a.ID, nil), nfs4.OK)
	want(t, "b, with a gone", w.SequenceFlags(b), mine|all)
	a.Unbind("a")
	want(t, "b, when the connection was closed too", w.SequenceFlags(b), mine|all)
	want(t, "DESTROY_SESSION", w.DestroySession(b.ID, nil), nfs4.OK)
	want(t, "no session requests a backchannel any more", w.SequenceFlags(plain), 0)
	plain.SetCallback(5, nfs4.SecParms{}, nil)
	want(t, "callback program", plain.cbProgram, 5)
}

// R8881-2.10.2.2-1, R8881-8.3-1: a call in any session of a client, a retry
// too, renews the lease of all the client's state.
//
// R8881-18.46.3-5, R8881-18.46.3-11.
func TestOneLease(t *testing.T) {
	for _, olderCalls := range []bool{false, true} {
		w := newTestState(t)
		idle, stranger := w.newTestClient("c"), w.newTestClient("d")
		w.mustOpen(idle, "o", "f", 1, 0, nil)
		busy := w.mustCreateSession(createArgs(idle.ClientID(), 2, 0))
		if olderCalls {
			idle, busy = busy, idle
		}
		conflict := func() nfs4.Status { return w.openStatus(stranger, "o", "f", 1, 1) }
		for range 3 {
			w.advanceClock(testLease)
			w.renewByCall(busy)
			w.advanceClock(testLease)
			want(t, "conflict", conflict(), nfs4.ErrShareDenied)
			want(t, "retry", w.Begin(busy, &Sequenced{Sequence: busy.slots[0].sequence}).Replay != nil, true)
		}
		w.advanceClock(testLease)
		want(t, "conflict within the lease that a retry renewed", conflict(), nfs4.ErrShareDenied)
		w.advanceClock(1)
		want(t, "conflict after it", conflict(), nfs4.OK)
		want(t, "SEQUENCE", w.beginNextCall(idle, 0).Status, nfs4.ErrBadSession)
	}
}

// R8881-2.4.3-5: EXCHANGE_ID of the same incarnation takes nothing away.
func TestExchangeIDAgain(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	_, stateid := w.mustOpen(s, "o", "f", 1, 0, nil)
	for range 2 {
		id, _, confirmed := w.mustExchange(exchangeArgs("c", 1, 0))
		want(t, "client ID", id, s.ClientID())
		want(t, "confirmed", confirmed, true)
		want(t, "stateid", w.TestStateID(s, &stateid), nfs4.OK)
		w.renewByCall(s)
	}
}
