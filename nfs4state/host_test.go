package nfs4state

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestHostCollision checks that a client made by mutual TLS has its state until its
// lease ends, whoever else takes its name and its user: in clear, by TLS alone, or with
// the certificate of another host (RFC 8881, Sections 2.4.3 and 18.35.4).
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
			w := newWorld(t)
			x := exchange("c", 1, 0)
			x.Host = test.made
			id, sequence, _ := w.exchange(x)
			first := create(id, sequence, 0)
			first.Host = test.made
			s := w.create(first)
			want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
			w.open(s, "o", "f", 1, 0, "file")

			again := create(id, sequence, 0)
			again.Host = test.by
			res := w.CreateSession(again)
			want(t, "a retry tells the session", res.Session == s.ID, test.join)
			joins := create(id, sequence+1, 0)
			joins.Host = test.by
			x = exchange("c", 1, 0)
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
				x := exchange("c", 2, 0)
				x.Host = test.by
				id, sequence, _, status := w.ExchangeID(x)
				if status != nfs4.OK {
					return status
				}
				c := create(id, sequence, 0)
				c.Host = test.by
				return w.CreateSession(c).Status
			}
			if test.mayEnd {
				want(t, "restart", restart(), nfs4.OK)
				want(t, "releases", w.releases("file"), 1)
				return
			}
			want(t, "restart", restart(), nfs4.ErrClidInUse)
			want(t, "releases", w.releases("file"), 0)
			want(t, "the client's session", w.next(s, 0).New, true)
			s.End(0, nil, false, false)
			w.sleep(testLease + 1)
			want(t, "after the lease", restart(), nfs4.OK) // not shut out for ever
			want(t, "releases", w.releases("file"), 1)
		})
	}
}

// TestHostCollision40 checks the same for version 4.0, where the same incarnation would
// change the client's callback.
func TestHostCollision40(t *testing.T) {
	w := newWorld(t)
	of := func(verifier int, h Host) *SetClientID {
		a := setting("c", verifier, 0)
		a.Host = h
		return a
	}
	id, confirm := w.set(of(1, Host{1}))
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
			w.sleep(testLease)
			_, _, _, status := w.SetClientID(of(verifier, h))
			want(t, "SETCLIENTID by another", status, nfs4.ErrClidInUse)
		}
	}
	_, _, _, status = w.SetClientID(of(2, Host{1}))
	want(t, "SETCLIENTID by the client", status, nfs4.OK)
	s.Leave()
}

// TestHostAfterRestart checks that a restart of the server does not give the client to
// others: they could end its record, and nothing would be left to reclaim.
func TestHostAfterRestart(t *testing.T) {
	g := newSaga(t)
	arrive := func(h Host) (*Session, nfs4.Status) {
		x := exchange("c", 1, 0)
		x.Host = h
		id, sequence, _, status := g.ExchangeID(x)
		if status != nfs4.OK {
			return nil, status
		}
		c := create(id, sequence, 0)
		c.Host = h
		return g.create(c), nfs4.OK
	}
	s, _ := arrive(Host{1})
	g.complete(s)
	g.open(s, "o", "f", 3, 0, nil)
	for range 2 { // the second time from the record that the first has left
		g.crash()
		for _, h := range []Host{{}, {2}} {
			_, status := arrive(h)
			want(t, "another", status, nfs4.ErrClidInUse)
			a := setting("c", 1, 0)
			a.Host = h
			_, _, _, status = g.SetClientID(a)
			want(t, "version 4.0, which is another client", status, nfs4.OK)
		}
		s, status := arrive(Host{1})
		want(t, "the client", status, nfs4.OK)
		_, status = g.reclaim(s, "f", 3, 0)
		want(t, "reclaim", status, nfs4.OK)
		g.complete(s)
	}
}
