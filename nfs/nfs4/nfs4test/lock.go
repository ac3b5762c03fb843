package nfs4test

import (
	"math"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// toEOF is the length of a lock that extends to the end of the file.
const toEOF = math.MaxUint64

// A locker is a lock-owner with an open file.
type locker struct {
	*openedFile
	owner  string
	lockID nfs4.StateID // the locks' stateid; zero before the first lock
}

// graceLimit bounds the wait for a new server's grace period.
const graceLimit = 2 * time.Minute

// awaitGraceEnd waits until the server grants locks, once for all scenarios.
func (t *T) awaitGraceEnd() {
	t.graceOnce.Do(func() {
		f := t.openAs(t.ownSession(), "grace", "a", nfs4.ShareBoth, 0)
		l := &locker{openedFile: f, owner: "a"}
		deadline := time.Now().Add(graceLimit)
		for {
			rep := t.ownSession().callWithSequence(putFH(f.fh), l.lockOp(nfs4.LockRead, 0, 1, new(nfs4.LockRes)))
			if rep.status != nfs4.ErrGrace || time.Now().After(deadline) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	})
}

// newLocker opens a file for a lock-owner of a session.
func (t *T) newLocker(s *session, name, owner string) *locker {
	t.awaitGraceEnd()
	return &locker{openedFile: t.openAs(s, name, "open "+owner, nfs4.ShareBoth, 0), owner: owner}
}

// lockOp returns LOCK for a range. The first lock uses the open's stateid.
func (l *locker) lockOp(kind nfs4.LockType, off, length uint64, res *nfs4.LockRes) op {
	a := &nfs4.LockArgs{Type: kind, Offset: off, Length: length, StateID: l.lockID}
	if l.lockID == (nfs4.StateID{}) {
		a.New, a.StateID, a.Owner = true, l.id, nfs4.StateOwner{Owner: []byte(l.owner)}
	}
	return op{nfs4.OpLock, a, res}
}

// lockRange locks a range, and checks the status.
func (l *locker) lockRange(st nfs4.Status, kind nfs4.LockType, off, length uint64) nfs4.LockRes {
	var res nfs4.LockRes
	l.s.expectStatus(st, putFH(l.fh), l.lockOp(kind, off, length, &res))
	if st == nfs4.OK {
		l.lockID = res.StateID
	}
	return res
}

// unlockRange unlocks a range, and checks the status.
func (l *locker) unlockRange(st nfs4.Status, off, length uint64) {
	var res nfs4.StateIDRes
	a := &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: l.lockID, Offset: off, Length: length}
	l.s.expectStatus(st, putFH(l.fh), op{nfs4.OpLockU, a, &res})
	if st == nfs4.OK {
		l.lockID = res.StateID
	}
}

// testRange sends LOCKT, and checks the status.
func (l *locker) testRange(st nfs4.Status, kind nfs4.LockType, off, length uint64) nfs4.LockDenied {
	var res nfs4.LockTRes
	a := &nfs4.LockTArgs{Type: kind, Offset: off, Length: length, Owner: nfs4.StateOwner{Owner: []byte(l.owner)}}
	l.s.expectStatus(st, putFH(l.fh), op{nfs4.OpLockT, a, &res})
	return res.Denied
}

// byteRanges are scenarios for LOCK, LOCKT and LOCKU.
var byteRanges = []Scenario{
	{Name: "LOCK and LOCKU", By: "RFC 8881, 18.10.3, 18.12.3", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		assert.EqualValues(t, 1, l.lockID.SeqID, "8.2.2: the first seqid is 1")
		assert.NotEqual(t, l.id.Other, l.lockID.Other)
		l.lockRange(nfs4.OK, nfs4.LockRead, 20, 10)
		assert.EqualValues(t, 2, l.lockID.SeqID)
		l.unlockRange(nfs4.OK, 0, toEOF)
		assert.EqualValues(t, 3, l.lockID.SeqID)
		l.unlockRange(nfs4.OK, 0, toEOF) // nothing is locked
	}},
	{Name: "LOCK that conflicts", By: "RFC 8881, 18.10.3: NFS4ERR_DENIED with the conflicting lock", run: func(t *T) {
		holder, other := t.newLocker(t.ownSession(), "f", "holder"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "other")
		same := t.newLocker(t.ownSession(), "f", "same client")
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
			holder.lockRange(nfs4.OK, tt.held, 10, 10)
			for _, l := range []*locker{other, same} {
				denied := l.testRange(tt.want, tt.asked, 15, 10)
				if tt.want == nfs4.ErrDenied {
					assert.Equal(t, tt.held, denied.Type)
					assert.EqualValues(t, 10, denied.Offset)
					assert.EqualValues(t, 10, denied.Length)
					assert.Equal(t, "holder", string(denied.Owner.Owner))
					assert.Equal(t, denied, l.lockRange(tt.want, tt.asked, 15, 10).Denied)
				} else {
					l.lockRange(nfs4.OK, tt.asked, 15, 10)
					l.unlockRange(nfs4.OK, 15, 10)
				}
				l.testRange(nfs4.OK, tt.asked, 0, 10)
				l.testRange(nfs4.OK, tt.asked, 20, toEOF)
			}
			holder.unlockRange(nfs4.OK, 10, 10)
		}
	}},
	{Name: "an owner does not conflict with itself", By: "RFC 8881, 18.10.3, 18.11.3", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 100)
		l.testRange(nfs4.OK, nfs4.LockWrite, 50, 100)
		l.lockRange(nfs4.OK, nfs4.LockRead, 50, 100) // part of it is downgraded
		other := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		other.testRange(nfs4.ErrDenied, nfs4.LockRead, 0, 50)
		other.testRange(nfs4.OK, nfs4.LockRead, 50, 100)
		other.testRange(nfs4.ErrDenied, nfs4.LockWrite, 149, 1)
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 150) // and upgraded
		other.testRange(nfs4.ErrDenied, nfs4.LockRead, 140, 1)
	}},
	{Name: "an upgrade that conflicts", By: "RFC 8881, 9.3: NFS4ERR_DENIED, and the old lock stays", run: func(t *T) {
		a, b := t.newLocker(t.ownSession(), "f", "a"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		a.lockRange(nfs4.OK, nfs4.LockRead, 0, 10)
		b.lockRange(nfs4.OK, nfs4.LockRead, 5, 10)
		a.lockRange(nfs4.ErrDenied, nfs4.LockWrite, 0, 10)
		b.testRange(nfs4.ErrDenied, nfs4.LockWrite, 0, 5)
		b.unlockRange(nfs4.OK, 5, 10)
		a.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "LOCKU in the midst of a lock", By: "RFC 8881, 18.12.3: POSIX splits it", run: func(t *T) {
		a, b := t.newLocker(t.ownSession(), "f", "a"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		a.lockRange(nfs4.OK, nfs4.LockWrite, 0, 30)
		a.unlockRange(nfs4.OK, 10, 10)
		b.lockRange(nfs4.OK, nfs4.LockWrite, 10, 10)
		b.testRange(nfs4.ErrDenied, nfs4.LockWrite, 9, 1)
		b.testRange(nfs4.ErrDenied, nfs4.LockWrite, 20, 1)
		a.unlockRange(nfs4.OK, 0, toEOF)
		b.testRange(nfs4.OK, nfs4.LockWrite, 0, toEOF)
	}},
	{Name: "locks side by side", By: "RFC 8881, 18.10.3", run: func(t *T) {
		a, b := t.newLocker(t.ownSession(), "f", "a"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		for i := range uint64(20) {
			[]*locker{a, b}[i%2].lockRange(nfs4.OK, nfs4.LockWrite, 10*i, 10)
		}
		denied := a.testRange(nfs4.ErrDenied, nfs4.LockRead, 0, toEOF)
		assert.EqualValues(t, 10, denied.Offset)
	}},
	{Name: "ranges that cannot be", By: "RFC 8881, 18.10.3, 18.11.3, 18.12.3: NFS4ERR_INVAL", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockRead, 0, 1)
		for _, r := range [][2]uint64{{0, 0}, {100, 0}, {1, math.MaxUint64 - 0}, {math.MaxUint64, 2}, {100, math.MaxUint64 - 50}, {1 << 63, 1<<63 + 1}} {
			if r[1] == toEOF {
				continue
			}
			l.lockRange(nfs4.ErrInval, nfs4.LockWrite, r[0], r[1])
			l.testRange(nfs4.ErrInval, nfs4.LockWrite, r[0], r[1])
			l.unlockRange(nfs4.ErrInval, r[0], r[1])
		}
	}},
	{Name: "ranges up to the last byte", By: "RFC 8881, 18.10.3: all ones go to the end; NFS4ERR_BAD_RANGE if 32 bits are all", Linux: "ranges end at 2^63 - 1, also in NFS4ERR_DENIED", run: func(t *T) {
		a, b := t.newLocker(t.ownSession(), "f", "a"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		a.lockRange(nfs4.OK, nfs4.LockWrite, 1<<40, toEOF)
		denied := b.testRange(nfs4.ErrDenied, nfs4.LockRead, 1<<41, 1)
		assert.EqualValues(t, 1<<40, denied.Offset)
		assert.Equal(t, uint64(toEOF), denied.Length)
		b.lockRange(nfs4.OK, nfs4.LockWrite, 0, 1<<40)
		a.unlockRange(nfs4.OK, 1<<40, toEOF)
		a.lockRange(nfs4.OK, nfs4.LockWrite, math.MaxInt64-10, 5)
		a.lockRange(nfs4.OK, nfs4.LockWrite, math.MaxUint64-10, 5)
		a.unlockRange(nfs4.OK, 0, toEOF)
	}},
	{Name: "LOCK by the mode of the open", By: "RFC 8881, 15.1.8.8: NFS4ERR_OPENMODE", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		r := &locker{openedFile: t.openAs(t.ownSession(), "f", "reader", nfs4.ShareRead, 0), owner: "a"}
		r.lockRange(nfs4.ErrOpenMode, nfs4.LockWrite, 0, 10)
		r.lockRange(nfs4.OK, nfs4.LockRead, 0, 10)
		r.lockRange(nfs4.ErrOpenMode, nfs4.LockWrite, 0, 10)
	}},
	{Name: "LOCK by stateids that cannot be", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockRead, 0, 10)
		l.lockRange(nfs4.OK, nfs4.LockRead, 10, 10)
		good := l.lockID
		for _, id := range []nfs4.StateID{shiftSeqID(good, 1), nfs4.BypassStateID, nfs4.InvalidStateID, {SeqID: 1, Other: [nfs4.OtherSize]byte{9}}} {
			l.lockID = id
			l.lockRange(nfs4.ErrBadStateID, nfs4.LockRead, 20, 10)
			l.unlockRange(nfs4.ErrBadStateID, 20, 10)
		}
		l.lockID = shiftSeqID(good, -1)
		l.lockRange(nfs4.ErrOldStateID, nfs4.LockRead, 20, 10)
		l.unlockRange(nfs4.ErrOldStateID, 20, 10)
		stranger := &locker{openedFile: &openedFile{l.fh, l.id, t.newClient().newSession().completeReclaim()}, owner: "x"}
		stranger.lockRange(nfs4.ErrBadStateID, nfs4.LockRead, 0, 10)
		l.lockID = good
		l.unlockRange(nfs4.OK, 0, toEOF)
	}},
	{Name: "reading and writing by the stateid of locks", By: "RFC 8881, 8.2.5", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		for _, o := range dataOps(l.lockID) {
			t.expectStatus(nfs4.OK, putFH(l.fh), o)
		}
	}},
	{Name: "advisory locks do not keep others from reading and writing", By: "RFC 8881, 9.1.2: unless locking is mandatory", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		s := t.newClient().newSession().completeReclaim()
		s.expectOneOf([]nfs4.Status{nfs4.OK, nfs4.ErrLocked}, putFH(l.fh), readOp(nfs4.AnonymousStateID, 0, 10, new(nfs4.ReadRes)))
	}},
	{Name: "CLOSE with locks", By: "RFC 8881, 18.2.3: they are freed, or NFS4ERR_LOCKS_HELD", run: func(t *T) {
		a, b := t.newLocker(t.ownSession(), "f", "a"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		a.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		rep := t.ownSession().callWithSequence(putFH(a.fh), closeFile(a.id))
		if rep.status == nfs4.OK {
			b.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
			a.unlockRange(nfs4.ErrBadStateID, 0, 10)
			return
		}
		require.Equal(t, nfs4.ErrLocksHeld, rep.status)
		b.lockRange(nfs4.ErrDenied, nfs4.LockWrite, 0, 10)
	}},
	{Name: "FREE_STATEID of locks", By: "RFC 8881, 18.38.3: NFS4ERR_LOCKS_HELD, then NFS4ERR_BAD_STATEID", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.expectStatus(nfs4.ErrLocksHeld, freeStateID(l.lockID))
		var res testedStateIDs
		t.expectStatus(nfs4.OK, testStateID(&res, l.lockID))
		assert.Equal(t, []nfs4.Status{nfs4.OK}, res.statuses)
		l.unlockRange(nfs4.OK, 0, toEOF)
		t.expectStatus(nfs4.OK, freeStateID(l.lockID))
		t.expectStatus(nfs4.ErrBadStateID, freeStateID(l.lockID))
		l.unlockRange(nfs4.ErrBadStateID, 0, 10)
		t.expectStatus(nfs4.OK, putFH(l.fh), closeFile(l.id))
	}},
	{Name: "DESTROY_CLIENTID frees locks that are left", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY before", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		l := t.newLocker(s, "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		c.callWithoutSequence(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
	}},
	{Name: "a restart of the client frees its locks", By: exchangeCases + "5", run: func(t *T) {
		c := t.newClient()
		l := t.newLocker(c.newSession().completeReclaim(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		other := t.newLocker(t.ownSession(), "f", "b")
		res := c.registerOwner(c.owner, 2, 0)
		other.lockRange(nfs4.ErrDenied, nfs4.LockWrite, 0, 10)
		(&client{conn: c.conn, id: res.ClientID, seq: res.SequenceID}).newSession()
		other.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "LOCK reclaims after RECLAIM_COMPLETE", By: "RFC 8881, 18.51.3: NFS4ERR_NO_GRACE", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		o := l.lockOp(nfs4.LockRead, 0, 10, new(nfs4.LockRes))
		o.args.(*nfs4.LockArgs).Reclaim = true
		t.expectStatus(nfs4.ErrNoGrace, putFH(l.fh), o)
	}},
	{Name: "LOCK of an undefined type", By: "RFC 5662: nfs_lock_type4", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		for _, kind := range []nfs4.LockType{0, 5, 1 << 31} {
			l.lockRange(nfs4.ErrBadXDR, kind, 0, 10)
			l.testRange(nfs4.ErrBadXDR, kind, 0, 10)
		}
	}},
	{Name: "LOCKT of what is no file", By: "RFC 8881, 15.2: NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.awaitGraceEnd()
		t.checkWrongTypes(op{nfs4.OpLockT, &nfs4.LockTArgs{Type: nfs4.LockRead, Length: 1, Owner: nfs4.StateOwner{Owner: []byte("a")}}, new(nfs4.LockTRes)})
	}},
	{Name: "LOCK of the current stateid", By: "RFC 8881, 16.2.3.1.2", Linux: "NFS4ERR_BAD_STATEID", run: func(t *T) {
		a := withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644))
		o := op{nfs4.OpLock, &nfs4.LockArgs{
			Type: nfs4.LockWrite, Length: 10, New: true, StateID: nfs4.CurrentStateID, Owner: nfs4.StateOwner{Owner: []byte("l")},
		}, new(nfs4.LockRes)}
		u := op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: nfs4.CurrentStateID, Length: 10}, new(nfs4.StateIDRes)}
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)), o, u)
	}},
	{Name: "the locks of a silent client give way", By: "RFC 8881, 8.3, 8.4.3", Slow: true, run: func(t *T) {
		c := t.newClient()
		l := t.newLocker(c.newSession().completeReclaim(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.waitForLease(t.Lease + t.Lease/2)
		other := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		other.lockRange(nfs4.OK, nfs4.LockWrite, 5, 10)
		rep := l.s.callWithSequence(putRootFH())
		if rep.status == nfs4.OK { // the session may outlive the locks
			l.s.expectOneOf([]nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrAdminRevoked}, putFH(l.fh), readOp(l.lockID, 0, 1, new(nfs4.ReadRes)))
		} else {
			assert.Equal(t, nfs4.ErrBadSession, rep.status)
		}
	}},
	{Name: "a silent client keeps its state until another needs it", By: "RFC 8881, 8.4.3: a courtesy", Slow: true, run: func(t *T) {
		l := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		t.waitForLease(t.Lease + t.Lease/2)
		rep := l.s.callWithSequence(putFH(l.fh), readOp(l.lockID, 0, 1, new(nfs4.ReadRes)))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrBadSession, nfs4.ErrExpired}, rep.status)
	}},
}
