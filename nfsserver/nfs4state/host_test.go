package nfs4state

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestHostCollision checks that a client made by mutual TLS keeps its state until its
// lease expires, even if another caller uses its name and its user: unencrypted, with
// TLS but no certificate, or with another host's certificate (RFC 8881, Sections 2.4.3
// and 18.35.4).
func TestHostCollision(t *testing.T) {
	mine, other := Host{1}, Host{2}
	for _, test := range []struct {
		name         string
		made, by     Host
		mayEnd, join bool // a new incarnation ends the state; the same one makes a session
	}{
		{"same host", mine, mine, true, true},
		{"in clear", mine, Host{}, false, false},
		{"another host", mine, other, false, false},
		{"made in clear", Host{}, other, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestState(t)
			x := exchangeArgs("c", 1, 0)
			x.Host = test.made
			id, sequence, _ := w.mustExchange(x)
			first := createArgs(id, sequence, 0)
			first.Host = test.made
			s := w.mustCreateSession(first)
			want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
			w.mustOpen(s, "o", "f", 1, 0, "file")

			again := createArgs(id, sequence, 0)
			again.Host = test.by
			res := w.CreateSession(again)
			want(t, "a retry tells the session", res.Session == s.ID, test.join)
			joins := createArgs(id, sequence+1, 0)
			joins.Host = test.by
			x = exchangeArgs("c", 1, 0)
			x.Host = test.by
			same, _, confirmed, status := w.ExchangeID(x)
			want(t, "EXCHANGE_ID of the same incarnation", status, nfs4.OK)
			want(t, "client ID", same == id && confirmed, true)
			x.Update = true
			_, _, _, status = w.ExchangeID(x)
			want(t, "update", status == nfs4.OK, test.join)
			res = w.CreateSession(joins)
			want(t, "CREATE_SESSION", res.Status == nfs4.OK, test.join)
			if !test.join {
				want(t, "status", res.Status, nfs4.ErrClidInUse)
			}

			restart := func() (status nfs4.Status) {
				x := exchangeArgs("c", 2, 0)
				x.Host = test.by
				id, sequence, _, status := w.ExchangeID(x)
				if status != nfs4.OK {
					return status
				}
				c := createArgs(id, sequence, 0)
				c.Host = test.by
				return w.CreateSession(c).Status
			}
			if test.mayEnd {
				want(t, "restart", restart(), nfs4.OK)
				want(t, "releases", w.releaseCount("file"), 1)
				return
			}
			want(t, "restart", restart(), nfs4.ErrClidInUse)
			want(t, "releases", w.releaseCount("file"), 0)
			want(t, "the client's session", w.beginNextCall(s, 0).New, true)
			s.End(0, nil, false, false)
			w.advanceClock(testLease + 1)
			want(t, "after the lease", restart(), nfs4.OK) // not locked out forever
			want(t, "releases", w.releaseCount("file"), 1)
		})
	}
}

// TestHostCollision40 checks the same for NFSv4.0, where the same incarnation would
// change the client's callback.
func TestHostCollision40(t *testing.T) {
	w := newTestState(t)
	of := func(verifier int, h Host) *SetClientID {
		a := setClientIDArgs("c", verifier, 0)
		a.Host = h
		return a
	}
	id, confirm := w.mustSetClientID(of(1, Host{1}))
	p := Principal{Flavor: 1}
	want(t, "SETCLIENTID_CONFIRM by another", w.ConfirmClientID(TCP, p, Host{}, id, confirm), nfs4.ErrClidInUse)
	want(t, "SETCLIENTID_CONFIRM", w.ConfirmClientID(TCP, p, Host{1}, id, confirm), nfs4.OK)
	for _, h := range []Host{{}, {2}} {
		_, status := w.ByClientID(TCP, h, id)
		want(t, "a call of another", status, nfs4.ErrStaleClientID)
	}
	s, status := w.ByClientID(TCP, Host{1}, id)
	want(t, "a call of the client", status, nfs4.OK)
	for _, verifier := range []int{1, 2} {
		for _, h := range []Host{{}, {2}} {
			w.advanceClock(testLease)
			_, _, _, status := w.SetClientID(of(verifier, h))
			want(t, "SETCLIENTID by another", status, nfs4.ErrClidInUse)
		}
	}
	_, _, _, status = w.SetClientID(of(2, Host{1}))
	want(t, "SETCLIENTID by the client", status, nfs4.OK)
	s.Leave()
}

// TestHostAfterRestart checks that other hosts cannot take over a client after a server
// restart: they could remove its record, and the client could reclaim nothing.
func TestHostAfterRestart(t *testing.T) {
	g := newRestartingState(t)
	connectFrom := func(h Host) (*Session, nfs4.Status) {
		x := exchangeArgs("c", 1, 0)
		x.Host = h
		id, sequence, _, status := g.ExchangeID(x)
		if status != nfs4.OK {
			return nil, status
		}
		c := createArgs(id, sequence, 0)
		c.Host = h
		return g.mustCreateSession(c), nfs4.OK
	}
	s, _ := connectFrom(Host{1})
	g.completeReclaim(s)
	g.mustOpen(s, "o", "f", 3, 0, nil)
	for range 2 { // the second restart reads the record that the first one wrote
		g.crashState()
		for _, h := range []Host{{}, {2}} {
			_, status := connectFrom(h)
			want(t, "another", status, nfs4.ErrClidInUse)
			a := setClientIDArgs("c", 1, 0)
			a.Host = h
			_, _, _, status = g.SetClientID(a)
			want(t, "version 4.0, which is another client", status, nfs4.OK)
		}
		s, status := connectFrom(Host{1})
		want(t, "the client", status, nfs4.OK)
		_, status = g.reclaimOpen(s, "f", 3, 0)
		want(t, "reclaim", status, nfs4.OK)
		g.completeReclaim(s)
	}
}
