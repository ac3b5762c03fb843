package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// checkRetry sends a call whose reply the server caches, and retries it over
// another connection. The replies must be the same.
func (s *session) checkRetry(want nfs4.Status, ops ...op) {
	ops = append([]op{withCacheThis(s.sequenceOp(0))}, ops...)
	first := s.callCompound(ops...).checkStatus(s.t, len(ops), want)
	again := s.overConn(s.t.dial()).callCompound(ops...)
	assert.Equal(s.t, first.replayable(), again.replayable(), "a retry of %s", ops[len(ops)-1].num)
	s.seq[0]++
}

// retries are scenarios for retried calls that change something. Each change
// must be made once.
var retries = []Scenario{
	{Name: "a retry of OPEN", By: "RFC 8881, 2.10.6.1: exactly once semantics", run: func(t *T) {
		s := t.ownSession()
		a := withCreate(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, modeAttrs(0o644))
		var res nfs4.OpenRes
		t.ownDir()
		s.checkRetry(nfs4.OK, putFH(t.ownDir()), openOp(a, &res), getFH(new(nfs4.HandleRes)))
		assert.EqualValues(t, 1, res.StateID.SeqID)
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"), closeFile(res.StateID)) // the seqid has not advanced
	}},
	{Name: "a retry of an OPEN that failed", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		s := t.ownSession()
		t.ownDir()
		s.checkRetry(nfs4.ErrNoEnt, putFH(t.ownDir()), openOp(openName("f", "a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		t.newObject(nfs4.TypeReg, "f")
		t.tryOpen(s, nfs4.OK, openName("f", "a", nfs4.ShareRead, 0))
	}},
	{Name: "a retry of CLOSE", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		f := t.newFile("f", "")
		t.ownSession().checkRetry(nfs4.OK, putFH(f.fh), closeFile(f.id))
		t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "a retry of OPEN_DOWNGRADE", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		f := t.newFile("f", "")
		t.openAs(t.ownSession(), "f", "owner", nfs4.ShareRead, 0)
		var res nfs4.StateIDRes
		t.ownSession().checkRetry(nfs4.OK, putFH(f.fh), downgradeOp(shiftSeqID(f.id, 1), nfs4.ShareRead, 0, &res))
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(res.StateID))
	}},
	{Name: "a retry of LOCK and of LOCKU", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		var res nfs4.LockRes
		l.s.checkRetry(nfs4.OK, putFH(l.fh), l.lockOp(nfs4.LockWrite, 0, 10, &res))
		l.lockID = res.StateID
		assert.EqualValues(t, 1, l.lockID.SeqID)
		var un nfs4.StateIDRes
		l.s.checkRetry(nfs4.OK, putFH(l.fh), op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: l.lockID, Length: 10}, &un})
		assert.Equal(t, shiftSeqID(l.lockID, 1), un.StateID)
		l.lockID = un.StateID
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "a retry of LOCK that is denied", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		holder, other := t.newLocker(t.ownSession(), "f", "holder"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "other")
		holder.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		other.s.checkRetry(nfs4.ErrDenied, putFH(other.fh), other.lockOp(nfs4.LockWrite, 0, 10, new(nfs4.LockRes)))
		holder.unlockRange(nfs4.OK, 0, 10)
		other.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "a retry of RENAME, of LINK and of REMOVE", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		s := t.ownSession()
		fh := t.newObject(nfs4.TypeReg, "f")
		s.checkRetry(nfs4.OK, putFH(t.ownDir()), saveFH(), renameOp("f", "g"))
		s.checkRetry(nfs4.OK, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("h"))
		assert.EqualValues(t, 2, t.getAttrs(fh, nfs4.AttrNumLinks).NumLinks)
		s.checkRetry(nfs4.OK, putFH(t.ownDir()), removeOp("g"))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("h"))
	}},
	{Name: "a retry of WRITE does not write again", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		f := t.newFile("f", "")
		ops := []op{withCacheThis(f.s.sequenceOp(0)), putFH(f.fh), writeOp(f.id, 0, nfs4.FileSync, "first", new(nfs4.WriteRes))}
		first := f.s.callCompound(ops...).checkStatus(t, 3, nfs4.OK)
		other := f.s.client.newSession()
		other.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 0, nfs4.FileSync, "later", new(nfs4.WriteRes)))
		again := f.s.callCompound(ops...)
		assert.Equal(t, first.replayable(), again.replayable())
		f.s.seq[0]++
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, 10, &res))
		assert.Equal(t, "later", string(res.Data))
	}},
	{Name: "a retry of READ whose reply is kept", By: "RFC 8881, 18.46.3: the server MUST cache the reply", run: func(t *T) {
		f := t.newFile("f", "some data")
		f.s.checkRetry(nfs4.OK, putFH(f.fh), readOp(f.id, 0, 100, new(nfs4.ReadRes)))
	}},
	{Name: "a retry of SETATTR", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.ownSession().checkRetry(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o600)))
		t.ownSession().checkRetry(nfs4.ErrInval, putFH(fh), setAttr(nfs4.StateID{}, newAttrs(nil, nfs4.AttrLinkSupport)))
	}},
	{Name: "a retry of RECLAIM_COMPLETE", By: "RFC 8881, 2.10.6.1: the reply of the cache, not NFS4ERR_COMPLETE_ALREADY", run: func(t *T) {
		s := t.newClient().newSession()
		s.checkRetry(nfs4.OK, reclaimCompleteOp(false))
		s.checkRetry(nfs4.ErrCompleteAlready, reclaimCompleteOp(false))
	}},
	{Name: "a retry of DESTROY_SESSION in the session itself", By: "RFC 8881, 18.37.3: NFS4ERR_BADSESSION", run: func(t *T) {
		s := t.newClient().newSession()
		ops := []op{withCacheThis(s.sequenceOp(0)), destroySessionOp(s.id)}
		s.callCompound(ops...).checkStatus(t, 2, nfs4.OK)
		s.callCompound(ops...).checkStatus(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "a retry of a call with a bad operation", By: "RFC 8881, 2.10.6.1.2: only SEQUENCE errors leave the slot unchanged", run: func(t *T) {
		s := t.ownSession()
		b := raw{0, 0, 0}
		ops := []op{withCacheThis(s.sequenceOp(0)), putRootFH(), {nfs4.OpLookup, &b, statusRes()}}
		first := s.callCompound(ops...).checkStatus(t, 3, nfs4.ErrBadXDR)
		assert.Equal(t, first.replayable(), s.callCompound(ops...).replayable())
		s.seq[0]++
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "one sequence ID in two slots and in two sessions", By: "RFC 8881, 2.10.6.1: each slot has its own", run: func(t *T) {
		c := t.newClient()
		one, two := c.newSession().completeReclaim(), c.newSession()
		t.ownDir()
		for i, call := range []struct {
			s    *session
			slot uint32
		}{{one, 1}, {one, 2}, {two, 1}, {two, 2}} {
			name := string(rune('a' + i))
			call.s.callCompound(withCacheThis(call.s.sequenceOp(call.slot)), putFH(t.ownDir()), createOp(nfs4.TypeDir, name, modeAttrs(0o755))).checkStatus(t, 3, nfs4.OK)
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp(name))
		}
	}},
	{Name: "the reply of a slot is kept until its next call", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		s := t.ownSession()
		fh := t.newObject(nfs4.TypeReg, "f")
		ops := []op{withCacheThis(s.sequenceOp(1)), putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o600))}
		first := s.callCompound(ops...).checkStatus(t, 3, nfs4.OK)
		for range 30 { // in slot 0
			s.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"))
		}
		assert.Equal(t, first.replayable(), s.callCompound(ops...).replayable())
		s.seq[1]++
		s.callCompound(s.sequenceOp(1), putRootFH()).checkStatus(t, 2, nfs4.OK)
		s.callCompound(ops...).checkStatus(t, 1, nfs4.ErrSeqMisordered)
	}},
}
