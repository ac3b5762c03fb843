package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// clientIDs are scenarios for SETCLIENTID and SETCLIENTID_CONFIRM, in the cases
// of RFC 7530, Sections 16.33.5 and 16.34.5.
var clientIDs = []Scenario{
	{Name: "SETCLIENTID again by the same incarnation", By: "RFC 7530, 16.33.5: a probable callback update; 16.34.5: no state is lost", Linux: "another confirmation is NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		o := c.newOwner("a", "f", 1, 0)
		first := c.setClientID(nfs4.OK)
		second := c.setClientID(nfs4.OK)
		assert.Equal(t, c.id, first.ClientID)
		assert.Equal(t, c.id, second.ClientID)
		assert.NotEqual(t, first.Confirm, second.Confirm)
		c.confirmClientID(nfs4.ErrStaleClientID, c.id, first.Confirm) // the second has replaced it
		c.confirmClientID(nfs4.OK, c.id, second.Confirm)
		c.confirmClientID(nfs4.OK, c.id, second.Confirm)
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
	}},
	{Name: "SETCLIENTID by another incarnation", By: "RFC 7530, 16.33.5, 16.34.5: the old state is removed when the new client ID is confirmed, not before; 9.6.1", run: func(t *T) {
		old := t.newClient40()
		o := old.newOwner("a", "f", 1, nfs4.ShareBoth)
		reborn := *old
		reborn.verifier = nfs4.Verifier{2}
		res := reborn.setClientID(nfs4.OK)
		assert.NotEqual(t, old.id, res.ClientID)
		another := reborn.setClientID(nfs4.OK)
		assert.NotEqual(t, res.ClientID, another.ClientID)
		assert.NotEqual(t, res.Confirm, another.Confirm)
		reborn.confirmClientID(nfs4.ErrStaleClientID, res.ClientID, res.Confirm)

		other := t.newClient40()
		held := openName("f", "b", nfs4.ShareRead, 0)
		other.expectStatus(nfs4.ErrShareDenied, putFH(t.ownDir()), other.openSeqOp(1, held, new(nfs4.OpenRes)))
		old.expectStatus(nfs4.OK, renewOp(old.id))
		reborn.confirmClientID(nfs4.OK, another.ClientID, another.Confirm)
		other.expectStatus(nfs4.OK, putFH(t.ownDir()), other.openSeqOp(2, held, new(nfs4.OpenRes)))
		rep := old.callCompound(renewOp(old.id))
		assert.Contains(t, []nfs4.Status{nfs4.ErrStaleClientID, nfs4.ErrExpired}, rep.status, "9.6.3.2")
		rep = old.callCompound(putFH(o.fh), readOp(o.id, 0, 1, new(nfs4.ReadRes)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrStaleStateID}, rep.status)
		reborn.id = another.ClientID
		reborn.newOwner("a", "f2", 77, 0) // 9.1.7: sequences start again
	}},
	{Name: "SETCLIENTID before any confirmation", By: "RFC 7530, 16.33.5: the unconfirmed record is replaced", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.uniqueName()}
		one := c.setClientID(nfs4.OK)
		two := c.setClientID(nfs4.OK)
		assert.NotEqual(t, one.ClientID, two.ClientID)
		assert.NotEqual(t, one.Confirm, two.Confirm)
		c.confirmClientID(nfs4.ErrStaleClientID, one.ClientID, one.Confirm)
		c.confirmClientID(nfs4.OK, two.ClientID, two.Confirm)
		c.expectStatus(nfs4.OK, renewOp(two.ClientID))
	}},
	{Name: "a client ID before its confirmation", By: "RFC 7530, 9.1.1: it does not exist yet", Linux: "NFS4ERR_EXPIRED", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.uniqueName()}
		c.id = c.setClientID(nfs4.OK).ClientID
		c.expectStatus(nfs4.ErrStaleClientID, renewOp(c.id))
		c.expectStatus(nfs4.ErrStaleClientID, putFH(t.ownDir()), c.openSeqOp(1, openOrCreate("f", "a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
	}},
	{Name: "client IDs that were never given", By: "RFC 7530, 9.1.1, 16.11.5: NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		c := t.newClient40()
		o := c.newOwner("a", "f", 1, 0)
		for _, id := range []uint64{0, 1, ^uint64(0), c.id ^ 1<<40} {
			c.expectStatus(nfs4.ErrStaleClientID, renewOp(id))
			c.expectStatus(nfs4.ErrStaleClientID, putFH(o.fh), lockTest(id, "l", 0, 1, new(nfs4.LockTRes)))
			c.expectStatus(nfs4.ErrStaleClientID, releaseLockOwner(id, "l"))
			made := &client{conn: c.conn, id: id}
			c.expectStatus(nfs4.ErrStaleClientID, putFH(t.ownDir()), made.openSeqOp(1, openOrCreate("f", "a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
			c.confirmClientID(nfs4.ErrStaleClientID, id, nfs4.Verifier{1})
		}
		c.confirmClientID(nfs4.ErrStaleClientID, c.id, nfs4.Verifier{0xba, 0xd})
	}},
	{Name: "SETCLIENTID by another principal", By: "RFC 7530, 16.33.5: NFS4ERR_CLID_INUSE with the client's address; 9.1.2: but not if the client has no state", Linux: "there is no address", run: func(t *T) {
		c := t.newClient40()
		o := c.newOwner("a", "f", 1, 0)
		thief := *c
		thief.conn = t.dial().withUID(1000)
		res := thief.setClientID(nfs4.ErrClidInUse)
		assert.Equal(t, "127.0.0.1.8.1", string(res.Using.Addr))
		assert.Equal(t, "tcp", string(res.Using.NetID))
		thief.verifier = nfs4.Verifier{9}
		thief.setClientID(nfs4.ErrClidInUse)
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
		got := thief.setClientID(nfs4.OK)
		thief.confirmClientID(nfs4.OK, got.ClientID, got.Confirm)
	}},
	{Name: "SETCLIENTID_CONFIRM by another principal", By: "RFC 7530, 16.34.5: NFS4ERR_CLID_INUSE, and nothing changes", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.uniqueName()}
		res := c.setClientID(nfs4.OK)
		thief := *c
		thief.conn = t.dial().withUID(1000)
		thief.confirmClientID(nfs4.ErrClidInUse, res.ClientID, res.Confirm)
		c.confirmClientID(nfs4.OK, res.ClientID, res.Confirm)
		thief.confirmClientID(nfs4.ErrClidInUse, res.ClientID, res.Confirm)
		c.expectStatus(nfs4.OK, renewOp(res.ClientID))
	}},
	{Name: "SETCLIENTID that is repeated after a reconnect", By: "RFC 7530, 16.33.5: the duplicate request cache has the results", Linux: "the second one is executed: the cache tells ports apart", run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.uniqueName()}
		one := c.setClientID(nfs4.OK)
		c.nc.Close()
		again := &client{conn: t.dial(), owner: c.owner}
		again.xid = c.xid - 1
		assert.Equal(t, one, again.setClientID(nfs4.OK))
		again.confirmClientID(nfs4.OK, one.ClientID, one.Confirm)
	}},
	{Name: "REMOVE that is repeated after a reconnect", By: "RFC 7530, 3.1.1: a call is executed once", Linux: "the second one is executed: the cache tells ports apart", run: func(t *T) {
		c := t.newClient40()
		t.newObject(nfs4.TypeDir, "d")
		before := c.xid
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("d"))
		c.nc.Close()
		again := t.dial()
		again.xid = before
		again.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("d"))
		again.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), removeOp("d"))
	}},
	{Name: "RENEW by a principal that has neither the client ID nor an open", By: "RFC 7530, 16.28.5: NFS4ERR_ACCESS", Linux: "NFS4_OK", run: func(t *T) {
		c := t.newClient40()
		stranger := t.dial().withUID(1000)
		stranger.expectStatus(nfs4.ErrAccess, renewOp(c.id))
		user := *c
		user.conn = t.dial().withUID(1000)
		o := user.newOwner("of 1000", "f", 1, 0)
		user.expectStatus(nfs4.OK, renewOp(c.id))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
		user.expectStatus(nfs4.ErrAccess, renewOp(c.id))
		c.expectStatus(nfs4.OK, renewOp(c.id))
	}},
}
