package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// lockNotifications are scenarios for locks that become free while clients wait for them.
var lockNotifications = []Scenario{
	{Name: "a client that waits for a lock is told that it is free", By: "RFC 8881, 9.6, 20.11: CB_NOTIFY_LOCK, which grants nothing", run: func(t *T) {
		s, back := t.newBackchannelSession()
		holder, waiter := t.newLocker(t.ownSession(), "f", "holder"), t.newLocker(s, "f", "waiter")
		var res nfs4.OpenRes
		s.expectStatus(nfs4.OK, putFH(waiter.fh), openOp(openFH("open waiter", nfs4.ShareBoth, 0), &res))
		assert.NotZero(t, res.Flags&nfs4.OpenMayNotifyLock, "OPEN4_RESULT_MAY_NOTIFY_LOCK")
		waiter.id = res.StateID
		holder.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		waiter.lockRange(nfs4.ErrDenied, nfs4.LockWriteWait, 5, 10)
		holder.unlockRange(nfs4.OK, 0, 10)
		a := back.awaitNotifyLock()
		assert.Equal(t, waiter.fh, a.Object)
		assert.Equal(t, "waiter", string(a.Owner.Owner))
		assert.Equal(t, s.client.id, a.Owner.ClientID)
		holder.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		waiter.lockRange(nfs4.ErrDenied, nfs4.LockWriteWait, 5, 10)
		s2 := t.ownSession()
		s2.expectStatus(nfs4.OK, putFH(holder.fh), closeFile(holder.id))
		back.awaitNotifyLock()
		waiter.lockRange(nfs4.OK, nfs4.LockWriteWait, 5, 10)
	}},
	{Name: "a client that does not wait is told of no lock", By: "RFC 8881, 9.6: READW_LT and WRITEW_LT say that it waits", run: func(t *T) {
		s, back := t.newBackchannelSession()
		holder, other := t.newLocker(t.ownSession(), "f", "holder"), t.newLocker(s, "f", "other")
		holder.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		other.lockRange(nfs4.ErrDenied, nfs4.LockWrite, 5, 10)
		holder.unlockRange(nfs4.OK, 0, 10)
		other.lockRange(nfs4.OK, nfs4.LockRead, 5, 10)
		assert.Empty(t, back.lockNotices)
	}},
}
