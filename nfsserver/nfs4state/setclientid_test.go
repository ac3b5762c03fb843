package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// setClientIDArgs returns the SETCLIENTID arguments for a client incarnation.
func setClientIDArgs(id string, verifier, uid int) *SetClientID {
	return &SetClientID{Principal: Principal{Flavor: 1, UID: uint32(uid)}, ID: []byte(id), Verifier: nfs4.Verifier{byte(verifier)}}
}

// mustSetClientID sends SETCLIENTID, which must succeed.
func (w *testState) mustSetClientID(a *SetClientID) (id uint64, confirm nfs4.Verifier) {
	w.t.Helper()
	id, confirm, _, status := w.SetClientID(a)
	want(w.t, "SETCLIENTID", status, nfs4.OK)
	return id, confirm
}

// newClient40 creates an NFSv4.0 client with uid 0, and begins a call.
func (w *testState) newClient40(name string) *Session {
	w.t.Helper()
	id, confirm := w.mustSetClientID(setClientIDArgs(name, 1, 0))
	want(w.t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 0}, Host{}, id, confirm), nfs4.OK)
	return w.mustEnter(id)
}

// mustEnter begins a call of a client.
func (w *testState) mustEnter(id uint64) *Session {
	w.t.Helper()
	s, status := w.ByClientID(TCP, Host{}, id)
	want(w.t, "client ID", status, nfs4.OK)
	return s
}

// A notedRecord is a client record in the notation of RFC 7530, Section 16.33.5.
type notedRecord struct {
	v byte
	c uint64
	s nfs4.Verifier
}

// TestSetClientIDCases has a client make all short sequences of SETCLIENTID, of two
// incarnations, and SETCLIENTID_CONFIRM, of any earlier results. The answers, and
// the times at which opens are lost, are those of the five cases of RFC 7530,
// Sections 16.33.5 and 16.34.5.
//
// R7530-16.33-2, R7530-16.33-3, R7530-16.33-4, R7530-16.33-5, R7530-16.34-1,
// R7530-16.34-2, R7530-16.34-3, R7530-9.1.1-2, R7530-9.1.1-7, R7530-9.6.1-1.
func TestSetClientIDCases(t *testing.T) {
	const (
		set1 = iota
		set2
		confirmLast
		confirmBefore
		confirmFirst
		openFile
		choices
		length = 5
	)
	total := 1
	for range length {
		total *= choices
	}
	for n := range total {
		w := newTestState(t)
		var confirmed, unconfirmed *notedRecord
		var given []notedRecord
		open := false
		trace := ""
		for step, rest := 0, n; step < length; step, rest = step+1, rest/choices {
			choice := rest % choices
			trace += fmt.Sprint(choice)
			switch choice {
			case set1, set2:
				v := byte(choice + 1)
				id, confirm := w.mustSetClientID(setClientIDArgs("x", int(v), 0))
				same := confirmed != nil && confirmed.v == v
				for _, g := range given {
					if g.s == confirm || g.c == id && (!same || g.c != confirmed.c) {
						t.Fatalf("%s: an identifier is given twice", trace)
					}
				}
				if same {
					want(t, trace+": client ID", id, confirmed.c)
				}
				unconfirmed = &notedRecord{v, id, confirm}
				given = append(given, *unconfirmed)
			case openFile:
				if confirmed == nil || open {
					continue
				}
				s := w.mustEnter(confirmed.c)
				turn := &Turn{Op: nfs4.OpOpen, Owner: []byte("o")}
				want(t, trace+": turn", w.BeginTurn(t.Context(), s, turn), nfs4.OK)
				w.mustOpen(s, "o", "f", 3, 0, nil)
				w.EndTurn(turn, nfs4.OK, []byte("reply"), nil)
				s.Leave()
				open = true
			default:
				at := map[int]int{confirmLast: len(given) - 1, confirmBefore: len(given) - 2, confirmFirst: 0}[choice]
				if at < 0 || at >= len(given) {
					continue
				}
				g := given[at]
				expected := nfs4.ErrStaleClientID
				switch {
				case unconfirmed != nil && *unconfirmed == g:
					open = open && confirmed.c == g.c
					confirmed, unconfirmed, expected = unconfirmed, nil, nfs4.OK
				case confirmed != nil && *confirmed == g:
					expected = nfs4.OK
				}
				want(t, trace+": other principal", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 7}, Host{}, g.c, g.s) == nfs4.OK, false)
				want(t, trace+": other transport", w.ConfirmClientID(RDMA, Principal{Flavor: 1, UID: 0}, Host{}, g.c, g.s), nfs4.ErrStaleClientID)
				want(t, trace+": SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 0}, Host{}, g.c, g.s), expected)
			}
			want(t, trace+": something is open", len(w.allFiles()) > 0, open)
			if confirmed != nil {
				w.mustEnter(confirmed.c).Leave()
			}
		}
	}
}

// TestSetClientIDPrincipals: another principal does not get a name that has state
// (R7530-9.1.1-6, R7530-16.33-1), but gets one without state or past its lease
// (R7530-9.1.2-2).
func TestSetClientIDPrincipals(t *testing.T) {
	w := newTestState(t)
	a := setClientIDArgs("x", 1, 0)
	a.Callback.UAddr = "somewhere"
	id, confirm := w.mustSetClientID(a)
	want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 0}, Host{}, id, confirm), nfs4.OK)
	s := w.mustEnter(id)
	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("o")}, func() { w.mustOpen(s, "o", "f", 3, 0, nil) })
	s.Leave()
	thief := setClientIDArgs("x", 1, 7)
	_, _, using, status := w.SetClientID(thief)
	want(t, "SETCLIENTID by another", status, nfs4.ErrClidInUse)
	want(t, "client_using", using.UAddr, "somewhere")
	w.advanceClock(testLease + 1)
	stolen, confirm := w.mustSetClientID(thief)
	want(t, "files", len(w.allFiles()), 0)
	want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 7}, Host{}, stolen, confirm), nfs4.OK)
	_, status = w.ByClientID(TCP, Host{}, id)
	want(t, "old client ID (R7530-9.6.3.2-1)", status, nfs4.ErrExpired)
	next, _ := w.mustSetClientID(setClientIDArgs("x", 3, 0)) // stolen has no state
	want(t, "client IDs", next != stolen && next != id, true)
}

// TestSetClientIDBounds: a flood of SETCLIENTID drops the flood's own records
// (R7530-16.34-5), and unconfirmed ones end after a lease.
func TestSetClientIDBounds(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("quiet")
	s.Leave()
	for i := range 3 * maxUnconfirmed {
		w.mustSetClientID(setClientIDArgs(fmt.Sprint("x", i), 1, 0))
	}
	want(t, "unconfirmed records", w.usage.get(unconfirmedRecords) <= maxUnconfirmed, true)
	id, confirm := w.mustSetClientID(setClientIDArgs("late", 1, 0))
	w.advanceClock(testLease + 1)
	want(t, "SETCLIENTID_CONFIRM after a lease", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 0}, Host{}, id, confirm), nfs4.ErrStaleClientID)
	w.Sweep()
	want(t, "records", len(w.clients), 1)
	want(t, "Expire", w.Expire(s.ClientID()), nfs4.OK)
	w.checkEmpty()
}

// TestVersionsApart: the same name in NFSv4.0 and NFSv4.1 means two clients, whose
// identifiers are separate. The same holds for the other transport.
func TestVersionsApart(t *testing.T) {
	w := newTestState(t)
	plain, later := w.newClient40("x"), w.newTestClient("x")
	want(t, "client IDs differ", plain.ClientID() != later.ClientID(), true)
	var id nfs4.StateID
	w.mustTurn(plain, &Turn{Op: nfs4.OpOpen, Owner: []byte("o")}, func() { _, id = w.mustOpen(plain, "o", "f", 3, 0, nil) })
	_, other := w.mustOpen(later, "o", "f", 3, 0, nil)
	_, status := w.ByClientID(TCP, Host{}, later.ClientID())
	want(t, "client ID of 4.1", status, nfs4.ErrStaleClientID)
	_, status = w.ByStateID(TCP, Host{}, &other)
	want(t, "stateid of 4.1", status, nfs4.ErrBadStateID)
	_, status = w.ByStateID(RDMA, Host{}, &id)
	want(t, "stateid by RDMA", status, nfs4.ErrBadStateID)
	_, status = w.ByClientID(RDMA, Host{}, plain.ClientID())
	want(t, "client ID by RDMA", status, nfs4.ErrStaleClientID)
	_, status = w.Open(later, &id)
	want(t, "stateid of 4.0", status, nfs4.ErrBadStateID)
	want(t, "DESTROY_CLIENTID", w.DestroyClientID(plain.ClientID()), nfs4.ErrStaleClientID)
	want(t, "CREATE_SESSION", w.CreateSession(createArgs(plain.ClientID(), 1, 0)).Status, nfs4.ErrStaleClientID)
}

// TestLeases40: an NFSv4.0 client is not removed while one of its calls is
// running, or within a lease of the last (R7530-9.5-3), and is then removed at
// a conflict (R7530-9.6.3.1-2) or after a day. Its identifiers are
// NFS4ERR_EXPIRED (R7530-9.6.3-1, R7530-9.1.4.4-5).
func TestLeases40(t *testing.T) {
	w := newTestState(t)
	s, other := w.newClient40("x"), w.newTestClient("other")
	var id nfs4.StateID
	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("o")}, func() { _, id = w.mustOpen(s, "o", "f", 3, 3, "file") })
	w.confirmOwner(s, "o")
	w.advanceClock(2 * testLease)
	want(t, "OPEN while a call runs", w.openStatus(other, "o", "f", 1, 0), nfs4.ErrShareDenied)
	s.Leave()
	w.advanceClock(testLease)
	want(t, "OPEN within a lease", w.openStatus(other, "o", "f", 1, 0), nfs4.ErrShareDenied)
	list, _ := w.Clients(10)
	want(t, "minor version in the list", list[0].Minor, 0)
	want(t, "sessions in the list", len(list[0].Sessions), 0)
	w.advanceClock(1)
	w.Sweep()
	again, status := w.ByStateID(TCP, Host{}, &id)
	want(t, "stateid of a courtesy client (R7530-9.6.3.1-1)", status, nfs4.OK)
	again.Leave()
	w.advanceClock(testLease + 1)
	want(t, "OPEN after a lease", w.openStatus(other, "o", "f", 1, 0), nfs4.OK)
	want(t, "releases", w.releaseCount("file"), 1)
	_, status = w.ByStateID(TCP, Host{}, &id)
	want(t, "stateid", status, nfs4.ErrExpired)
	_, status = w.ByClientID(TCP, Host{}, s.ClientID())
	want(t, "client ID", status, nfs4.ErrExpired)
	unknown := id
	unknown.Other[11]++
	_, status = w.ByStateID(TCP, Host{}, &unknown)
	want(t, "stateid that was never given", status, nfs4.ErrBadStateID)
	unknown.Other[0]++
	_, status = w.ByStateID(TCP, Host{}, &unknown)
	want(t, "stateid of another server", status, nfs4.ErrStaleStateID)
	idle := w.newClient40("idle")
	idle.Leave()
	w.advanceClock(defaultCourtesy + 1)
	w.Sweep()
	_, status = w.ByClientID(TCP, Host{}, idle.ClientID())
	want(t, "client ID after a day (R7530-9.1.2-1)", status, nfs4.ErrExpired)
}

// TestConfirmBesideCalls: SETCLIENTID_CONFIRM of a new incarnation is NFS4ERR_DELAY while
// a call of the old one is running, and removes nothing until then (R7530-9.6.1-1).
func TestConfirmBesideCalls(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	id := w.openNewOwner(s, "o", "f", "file")
	next, confirm := w.mustSetClientID(setClientIDArgs("x", 2, 0))
	want(t, "SETCLIENTID_CONFIRM during a call", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 0}, Host{}, next, confirm), nfs4.ErrDelay)
	_, status := w.Open(s, &id)
	want(t, "stateid of the old incarnation", status, nfs4.OK)
	_, status = w.ByClientID(TCP, Host{}, next)
	want(t, "client ID that is not confirmed", status, nfs4.ErrStaleClientID)
	s.Leave()
	want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, Principal{Flavor: 1, UID: 0}, Host{}, next, confirm), nfs4.OK)
	want(t, "releases", w.releaseCount("file"), 1)
	_, status = w.ByStateID(TCP, Host{}, &id)
	want(t, "stateid of the old incarnation", status, nfs4.ErrExpired)
	w.mustEnter(next).Leave()
}

// TestNewCallbackIsTried: a client that changes its callback gets no delegation until
// the new one has replied, whatever the old one replies late (R7530-10.2-1).
func TestNewCallbackIsTried(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	w.openNewOwner(s, "o", "f", nil)
	may := func() bool { return w.MayDelegate(s, "f", false) != nfs4.ErrCBPathDown }
	want(t, "delegation before the callback answers", may(), false)
	w.CallbackAnswers(s.ClientID(), Callback{}, true)
	want(t, "delegation when the callback has answered", may(), true)
	a := setClientIDArgs("x", 1, 0)
	a.Callback.Ident = 7
	id, confirm := w.mustSetClientID(a)
	want(t, "delegation before SETCLIENTID_CONFIRM", may(), true)
	want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, a.Principal, Host{}, id, confirm), nfs4.OK)
	want(t, "delegation after a change of the callback", may(), false)
	w.CallbackAnswers(id, Callback{}, true)
	want(t, "delegation when the old callback has answered", may(), false)
	w.CallbackAnswers(id, a.Callback, true)
	want(t, "delegation when the new callback has answered", may(), true)
}

// TestMemory: the oldest values are forgotten.
func TestMemory(t *testing.T) {
	var m recentSet[int]
	for i := range 2*maxRemembered + 3 {
		m.add(i)
		want(t, "value just added", m.has(i), true)
	}
	want(t, "oldest", m.has(maxRemembered+2), false)
	want(t, "next", m.has(maxRemembered+3), true)
	want(t, "size", len(m.set), maxRemembered)
}

// TestRenewPrincipals: RENEW needs the client's principal, or one with an open
// (R7530-16.28-4).
func TestRenewPrincipals(t *testing.T) {
	w := newTestState(t)
	s := w.newClient40("x")
	var id nfs4.StateID
	w.mustTurn(s, &Turn{Op: nfs4.OpOpen, Owner: []byte("o"), Principal: Principal{Flavor: 1, UID: 7}}, func() { _, id = w.mustOpen(s, "o", "f", 3, 0, nil) })
	w.confirmOwner(s, "o")
	want(t, "RENEW by the maker", w.Renew(s, Principal{Flavor: 1, UID: 0}), nfs4.OK)
	want(t, "RENEW by a user with an open", w.Renew(s, Principal{Flavor: 1, UID: 7}), nfs4.OK)
	want(t, "RENEW by a stranger", w.Renew(s, Principal{Flavor: 1, UID: 8}), nfs4.ErrAccess)
	w.mustTurn(s, &Turn{Op: nfs4.OpClose, StateID: id, SeqID: 1}, func() { want(t, "CLOSE", w.Close(s, &id), nfs4.OK) })
	want(t, "RENEW after CLOSE", w.Renew(s, Principal{Flavor: 1, UID: 7}), nfs4.ErrAccess)
}
