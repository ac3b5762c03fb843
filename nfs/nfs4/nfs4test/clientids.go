package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// clientIDs are scenarios of SETCLIENTID and SETCLIENTID_CONFIRM, in the cases of
// RFC 7530, Sections 16.33.5 and 16.34.5.
var clientIDs = []Scenario{
	{Name: "SETCLIENTID again by the same incarnation", By: "RFC 7530, 16.33.5: a probable callback update; 16.34.5: no state is lost", Linux: "another confirmation is NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		t.afterGrace()
		c := t.plain()
		o := c.newOwner("a", "f", 1, 0)
		first := c.set(nfs4.OK)
		second := c.set(nfs4.OK)
		assert.Equal(t, c.id, first.ClientID)
		assert.Equal(t, c.id, second.ClientID)
		assert.NotEqual(t, first.Confirm, second.Confirm)
		c.confirm(nfs4.ErrStaleClientID, c.id, first.Confirm) // the second has replaced it
		c.confirm(nfs4.OK, c.id, second.Confirm)
		c.confirm(nfs4.OK, c.id, second.Confirm)
		o.want(nfs4.OK, putFH(o.fh), o.closeOp(o.next(), new(nfs4.StateIDRes)))
	}},
	{Name: "SETCLIENTID by another incarnation", By: "RFC 7530, 16.33.5, 16.34.5: the old state ends when the new client ID is confirmed, not before; 9.6.1", run: func(t *T) {
		old := t.plain()
		o := old.newOwner("a", "f", 1, nfs4.ShareBoth)
		reborn := *old
		reborn.verifier = nfs4.Verifier{2}
		res := reborn.set(nfs4.OK)
		assert.NotEqual(t, old.id, res.ClientID)
		another := reborn.set(nfs4.OK)
		assert.NotEqual(t, res.ClientID, another.ClientID)
		assert.NotEqual(t, res.Confirm, another.Confirm)
		reborn.confirm(nfs4.ErrStaleClientID, res.ClientID, res.Confirm)

		other := t.plain()
		held := openName("f", "b", nfs4.ShareRead, 0)
		other.want(nfs4.ErrShareDenied, putFH(t.dir()), other.numbered(1, held, new(nfs4.OpenRes)))
		old.want(nfs4.OK, renew(old.id))
		reborn.confirm(nfs4.OK, another.ClientID, another.Confirm)
		other.want(nfs4.OK, putFH(t.dir()), other.numbered(2, held, new(nfs4.OpenRes)))
		rep := old.compound(renew(old.id))
		assert.Contains(t, []nfs4.Status{nfs4.ErrStaleClientID, nfs4.ErrExpired}, rep.status, "9.6.3.2")
		rep = old.compound(putFH(o.fh), read(o.id, 0, 1, new(nfs4.ReadRes)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrStaleStateID}, rep.status)
		reborn.id = another.ClientID
		reborn.newOwner("a", "f2", 77, 0) // 9.1.7: sequences begin anew
	}},
	{Name: "SETCLIENTID before any confirmation", By: "RFC 7530, 16.33.5: the unconfirmed record is replaced", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.unique()}
		one := c.set(nfs4.OK)
		two := c.set(nfs4.OK)
		assert.NotEqual(t, one.ClientID, two.ClientID)
		assert.NotEqual(t, one.Confirm, two.Confirm)
		c.confirm(nfs4.ErrStaleClientID, one.ClientID, one.Confirm)
		c.confirm(nfs4.OK, two.ClientID, two.Confirm)
		c.want(nfs4.OK, renew(two.ClientID))
	}},
	{Name: "a client ID before its confirmation", By: "RFC 7530, 9.1.1: it does not exist yet", Linux: "NFS4ERR_EXPIRED", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.unique()}
		c.id = c.set(nfs4.OK).ClientID
		c.want(nfs4.ErrStaleClientID, renew(c.id))
		c.want(nfs4.ErrStaleClientID, putFH(t.dir()), c.numbered(1, making("f", "a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
	}},
	{Name: "client IDs that were never given", By: "RFC 7530, 9.1.1, 16.11.5: NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		c := t.plain()
		o := c.newOwner("a", "f", 1, 0)
		for _, id := range []uint64{0, 1, ^uint64(0), c.id ^ 1<<40} {
			c.want(nfs4.ErrStaleClientID, renew(id))
			c.want(nfs4.ErrStaleClientID, putFH(o.fh), lockTest(id, "l", 0, 1, new(nfs4.LockTRes)))
			c.want(nfs4.ErrStaleClientID, releaseLockOwner(id, "l"))
			made := &client{conn: c.conn, id: id}
			c.want(nfs4.ErrStaleClientID, putFH(t.dir()), made.numbered(1, making("f", "a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
			c.confirm(nfs4.ErrStaleClientID, id, nfs4.Verifier{1})
		}
		c.confirm(nfs4.ErrStaleClientID, c.id, nfs4.Verifier{0xba, 0xd})
	}},
	{Name: "SETCLIENTID by another principal", By: "RFC 7530, 16.33.5: NFS4ERR_CLID_INUSE with the client's address; 9.1.2: but not if the client has no state", Linux: "there is no address", run: func(t *T) {
		c := t.plain()
		o := c.newOwner("a", "f", 1, 0)
		thief := *c
		thief.conn = t.dial().as(1000)
		res := thief.set(nfs4.ErrClidInUse)
		assert.Equal(t, "127.0.0.1.8.1", string(res.Using.Addr))
		assert.Equal(t, "tcp", string(res.Using.NetID))
		thief.verifier = nfs4.Verifier{9}
		thief.set(nfs4.ErrClidInUse)
		o.want(nfs4.OK, putFH(o.fh), o.closeOp(o.next(), new(nfs4.StateIDRes)))
		got := thief.set(nfs4.OK)
		thief.confirm(nfs4.OK, got.ClientID, got.Confirm)
	}},
	{Name: "SETCLIENTID_CONFIRM by another principal", By: "RFC 7530, 16.34.5: NFS4ERR_CLID_INUSE, and nothing changes", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.unique()}
		res := c.set(nfs4.OK)
		thief := *c
		thief.conn = t.dial().as(1000)
		thief.confirm(nfs4.ErrClidInUse, res.ClientID, res.Confirm)
		c.confirm(nfs4.OK, res.ClientID, res.Confirm)
		thief.confirm(nfs4.ErrClidInUse, res.ClientID, res.Confirm)
		c.want(nfs4.OK, renew(res.ClientID))
	}},
	{Name: "SETCLIENTID that is repeated over another connection", By: "RFC 7530, 16.33.5: the duplicate request cache has the results", Linux: "the second one is executed: the cache tells ports apart", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.unique()}
		one := c.set(nfs4.OK)
		again := &client{conn: t.dial(), owner: c.owner}
		again.xid = c.xid - 1
		assert.Equal(t, one, again.set(nfs4.OK))
		c.confirm(nfs4.OK, one.ClientID, one.Confirm)
	}},
	{Name: "REMOVE that is repeated over another connection", By: "RFC 7530, 3.1.1: a call is executed once", Linux: "the second one is executed: the cache tells ports apart", run: func(t *T) {
		c := t.plain()
		t.object(nfs4.TypeDir, "d")
		before := c.xid
		c.want(nfs4.OK, putFH(t.dir()), remove("d"))
		again := t.dial()
		again.xid = before
		again.want(nfs4.OK, putFH(t.dir()), remove("d"))
		again.want(nfs4.ErrNoEnt, putFH(t.dir()), remove("d"))
	}},
	{Name: "RENEW by a principal that has neither the client ID nor an open", By: "RFC 7530, 16.28.5: NFS4ERR_ACCESS", Linux: "NFS4_OK", run: func(t *T) {
		c := t.plain()
		stranger := t.dial().as(1000)
		stranger.want(nfs4.ErrAccess, renew(c.id))
		user := *c
		user.conn = t.dial().as(1000)
		o := user.newOwner("of 1000", "f", 1, 0)
		user.want(nfs4.OK, renew(c.id))
		o.want(nfs4.OK, putFH(o.fh), o.closeOp(o.next(), new(nfs4.StateIDRes)))
		user.want(nfs4.ErrAccess, renew(c.id))
		c.want(nfs4.OK, renew(c.id))
	}},
}
