package nfs4test

import (
	"math"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// toEnd is the length of a lock that goes to the end of the file.
const toEnd = math.MaxUint64

// A locker is a lock-owner with an open file.
type locker struct {
	*opened
	owner string
	lock  nfs4.StateID // of its locks; none before the first
}

// graceLimit bounds the wait for the end of the grace period of a server that
// has started a moment ago.
const graceLimit = 2 * time.Minute

// afterGrace waits until the server grants locks, once for all scenarios.
func (t *T) afterGrace() {
	t.grace.Do(func() {
		f := t.openAs(t.session(), "grace", "a", nfs4.ShareBoth, 0)
		l := &locker{opened: f, owner: "a"}
		deadline := time.Now().Add(graceLimit)
		for {
			rep := t.session().do(putFH(f.fh), l.lockOp(nfs4.LockRead, 0, 1, new(nfs4.LockRes)))
			if rep.status != nfs4.ErrGrace || time.Now().After(deadline) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	})
}

// locker opens a file for a lock-owner of a session.
func (t *T) locker(s *session, name, owner string) *locker {
	t.afterGrace()
	return &locker{opened: t.openAs(s, name, "open "+owner, nfs4.ShareBoth, 0), owner: owner}
}

// lockOp returns LOCK of a range, with the stateid of the open before the first
// lock.
func (l *locker) lockOp(kind nfs4.LockType, off, length uint64, res *nfs4.LockRes) op {
	a := &nfs4.LockArgs{Type: kind, Offset: off, Length: length, StateID: l.lock}
	if l.lock == (nfs4.StateID{}) {
		a.New, a.StateID, a.Owner = true, l.id, nfs4.StateOwner{Owner: []byte(l.owner)}
	}
	return op{nfs4.OpLock, a, res}
}

// want locks a range, which must end with a status.
func (l *locker) want(st nfs4.Status, kind nfs4.LockType, off, length uint64) nfs4.LockRes {
	var res nfs4.LockRes
	l.s.want(st, putFH(l.fh), l.lockOp(kind, off, length, &res))
	if st == nfs4.OK {
		l.lock = res.StateID
	}
	return res
}

// unlock unlocks a range, which must end with a status.
func (l *locker) unlock(st nfs4.Status, off, length uint64) {
	var res nfs4.StateIDRes
	a := &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: l.lock, Offset: off, Length: length}
	l.s.want(st, putFH(l.fh), op{nfs4.OpLockU, a, &res})
	if st == nfs4.OK {
		l.lock = res.StateID
	}
}

// test sends LOCKT, which must end with a status.
func (l *locker) test(st nfs4.Status, kind nfs4.LockType, off, length uint64) nfs4.LockDenied {
	var res nfs4.LockTRes
	a := &nfs4.LockTArgs{Type: kind, Offset: off, Length: length, Owner: nfs4.StateOwner{Owner: []byte(l.owner)}}
	l.s.want(st, putFH(l.fh), op{nfs4.OpLockT, a, &res})
	return res.Denied
}

// byteRanges are scenarios of LOCK, LOCKT and LOCKU.
var byteRanges = []Scenario{
	{Name: "LOCK and LOCKU", By: "RFC 8881, 18.10.3, 18.12.3", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		assert.EqualValues(t, 1, l.lock.SeqID, "8.2.2: the first seqid is 1")
		assert.NotEqual(t, l.id.Other, l.lock.Other)
		l.want(nfs4.OK, nfs4.LockRead, 20, 10)
		assert.EqualValues(t, 2, l.lock.SeqID)
		l.unlock(nfs4.OK, 0, toEnd)
		assert.EqualValues(t, 3, l.lock.SeqID)
		l.unlock(nfs4.OK, 0, toEnd) // nothing is locked
	}},
	{Name: "LOCK that conflicts", By: "RFC 8881, 18.10.3: NFS4ERR_DENIED with the lock that is in the way", run: func(t *T) {
		holder, other := t.locker(t.session(), "f", "holder"), t.locker(t.client().session().ready(), "f", "other")
		same := t.locker(t.session(), "f", "same client")
		for _, tt := range []struct {
			held, asked nfs4.LockType
			want        nfs4.Status
		}{
			{nfs4.LockRead, nfs4.LockRead, nfs4.OK},
			{nfs4.LockRead, nfs4.LockWrite, nfs4.ErrDenied},
			{nfs4.LockWrite, nfs4.LockRead, nfs4.ErrDenied},
			{nfs4.LockWrite, nfs4.LockWriteWait, nfs4.ErrDenied},
			{nfs4.LockWrite, nfs4.LockReadWait, nfs4.ErrDenied},
		} {
			holder.want(nfs4.OK, tt.held, 10, 10)
			for _, l := range []*locker{other, same} {
				denied := l.test(tt.want, tt.asked, 15, 10)
				if tt.want == nfs4.ErrDenied {
					assert.Equal(t, tt.held, denied.Type)
					assert.EqualValues(t, 10, denied.Offset)
					assert.EqualValues(t, 10, denied.Length)
					assert.Equal(t, "holder", string(denied.Owner.Owner))
					assert.Equal(t, denied, l.want(tt.want, tt.asked, 15, 10).Denied)
				} else {
					l.want(nfs4.OK, tt.asked, 15, 10)
					l.unlock(nfs4.OK, 15, 10)
				}
				l.test(nfs4.OK, tt.asked, 0, 10)
				l.test(nfs4.OK, tt.asked, 20, toEnd)
			}
			holder.unlock(nfs4.OK, 10, 10)
		}
	}},
	{Name: "an owner does not conflict with itself", By: "RFC 8881, 18.10.3, 18.11.3", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 100)
		l.test(nfs4.OK, nfs4.LockWrite, 50, 100)
		l.want(nfs4.OK, nfs4.LockRead, 50, 100) // a part is downgraded
		other := t.locker(t.client().session().ready(), "f", "b")
		other.test(nfs4.ErrDenied, nfs4.LockRead, 0, 50)
		other.test(nfs4.OK, nfs4.LockRead, 50, 100)
		other.test(nfs4.ErrDenied, nfs4.LockWrite, 149, 1)
		l.want(nfs4.OK, nfs4.LockWrite, 0, 150) // and upgraded
		other.test(nfs4.ErrDenied, nfs4.LockRead, 140, 1)
	}},
	{Name: "an upgrade that conflicts", By: "RFC 8881, 9.3: NFS4ERR_DENIED, and the old lock stays", run: func(t *T) {
		a, b := t.locker(t.session(), "f", "a"), t.locker(t.client().session().ready(), "f", "b")
		a.want(nfs4.OK, nfs4.LockRead, 0, 10)
		b.want(nfs4.OK, nfs4.LockRead, 5, 10)
		a.want(nfs4.ErrDenied, nfs4.LockWrite, 0, 10)
		b.test(nfs4.ErrDenied, nfs4.LockWrite, 0, 5)
		b.unlock(nfs4.OK, 5, 10)
		a.want(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "LOCKU in the midst of a lock", By: "RFC 8881, 18.12.3: POSIX splits it", run: func(t *T) {
		a, b := t.locker(t.session(), "f", "a"), t.locker(t.client().session().ready(), "f", "b")
		a.want(nfs4.OK, nfs4.LockWrite, 0, 30)
		a.unlock(nfs4.OK, 10, 10)
		b.want(nfs4.OK, nfs4.LockWrite, 10, 10)
		b.test(nfs4.ErrDenied, nfs4.LockWrite, 9, 1)
		b.test(nfs4.ErrDenied, nfs4.LockWrite, 20, 1)
		a.unlock(nfs4.OK, 0, toEnd)
		b.test(nfs4.OK, nfs4.LockWrite, 0, toEnd)
	}},
	{Name: "locks side by side", By: "RFC 8881, 18.10.3", run: func(t *T) {
		a, b := t.locker(t.session(), "f", "a"), t.locker(t.client().session().ready(), "f", "b")
		for i := range uint64(20) {
			[]*locker{a, b}[i%2].want(nfs4.OK, nfs4.LockWrite, 10*i, 10)
		}
		denied := a.test(nfs4.ErrDenied, nfs4.LockRead, 0, toEnd)
		assert.EqualValues(t, 10, denied.Offset)
	}},
	{Name: "ranges that cannot be", By: "RFC 8881, 18.10.3, 18.11.3, 18.12.3: NFS4ERR_INVAL", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockRead, 0, 1)
		for _, r := range [][2]uint64{{0, 0}, {100, 0}, {1, math.MaxUint64 - 0}, {math.MaxUint64, 2}, {100, math.MaxUint64 - 50}, {1 << 63, 1<<63 + 1}} {
			if r[1] == toEnd {
				continue
			}
			l.want(nfs4.ErrInval, nfs4.LockWrite, r[0], r[1])
			l.test(nfs4.ErrInval, nfs4.LockWrite, r[0], r[1])
			l.unlock(nfs4.ErrInval, r[0], r[1])
		}
	}},
	{Name: "ranges up to the last byte", By: "RFC 8881, 18.10.3: all ones go to the end; NFS4ERR_BAD_RANGE if 32 bits are all", Linux: "ranges end at 2^63 - 1, also in NFS4ERR_DENIED", run: func(t *T) {
		a, b := t.locker(t.session(), "f", "a"), t.locker(t.client().session().ready(), "f", "b")
		a.want(nfs4.OK, nfs4.LockWrite, 1<<40, toEnd)
		denied := b.test(nfs4.ErrDenied, nfs4.LockRead, 1<<41, 1)
		assert.EqualValues(t, 1<<40, denied.Offset)
		assert.Equal(t, uint64(toEnd), denied.Length)
		b.want(nfs4.OK, nfs4.LockWrite, 0, 1<<40)
		a.unlock(nfs4.OK, 1<<40, toEnd)
		a.want(nfs4.OK, nfs4.LockWrite, math.MaxInt64-10, 5)
		a.want(nfs4.OK, nfs4.LockWrite, math.MaxUint64-10, 5)
		a.unlock(nfs4.OK, 0, toEnd)
	}},
	{Name: "LOCK by the mode of the open", By: "RFC 8881, 15.1.8.8: NFS4ERR_OPENMODE", run: func(t *T) {
		t.object(nfs4.TypeReg, "f")
		r := &locker{opened: t.openAs(t.session(), "f", "reader", nfs4.ShareRead, 0), owner: "a"}
		r.want(nfs4.ErrOpenMode, nfs4.LockWrite, 0, 10)
		r.want(nfs4.OK, nfs4.LockRead, 0, 10)
		r.want(nfs4.ErrOpenMode, nfs4.LockWrite, 0, 10)
	}},
	{Name: "LOCK by stateids that cannot be", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockRead, 0, 10)
		l.want(nfs4.OK, nfs4.LockRead, 10, 10)
		good := l.lock
		for _, id := range []nfs4.StateID{changed(good, 1), nfs4.BypassStateID, nfs4.InvalidStateID, {SeqID: 1, Other: [nfs4.OtherSize]byte{9}}} {
			l.lock = id
			l.want(nfs4.ErrBadStateID, nfs4.LockRead, 20, 10)
			l.unlock(nfs4.ErrBadStateID, 20, 10)
		}
		l.lock = changed(good, -1)
		l.want(nfs4.ErrOldStateID, nfs4.LockRead, 20, 10)
		l.unlock(nfs4.ErrOldStateID, 20, 10)
		stranger := &locker{opened: &opened{l.fh, l.id, t.client().session().ready()}, owner: "x"}
		stranger.want(nfs4.ErrBadStateID, nfs4.LockRead, 0, 10)
		l.lock = good
		l.unlock(nfs4.OK, 0, toEnd)
	}},
	{Name: "reading and writing by the stateid of locks", By: "RFC 8881, 8.2.5", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		for _, o := range using(l.lock) {
			t.want(nfs4.OK, putFH(l.fh), o)
		}
	}},
	{Name: "advisory locks do not keep others from reading and writing", By: "RFC 8881, 9.1.2: unless locking is mandatory", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		s := t.client().session().ready()
		s.oneOf([]nfs4.Status{nfs4.OK, nfs4.ErrLocked}, putFH(l.fh), read(nfs4.AnonymousStateID, 0, 10, new(nfs4.ReadRes)))
	}},
	{Name: "CLOSE with locks", By: "RFC 8881, 18.2.3: they are freed, or NFS4ERR_LOCKS_HELD", run: func(t *T) {
		a, b := t.locker(t.session(), "f", "a"), t.locker(t.client().session().ready(), "f", "b")
		a.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		rep := t.session().do(putFH(a.fh), closeFile(a.id))
		if rep.status == nfs4.OK {
			b.want(nfs4.OK, nfs4.LockWrite, 0, 10)
			a.unlock(nfs4.ErrBadStateID, 0, 10)
			return
		}
		require.Equal(t, nfs4.ErrLocksHeld, rep.status)
		b.want(nfs4.ErrDenied, nfs4.LockWrite, 0, 10)
	}},
	{Name: "FREE_STATEID of locks", By: "RFC 8881, 18.38.3: NFS4ERR_LOCKS_HELD, then NFS4ERR_BAD_STATEID", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.want(nfs4.ErrLocksHeld, freeStateID(l.lock))
		var res seen
		t.want(nfs4.OK, testStateID(&res, l.lock))
		assert.Equal(t, []nfs4.Status{nfs4.OK}, res.all)
		l.unlock(nfs4.OK, 0, toEnd)
		t.want(nfs4.OK, freeStateID(l.lock))
		t.want(nfs4.ErrBadStateID, freeStateID(l.lock))
		l.unlock(nfs4.ErrBadStateID, 0, 10)
		t.want(nfs4.OK, putFH(l.fh), closeFile(l.id))
	}},
	{Name: "DESTROY_CLIENTID frees locks that are left", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY before", run: func(t *T) {
		c := t.client()
		s := c.session().ready()
		l := t.locker(s, "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		c.alone(nfs4.OK, destroySessionOp(s.id))
		c.alone(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
	}},
	{Name: "a restart of the client frees its locks", By: exchangeCases + "5", run: func(t *T) {
		c := t.client()
		l := t.locker(c.session().ready(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		other := t.locker(t.session(), "f", "b")
		res := c.register(c.owner, 2, 0)
		other.want(nfs4.ErrDenied, nfs4.LockWrite, 0, 10)
		(&client{conn: c.conn, id: res.ClientID, seq: res.SequenceID}).session()
		other.want(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "LOCK reclaims after RECLAIM_COMPLETE", By: "RFC 8881, 18.51.3: NFS4ERR_NO_GRACE", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		o := l.lockOp(nfs4.LockRead, 0, 10, new(nfs4.LockRes))
		o.args.(*nfs4.LockArgs).Reclaim = true
		t.want(nfs4.ErrNoGrace, putFH(l.fh), o)
	}},
	{Name: "LOCK of an undefined type", By: "RFC 5662: nfs_lock_type4", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		for _, kind := range []nfs4.LockType{0, 5, 1 << 31} {
			l.want(nfs4.ErrBadXDR, kind, 0, 10)
			l.test(nfs4.ErrBadXDR, kind, 0, 10)
		}
	}},
	{Name: "LOCKT of what is no file", By: "RFC 8881, 15.2: NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.afterGrace()
		t.wrongTypes(op{nfs4.OpLockT, &nfs4.LockTArgs{Type: nfs4.LockRead, Length: 1, Owner: nfs4.StateOwner{Owner: []byte("a")}}, new(nfs4.LockTRes)})
	}},
	{Name: "LOCK of the current stateid", By: "RFC 8881, 16.2.3.1.2", Linux: "NFS4ERR_BAD_STATEID", run: func(t *T) {
		a := creating(openName("f", "a", 3, 0), nfs4.Unchecked, mode(0o644))
		o := op{nfs4.OpLock, &nfs4.LockArgs{
			Type: nfs4.LockWrite, Length: 10, New: true, StateID: nfs4.CurrentStateID, Owner: nfs4.StateOwner{Owner: []byte("l")},
		}, new(nfs4.LockRes)}
		u := op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: nfs4.CurrentStateID, Length: 10}, new(nfs4.StateIDRes)}
		t.want(nfs4.OK, putFH(t.dir()), open(a, new(nfs4.OpenRes)), o, u)
	}},
	{Name: "the locks of a silent client give way", By: "RFC 8881, 8.3, 8.4.3", Slow: true, run: func(t *T) {
		c := t.client()
		l := t.locker(c.session().ready(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.wait(t.Lease + t.Lease/2)
		other := t.locker(t.client().session().ready(), "f", "b")
		other.want(nfs4.OK, nfs4.LockWrite, 5, 10)
		rep := l.s.do(putRootFH())
		if rep.status == nfs4.OK { // the session may outlive the locks
			l.s.oneOf([]nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrAdminRevoked}, putFH(l.fh), read(l.lock, 0, 1, new(nfs4.ReadRes)))
		} else {
			assert.Equal(t, nfs4.ErrBadSession, rep.status)
		}
	}},
	{Name: "a silent client keeps its state until another needs it", By: "RFC 8881, 8.4.3: a courtesy", Slow: true, run: func(t *T) {
		l := t.locker(t.client().session().ready(), "f", "a")
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.wait(t.Lease + t.Lease/2)
		rep := l.s.do(putFH(l.fh), read(l.lock, 0, 1, new(nfs4.ReadRes)))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrBadSession, nfs4.ErrExpired}, rep.status)
	}},
}
