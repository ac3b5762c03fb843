package nfs4test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// overdue are the statuses of a client's call after its lease has expired: its
// session has gone, or is still there.
var overdue = []nfs4.Status{nfs4.OK, nfs4.ErrBadSession}

// inTime is session.want for calls that take state from a silent client: a server
// may answer NFS4ERR_DELAY until the client has ended.
func (s *session) inTime(want nfs4.Status, ops ...op) {
	deadline := time.Now().Add(callLimit)
	rep := s.do(ops...)
	for rep.status == nfs4.ErrDelay && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
		rep = s.do(ops...)
	}
	rep.is(s.t, len(ops)+1, want)
}

// leases are scenarios of leases that are renewed, or that expire.
var leases = []Scenario{
	{Name: "SEQUENCE in any session renews the lease", By: "RFC 8881, 8.3: it renews all the client's state", Slow: true, run: func(t *T) {
		c := t.client()
		s, idle := c.session().ready(), c.session()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		for range 4 {
			t.wait(t.Lease / 2)
			idle.want(nfs4.OK)
		}
		t.client().session().ready().want(nfs4.ErrShareDenied, putFH(f.fh), open(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		s.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "a call that fails renews the lease", By: "RFC 8881, 8.3: by a SEQUENCE that succeeds", Slow: true, run: func(t *T) {
		s := t.client().session().ready()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		for range 4 {
			t.wait(t.Lease / 2)
			s.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("missing"))
		}
		t.client().session().ready().want(nfs4.ErrShareDenied, putFH(f.fh), open(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		s.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "the share reservations of a silent client give way", By: "RFC 8881, 8.3, 9.7", Slow: true, run: func(t *T) {
		type held struct {
			*opened
			want [2]uint32 // what another client then opens
		}
		var all []held
		for share := nfs4.ShareRead; share <= nfs4.ShareBoth; share++ {
			for deny := nfs4.ShareRead; deny <= nfs4.ShareBoth; deny++ {
				s := t.client().session().ready()
				o := t.openAs(s, fmt.Sprint("f", share, deny), "a", share, deny)
				all = append(all, held{o, [2]uint32{deny, share}})
			}
		}
		other := t.client().session().ready()
		for _, h := range all {
			other.want(nfs4.ErrShareDenied, putFH(h.fh), open(openFH("b", h.want[0], h.want[1]), new(nfs4.OpenRes)))
		}
		t.wait(t.Lease + t.Lease/2)
		other = t.client().session().ready()
		for _, h := range all {
			other.inTime(nfs4.OK, putFH(h.fh), open(openFH("b", h.want[0], h.want[1]), new(nfs4.OpenRes)))
			if rep := h.s.do(putRootFH()); rep.status == nfs4.OK {
				h.s.oneOf([]nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrAdminRevoked}, putFH(h.fh), closeFile(h.id))
			} else {
				assert.Equal(t, nfs4.ErrBadSession, rep.status)
			}
		}
	}},
	{Name: "the deny modes of a silent client do not stop a WRITE", By: "RFC 8881, 8.3, 9.7", Linux: "NFS4ERR_LOCKED", Slow: true, run: func(t *T) {
		f := t.openAs(t.client().session().ready(), "f", "a", nfs4.ShareRead, nfs4.ShareWrite)
		w := write(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes))
		t.client().session().ready().want(nfs4.ErrLocked, putFH(f.fh), w)
		t.wait(t.Lease + t.Lease/2)
		t.client().session().ready().inTime(nfs4.OK, putFH(f.fh), w)
	}},
	{Name: "a silent client whose state nobody needs", By: "RFC 8881, 8.3: it finds its state, or NFS4ERR_BADSESSION", Slow: true, run: func(t *T) {
		s := t.client().session().ready()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		t.wait(t.Lease + t.Lease/2)
		rep := s.do(putFH(f.fh), closeFile(f.id))
		assert.Contains(t, append(overdue, nfs4.ErrExpired), rep.status)
	}},
	{Name: "many clients fall silent", By: "RFC 8881, 8.3", Slow: true, run: func(t *T) {
		const n = 60
		var all []*locker
		for i := range uint64(n) {
			l := t.locker(t.client().session().ready(), "f", "a")
			l.want(nfs4.OK, nfs4.LockWrite, 10*i, 10)
			all = append(all, l)
		}
		t.wait(t.Lease + t.Lease/2)
		other := t.locker(t.client().session().ready(), "f", "b")
		other.want(nfs4.OK, nfs4.LockWrite, 0, 10*n)
		for _, l := range all {
			assert.Contains(t, overdue, l.s.do(putRootFH()).status)
		}
		other.unlock(nfs4.OK, 0, 10*n)
	}},
	{Name: "a silent client starts anew", By: "RFC 8881, 8.4.3: EXCHANGE_ID and CREATE_SESSION", Slow: true, run: func(t *T) {
		c := t.client()
		l := t.locker(c.session().ready(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.wait(t.Lease + t.Lease/2)
		other := t.locker(t.client().session().ready(), "f", "b")
		other.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		other.unlock(nfs4.OK, 0, 10)
		res := c.register(c.owner, 1, 0)
		again := &client{conn: c.conn, owner: c.owner, id: res.ClientID, seq: res.SequenceID}
		s := again.session()
		if res.Flags&nfs4.ExchangeConfirmed == 0 {
			s.ready()
		}
		next := t.locker(s, "f", "a")
		next.want(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "a silent client by DESTROY_SESSION and DESTROY_CLIENTID", By: "RFC 8881, 18.37.3, 18.50.3", Slow: true, run: func(t *T) {
		c := t.client()
		s := c.session().ready()
		t.wait(t.Lease + t.Lease/2)
		rep := c.compound(destroySessionOp(s.id))
		assert.Contains(t, overdue, rep.status)
		rep = c.compound(destroyClientIDOp(c.id))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrStaleClientID}, rep.status)
	}},
	{Name: "lease_time", By: "RFC 8881, 5.8.1.11: one value for the whole server", run: func(t *T) {
		var root nfs4.GetAttrRes
		t.want(nfs4.OK, putRootFH(), getAttr(&root, nfs4.AttrLeaseTime))
		require.Equal(t, root.Attrs.LeaseTime, t.attrsOf(t.dir(), nfs4.AttrLeaseTime).LeaseTime)
	}},
}
