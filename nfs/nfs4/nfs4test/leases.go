package nfs4test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// expiredStatuses are the valid statuses for a call after the client's lease has
// expired: the server may have destroyed the session or not.
var expiredStatuses = []nfs4.Status{nfs4.OK, nfs4.ErrBadSession}

// expectAfterDelays sends a COMPOUND that revokes state of a silent client, and checks its
// final status. It retries after NFS4ERR_DELAY, which a server may return until the client
// has expired.
func (s *session) expectAfterDelays(want nfs4.Status, ops ...op) {
	deadline := time.Now().Add(callLimit)
	rep := s.callWithSequence(ops...)
	for rep.status == nfs4.ErrDelay && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
		rep = s.callWithSequence(ops...)
	}
	rep.checkStatus(s.t, len(ops)+1, want)
}

// leases are scenarios for leases that are renewed or expire.
var leases = []Scenario{
	{Name: "SEQUENCE in any session renews the lease", By: "RFC 8881, 8.3: it renews all the client's state", Slow: true, run: func(t *T) {
		c := t.newClient()
		s, idle := c.newSession().completeReclaim(), c.newSession()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		for range 4 {
			t.waitForLease(t.Lease / 2)
			idle.expectStatus(nfs4.OK)
		}
		t.newClient().newSession().completeReclaim().expectStatus(nfs4.ErrShareDenied, putFH(f.fh), openOp(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		s.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "a call that fails renews the lease", By: "RFC 8881, 8.3: by a SEQUENCE that succeeds", Slow: true, run: func(t *T) {
		s := t.newClient().newSession().completeReclaim()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		for range 4 {
			t.waitForLease(t.Lease / 2)
			s.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("missing"))
		}
		t.newClient().newSession().completeReclaim().expectStatus(nfs4.ErrShareDenied, putFH(f.fh), openOp(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		s.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "the share reservations of a silent client give way", By: "RFC 8881, 8.3, 9.7", Slow: true, run: func(t *T) {
		type held struct {
			*openedFile
			want [2]uint32 // the file that another client then opens
		}
		var all []held
		for share := nfs4.ShareRead; share <= nfs4.ShareBoth; share++ {
			for deny := nfs4.ShareRead; deny <= nfs4.ShareBoth; deny++ {
				s := t.newClient().newSession().completeReclaim()
				o := t.openAs(s, fmt.Sprint("f", share, deny), "a", share, deny)
				all = append(all, held{o, [2]uint32{deny, share}})
			}
		}
		other := t.newClient().newSession().completeReclaim()
		for _, h := range all {
			other.expectStatus(nfs4.ErrShareDenied, putFH(h.fh), openOp(openFH("b", h.want[0], h.want[1]), new(nfs4.OpenRes)))
		}
		t.waitForLease(t.Lease + t.Lease/2)
		other = t.newClient().newSession().completeReclaim()
		for _, h := range all {
			other.expectAfterDelays(nfs4.OK, putFH(h.fh), openOp(openFH("b", h.want[0], h.want[1]), new(nfs4.OpenRes)))
			if rep := h.s.callWithSequence(putRootFH()); rep.status == nfs4.OK {
				h.s.expectOneOf([]nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrAdminRevoked}, putFH(h.fh), closeFile(h.id))
			} else {
				assert.Equal(t, nfs4.ErrBadSession, rep.status)
			}
		}
	}},
	{Name: "the deny modes of a silent client do not stop a WRITE", By: "RFC 8881, 8.3, 9.7", Linux: "NFS4ERR_LOCKED", Slow: true, run: func(t *T) {
		f := t.openAs(t.newClient().newSession().completeReclaim(), "f", "a", nfs4.ShareRead, nfs4.ShareWrite)
		w := writeOp(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes))
		t.newClient().newSession().completeReclaim().expectStatus(nfs4.ErrLocked, putFH(f.fh), w)
		t.waitForLease(t.Lease + t.Lease/2)
		t.newClient().newSession().completeReclaim().expectAfterDelays(nfs4.OK, putFH(f.fh), w)
	}},
	{Name: "a silent client whose state nobody needs", By: "RFC 8881, 8.3: it finds its state, or NFS4ERR_BADSESSION", Slow: true, run: func(t *T) {
		s := t.newClient().newSession().completeReclaim()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		t.waitForLease(t.Lease + t.Lease/2)
		rep := s.callWithSequence(putFH(f.fh), closeFile(f.id))
		assert.Contains(t, append(expiredStatuses, nfs4.ErrExpired), rep.status)
	}},
	{Name: "many clients fall silent", By: "RFC 8881, 8.3", Slow: true, run: func(t *T) {
		const n = 60
		var all []*locker
		for i := range uint64(n) {
			l := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "a")
			l.lockRange(nfs4.OK, nfs4.LockWrite, 10*i, 10)
			all = append(all, l)
		}
		t.waitForLease(t.Lease + t.Lease/2)
		other := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		other.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10*n)
		for _, l := range all {
			assert.Contains(t, expiredStatuses, l.s.callWithSequence(putRootFH()).status)
		}
		other.unlockRange(nfs4.OK, 0, 10*n)
	}},
	{Name: "a silent client starts anew", By: "RFC 8881, 8.4.3: EXCHANGE_ID and CREATE_SESSION", Slow: true, run: func(t *T) {
		c := t.newClient()
		l := t.newLocker(c.newSession().completeReclaim(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.waitForLease(t.Lease + t.Lease/2)
		other := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		other.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		other.unlockRange(nfs4.OK, 0, 10)
		res := c.registerOwner(c.owner, 1, 0)
		again := &client{conn: c.conn, owner: c.owner, id: res.ClientID, seq: res.SequenceID}
		s := again.newSession()
		if res.Flags&nfs4.ExchangeConfirmed == 0 {
			s.completeReclaim()
		}
		next := t.newLocker(s, "f", "a")
		next.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "a silent client by DESTROY_SESSION and DESTROY_CLIENTID", By: "RFC 8881, 18.37.3, 18.50.3", Slow: true, run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		t.waitForLease(t.Lease + t.Lease/2)
		rep := c.callCompound(destroySessionOp(s.id))
		assert.Contains(t, expiredStatuses, rep.status)
		rep = c.callCompound(destroyClientIDOp(c.id))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrStaleClientID}, rep.status)
	}},
	{Name: "lease_time", By: "RFC 8881, 5.8.1.11: one value for the whole server", run: func(t *T) {
		var root nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putRootFH(), getAttr(&root, nfs4.AttrLeaseTime))
		require.Equal(t, root.Attrs.LeaseTime, t.getAttrs(t.ownDir(), nfs4.AttrLeaseTime).LeaseTime)
	}},
}
