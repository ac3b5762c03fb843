package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// changed returns a stateid with another seqid.
func changed(id nfs4.StateID, by int) nfs4.StateID {
	id.SeqID += uint32(by)
	return id
}

// using are operations that use a stateid for data.
func using(id nfs4.StateID) []op {
	return []op{
		read(id, 0, 10, new(nfs4.ReadRes)), write(id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)), setAttr(id, sized(10)),
	}
}

// changing are operations that change the state of a stateid.
func changing(id nfs4.StateID) []op {
	return []op{closeFile(id), downgrade(id, nfs4.ShareRead, 0, new(nfs4.StateIDRes))}
}

// stateids are scenarios of stateids, CLOSE, OPEN_DOWNGRADE, TEST_STATEID and
// FREE_STATEID.
var stateids = []Scenario{
	{Name: "CLOSE", By: "RFC 8881, 18.2.4: SHOULD return the invalid stateid", run: func(t *T) {
		f := t.file("f", "")
		o := closeFile(f.id)
		t.want(nfs4.OK, putFH(f.fh), o)
		assert.Equal(t, nfs4.InvalidStateID, o.res.(*nfs4.StateIDRes).StateID)
		for _, o := range append(using(f.id), changing(f.id)...) {
			t.want(nfs4.ErrBadStateID, putFH(f.fh), o)
		}
	}},
	{Name: "a seqid of 0", By: "RFC 8881, 8.2.2: it stands for the current one", run: func(t *T) {
		f := t.file("f", "")
		t.openAs(t.session(), "f", "owner", nfs4.ShareBoth, 0)
		id := f.id
		id.SeqID = 0
		for _, o := range using(id) {
			t.want(nfs4.OK, putFH(f.fh), o)
		}
		t.want(nfs4.OK, putFH(f.fh), closeFile(id))
	}},
	{Name: "old and future seqids", By: "RFC 8881, 8.2.2, 8.2.4: NFS4ERR_OLD_STATEID, NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.file("f", "")
		now := t.openAs(t.session(), "f", "owner", nfs4.ShareBoth, 0).id
		for _, o := range append(using(changed(now, -1)), changing(changed(now, -1))...) {
			t.want(nfs4.ErrOldStateID, putFH(f.fh), o)
		}
		for _, o := range append(using(changed(now, 1)), changing(changed(now, 100))...) {
			t.want(nfs4.ErrBadStateID, putFH(f.fh), o)
		}
		t.want(nfs4.OK, putFH(f.fh), closeFile(now))
	}},
	{Name: "stateids that the server never gave", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.file("f", "")
		for _, at := range []int{0, 3, 5, 7, 8, 11} {
			id := f.id
			id.Other[at] ^= 0x41
			for _, o := range append(using(id), changing(id)...) {
				t.want(nfs4.ErrBadStateID, putFH(f.fh), o)
			}
		}
	}},
	{Name: "the stateid of another client", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.file("f", "")
		s := t.client().session().ready()
		for _, o := range append(using(f.id), changing(f.id)...) {
			s.want(nfs4.ErrBadStateID, putFH(f.fh), o)
		}
		t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "the stateid of another file", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f, g := t.file("f", ""), t.file("g", "")
		for _, o := range append(using(f.id), changing(f.id)...) {
			t.want(nfs4.ErrBadStateID, putFH(g.fh), o)
		}
	}},
	{Name: "special stateids that are not allowed", By: "RFC 8881, 8.2.3: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.file("f", "")
		for _, id := range []nfs4.StateID{nfs4.AnonymousStateID, nfs4.BypassStateID, nfs4.InvalidStateID, nfs4.CurrentStateID} {
			for _, o := range changing(id) {
				t.want(nfs4.ErrBadStateID, putFH(f.fh), o)
			}
		}
		other := nfs4.StateID{SeqID: 5}
		ones := nfs4.BypassStateID
		ones.SeqID = 0
		for _, id := range []nfs4.StateID{nfs4.InvalidStateID, nfs4.CurrentStateID, other, ones} {
			for _, o := range using(id) {
				t.want(nfs4.ErrBadStateID, putFH(f.fh), o)
			}
		}
	}},
	{Name: "special stateids", By: "RFC 8881, 8.2.3", run: func(t *T) {
		f := t.file("f", "some data")
		for _, id := range []nfs4.StateID{nfs4.AnonymousStateID, nfs4.BypassStateID} {
			for _, o := range using(id) {
				t.want(nfs4.OK, putFH(f.fh), o)
			}
		}
	}},
	{Name: "special stateids and deny modes", By: "RFC 8881, 8.2.3, 9.7: NFS4ERR_LOCKED", run: func(t *T) {
		f := t.openAs(t.session(), "f", "owner", nfs4.ShareBoth, nfs4.ShareBoth)
		for _, s := range []*session{t.session(), t.client().session().ready()} {
			s.want(nfs4.ErrLocked, putFH(f.fh), read(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)))
			s.want(nfs4.ErrLocked, putFH(f.fh), write(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
			s.want(nfs4.ErrLocked, putFH(f.fh), write(nfs4.BypassStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
			s.oneOf([]nfs4.Status{nfs4.OK, nfs4.ErrLocked}, putFH(f.fh), read(nfs4.BypassStateID, 0, 1, new(nfs4.ReadRes)))
		}
	}},
	{Name: "the mode of an open", By: "RFC 8881, 15.1.8.8: NFS4ERR_OPENMODE", run: func(t *T) {
		t.object(nfs4.TypeReg, "f")
		r := t.openAs(t.session(), "f", "reader", nfs4.ShareRead, 0)
		t.want(nfs4.OK, putFH(r.fh), read(r.id, 0, 1, new(nfs4.ReadRes)))
		t.want(nfs4.ErrOpenMode, putFH(r.fh), write(r.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		w := t.openAs(t.session(), "f", "writer", nfs4.ShareWrite, 0)
		t.want(nfs4.OK, putFH(w.fh), write(w.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		t.oneOf([]nfs4.Status{nfs4.OK, nfs4.ErrOpenMode}, putFH(w.fh), read(w.id, 0, 1, new(nfs4.ReadRes))) // 9.1.2: it MAY be allowed
	}},
	{Name: "the current stateid moves with the filehandle", By: "RFC 8881, 16.2.3.1.2", run: func(t *T) {
		a := openName("f", "a", 3, 0)
		make := open(creating(a, nfs4.Unchecked, mode(0o644)), new(nfs4.OpenRes))
		end := closeFile(nfs4.StateID{}).current()
		t.want(nfs4.OK, putFH(t.dir()), make, saveFH(), putRootFH(), restoreFH(), end)
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), make, putFH(t.dir()), lookup("f"), end)
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), lookup("f"), end)
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), lookup("f"), read(nfs4.StateID{}, 0, 1, new(nfs4.ReadRes)).current())
		t.want(nfs4.OK, putFH(t.dir()), make, end)
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), make, end, closeFile(nfs4.StateID{}).current())
	}},
	{Name: "OPEN_DOWNGRADE", By: "RFC 8881, 18.18.3", run: func(t *T) {
		f := t.file("f", "")
		t.openAs(t.session(), "f", "owner", nfs4.ShareRead, 0)
		id := changed(f.id, 1)
		var res nfs4.StateIDRes
		t.want(nfs4.OK, putFH(f.fh), downgrade(id, nfs4.ShareRead, 0, &res))
		assert.Equal(t, changed(id, 1), res.StateID)
		t.want(nfs4.ErrOpenMode, putFH(f.fh), write(res.StateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		t.want(nfs4.OK, putFH(f.fh), read(res.StateID, 0, 1, new(nfs4.ReadRes)))
		t.want(nfs4.ErrOldStateID, putFH(f.fh), closeFile(id))
	}},
	{Name: "OPEN_DOWNGRADE lets others in", By: "RFC 8881, 18.18.3", run: func(t *T) {
		f := t.openAs(t.session(), "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		t.openAs(t.client().session().ready(), "other", "b", nfs4.ShareRead, 0)
		s := t.client().session().ready()
		s.want(nfs4.ErrShareDenied, putFH(f.fh), open(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		g := t.openAs(t.session(), "g", "a", nfs4.ShareRead, 0)
		t.want(nfs4.OK, putFH(g.fh), closeFile(g.id))
	}},
	{Name: "OPEN_DOWNGRADE to modes that were not opened", By: "RFC 8881, 18.18.3: SHOULD return NFS4ERR_INVAL", run: func(t *T) {
		f := t.openAs(t.session(), "f", "a", nfs4.ShareRead, 0)
		for _, m := range [][2]uint32{{2, 0}, {3, 0}, {1, 1}, {1, 2}} {
			t.want(nfs4.ErrInval, putFH(f.fh), downgrade(f.id, m[0], m[1], new(nfs4.StateIDRes)))
		}
	}},
	{Name: "OPEN_DOWNGRADE to undefined modes", By: "RFC 8881, 18.18.3: MUST reply with NFS4ERR_INVAL", Linux: "NFS4ERR_BADXDR", run: func(t *T) {
		f := t.file("f", "")
		for _, m := range [][2]uint32{{0, 0}, {4, 0}, {3, 4}, {1 << 31, 0}, {1, 1 << 31}} {
			t.want(nfs4.ErrInval, putFH(f.fh), downgrade(f.id, m[0], m[1], new(nfs4.StateIDRes)))
		}
	}},
	{Name: "TEST_STATEID", By: "RFC 8881, 18.48.3", run: func(t *T) {
		f := t.file("f", "")
		now := t.openAs(t.session(), "f", "owner", nfs4.ShareBoth, 0).id
		unknown := now
		unknown.Other[9] ^= 1
		zero := now
		zero.SeqID = 0
		var res seen
		t.want(nfs4.OK, testStateID(&res, now, zero, changed(now, -1), changed(now, 1), unknown,
			nfs4.AnonymousStateID, nfs4.BypassStateID, nfs4.InvalidStateID))
		assert.Equal(t, []nfs4.Status{
			nfs4.OK, nfs4.OK, nfs4.ErrOldStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID,
		}, res.all)
		t.want(nfs4.OK, putFH(f.fh), closeFile(now))
		res = seen{}
		t.want(nfs4.OK, testStateID(&res, now))
		assert.Equal(t, []nfs4.Status{nfs4.ErrBadStateID}, res.all)
		res = seen{}
		t.want(nfs4.OK, testStateID(&res))
		assert.Empty(t, res.all)
	}},
	{Name: "TEST_STATEID of another client's stateid", By: "RFC 8881, 18.48.3: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.file("f", "")
		var res seen
		t.client().session().ready().want(nfs4.OK, testStateID(&res, f.id))
		assert.Equal(t, []nfs4.Status{nfs4.ErrBadStateID}, res.all)
	}},
	{Name: "TEST_STATEID of more stateids than the message has", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", run: func(t *T) {
		for _, b := range []raw{{0, 0, 0, 2, 0, 0, 0, 1}, {0xff, 0xff, 0xff, 0xff}, {0x10, 0, 0, 0}} {
			t.want(nfs4.ErrBadXDR, op{nfs4.OpTestStateID, &b, status()})
		}
		t.want(nfs4.OK, putRootFH())
	}},
	{Name: "FREE_STATEID", By: "RFC 8881, 18.38.3: NFS4ERR_LOCKS_HELD", run: func(t *T) {
		f := t.file("f", "")
		t.want(nfs4.ErrLocksHeld, freeStateID(f.id))
		t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
		t.want(nfs4.ErrBadStateID, freeStateID(f.id))
		t.want(nfs4.ErrBadStateID, freeStateID(nfs4.AnonymousStateID))
		g := t.file("g", "")
		t.client().session().ready().want(nfs4.ErrBadStateID, freeStateID(g.id))
	}},
	{Name: "FREE_STATEID of the current stateid", By: "RFC 8881, 16.2.3.1.2, 18.38.3", run: func(t *T) {
		a := creating(openName("f", "a", 3, 0), nfs4.Unchecked, mode(0o644))
		t.want(nfs4.ErrLocksHeld, putFH(t.dir()), open(a, new(nfs4.OpenRes)), freeStateID(nfs4.CurrentStateID))
	}},
}
