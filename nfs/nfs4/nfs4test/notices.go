package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// notices are scenarios of locks that become free while clients wait for them.
var notices = []Scenario{
	{Name: "a client that waits for a lock is told that it is free", By: "RFC 8881, 9.6, 20.11: CB_NOTIFY_LOCK, which grants nothing", run: func(t *T) {
		s, back := t.backed()
		holder, waiter := t.locker(t.session(), "f", "holder"), t.locker(s, "f", "waiter")
		var res nfs4.OpenRes
		s.want(nfs4.OK, putFH(waiter.fh), open(openFH("open waiter", nfs4.ShareBoth, 0), &res))
		assert.NotZero(t, res.Flags&nfs4.OpenMayNotifyLock, "OPEN4_RESULT_MAY_NOTIFY_LOCK")
		waiter.id = res.StateID
		holder.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		waiter.want(nfs4.ErrDenied, nfs4.LockWriteWait, 5, 10)
		holder.unlock(nfs4.OK, 0, 10)
		a := back.notified()
		assert.Equal(t, waiter.fh, a.Object)
		assert.Equal(t, "waiter", string(a.Owner.Owner))
		assert.Equal(t, s.client.id, a.Owner.ClientID)
		holder.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		waiter.want(nfs4.ErrDenied, nfs4.LockWriteWait, 5, 10)
		s2 := t.session()
		s2.want(nfs4.OK, putFH(holder.fh), closeFile(holder.id))
		back.notified()
		waiter.want(nfs4.OK, nfs4.LockWriteWait, 5, 10)
	}},
	{Name: "a client that does not wait is told of no lock", By: "RFC 8881, 9.6: READW_LT and WRITEW_LT say that it waits", run: func(t *T) {
		s, back := t.backed()
		holder, other := t.locker(t.session(), "f", "holder"), t.locker(s, "f", "other")
		holder.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		other.want(nfs4.ErrDenied, nfs4.LockWrite, 5, 10)
		holder.unlock(nfs4.OK, 0, 10)
		other.want(nfs4.OK, nfs4.LockRead, 5, 10)
		assert.Empty(t, back.locks)
	}},
}
