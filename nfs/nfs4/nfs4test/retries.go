package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// twice makes a call whose reply is kept and then retries it over another
// connection. The replies must be the same.
func (s *session) twice(want nfs4.Status, ops ...op) {
	ops = append([]op{cached(s.sequenceOp(0))}, ops...)
	first := s.compound(ops...).is(s.t, len(ops), want)
	again := s.over(s.t.dial()).compound(ops...)
	assert.Equal(s.t, first.replayable(), again.replayable(), "a retry of %s", ops[len(ops)-1].num)
	s.seq[0]++
}

// retries are scenarios of retried calls that change something: each change is
// made once.
var retries = []Scenario{
	{Name: "a retry of OPEN", By: "RFC 8881, 2.10.6.1: exactly once semantics", run: func(t *T) {
		s := t.session()
		a := creating(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, mode(0o644))
		var res nfs4.OpenRes
		t.dir()
		s.twice(nfs4.OK, putFH(t.dir()), open(a, &res), getFH(new(nfs4.HandleRes)))
		assert.EqualValues(t, 1, res.StateID.SeqID)
		t.want(nfs4.OK, putFH(t.dir()), lookup("f"), closeFile(res.StateID)) // the seqid has not advanced
	}},
	{Name: "a retry of an OPEN that failed", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		s := t.session()
		t.dir()
		s.twice(nfs4.ErrNoEnt, putFH(t.dir()), open(openName("f", "a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		t.object(nfs4.TypeReg, "f")
		t.tryOpen(s, nfs4.OK, openName("f", "a", nfs4.ShareRead, 0))
	}},
	{Name: "a retry of CLOSE", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		f := t.file("f", "")
		t.session().twice(nfs4.OK, putFH(f.fh), closeFile(f.id))
		t.want(nfs4.ErrBadStateID, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "a retry of OPEN_DOWNGRADE", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		f := t.file("f", "")
		t.openAs(t.session(), "f", "owner", nfs4.ShareRead, 0)
		var res nfs4.StateIDRes
		t.session().twice(nfs4.OK, putFH(f.fh), downgrade(changed(f.id, 1), nfs4.ShareRead, 0, &res))
		t.want(nfs4.OK, putFH(f.fh), closeFile(res.StateID))
	}},
	{Name: "a retry of LOCK and of LOCKU", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		l := t.locker(t.session(), "f", "a")
		var res nfs4.LockRes
		l.s.twice(nfs4.OK, putFH(l.fh), l.lockOp(nfs4.LockWrite, 0, 10, &res))
		l.lock = res.StateID
		assert.EqualValues(t, 1, l.lock.SeqID)
		var un nfs4.StateIDRes
		l.s.twice(nfs4.OK, putFH(l.fh), op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: l.lock, Length: 10}, &un})
		assert.Equal(t, changed(l.lock, 1), un.StateID)
		l.lock = un.StateID
		l.want(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "a retry of LOCK that is denied", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		holder, other := t.locker(t.session(), "f", "holder"), t.locker(t.client().session().ready(), "f", "other")
		holder.want(nfs4.OK, nfs4.LockWrite, 0, 10)
		other.s.twice(nfs4.ErrDenied, putFH(other.fh), other.lockOp(nfs4.LockWrite, 0, 10, new(nfs4.LockRes)))
		holder.unlock(nfs4.OK, 0, 10)
		other.want(nfs4.OK, nfs4.LockWrite, 0, 10)
	}},
	{Name: "a retry of RENAME, of LINK and of REMOVE", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		s := t.session()
		fh := t.object(nfs4.TypeReg, "f")
		s.twice(nfs4.OK, putFH(t.dir()), saveFH(), rename("f", "g"))
		s.twice(nfs4.OK, putFH(fh), saveFH(), putFH(t.dir()), link("h"))
		assert.EqualValues(t, 2, t.attrsOf(fh, nfs4.AttrNumLinks).NumLinks)
		s.twice(nfs4.OK, putFH(t.dir()), remove("g"))
		t.want(nfs4.OK, putFH(t.dir()), lookup("h"))
	}},
	{Name: "a retry of WRITE does not write again", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		f := t.file("f", "")
		ops := []op{cached(f.s.sequenceOp(0)), putFH(f.fh), write(f.id, 0, nfs4.FileSync, "first", new(nfs4.WriteRes))}
		first := f.s.compound(ops...).is(t, 3, nfs4.OK)
		other := f.s.client.session()
		other.want(nfs4.OK, putFH(f.fh), write(f.id, 0, nfs4.FileSync, "later", new(nfs4.WriteRes)))
		again := f.s.compound(ops...)
		assert.Equal(t, first.replayable(), again.replayable())
		f.s.seq[0]++
		var res nfs4.ReadRes
		t.want(nfs4.OK, putFH(f.fh), read(f.id, 0, 10, &res))
		assert.Equal(t, "later", string(res.Data))
	}},
	{Name: "a retry of READ whose reply is kept", By: "RFC 8881, 18.46.3: the server MUST cache the reply", run: func(t *T) {
		f := t.file("f", "some data")
		f.s.twice(nfs4.OK, putFH(f.fh), read(f.id, 0, 100, new(nfs4.ReadRes)))
	}},
	{Name: "a retry of SETATTR", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.session().twice(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, mode(0o600)))
		t.session().twice(nfs4.ErrInval, putFH(fh), setAttr(nfs4.StateID{}, attrs(nil, nfs4.AttrLinkSupport)))
	}},
	{Name: "a retry of RECLAIM_COMPLETE", By: "RFC 8881, 2.10.6.1: the reply of the cache, not NFS4ERR_COMPLETE_ALREADY", run: func(t *T) {
		s := t.client().session()
		s.twice(nfs4.OK, reclaimCompleteOp(false))
		s.twice(nfs4.ErrCompleteAlready, reclaimCompleteOp(false))
	}},
	{Name: "a retry of DESTROY_SESSION in the session itself", By: "RFC 8881, 18.37.3: NFS4ERR_BADSESSION", run: func(t *T) {
		s := t.client().session()
		ops := []op{cached(s.sequenceOp(0)), destroySessionOp(s.id)}
		s.compound(ops...).is(t, 2, nfs4.OK)
		s.compound(ops...).is(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "a retry of a call with a bad operation", By: "RFC 8881, 2.10.6.1.2: only errors of SEQUENCE leave the slot alone", run: func(t *T) {
		s := t.session()
		b := raw{0, 0, 0}
		ops := []op{cached(s.sequenceOp(0)), putRootFH(), {nfs4.OpLookup, &b, status()}}
		first := s.compound(ops...).is(t, 3, nfs4.ErrBadXDR)
		assert.Equal(t, first.replayable(), s.compound(ops...).replayable())
		s.seq[0]++
		s.want(nfs4.OK, putRootFH())
	}},
	{Name: "one sequence ID in two slots and in two sessions", By: "RFC 8881, 2.10.6.1: each slot has its own", run: func(t *T) {
		c := t.client()
		one, two := c.session().ready(), c.session()
		t.dir()
		for i, call := range []struct {
			s    *session
			slot uint32
		}{{one, 1}, {one, 2}, {two, 1}, {two, 2}} {
			name := string(rune('a' + i))
			call.s.compound(cached(call.s.sequenceOp(call.slot)), putFH(t.dir()), create(nfs4.TypeDir, name, mode(0o755))).is(t, 3, nfs4.OK)
			t.want(nfs4.OK, putFH(t.dir()), lookup(name))
		}
	}},
	{Name: "the reply of a slot is kept until its next call", By: "RFC 8881, 2.10.6.1", run: func(t *T) {
		s := t.session()
		fh := t.object(nfs4.TypeReg, "f")
		ops := []op{cached(s.sequenceOp(1)), putFH(fh), setAttr(nfs4.StateID{}, mode(0o600))}
		first := s.compound(ops...).is(t, 3, nfs4.OK)
		for range 30 { // in slot 0
			s.want(nfs4.OK, putFH(t.dir()), lookup("f"))
		}
		assert.Equal(t, first.replayable(), s.compound(ops...).replayable())
		s.seq[1]++
		s.compound(s.sequenceOp(1), putRootFH()).is(t, 2, nfs4.OK)
		s.compound(ops...).is(t, 1, nfs4.ErrSeqMisordered)
	}},
}
