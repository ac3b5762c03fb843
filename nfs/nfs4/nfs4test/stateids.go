package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// shiftSeqID returns a stateid whose seqid differs by the given amount.
func shiftSeqID(id nfs4.StateID, by int) nfs4.StateID {
	id.SeqID += uint32(by)
	return id
}

// dataOps returns operations that access data with a stateid.
func dataOps(id nfs4.StateID) []op {
	return []op{
		readOp(id, 0, 10, new(nfs4.ReadRes)), writeOp(id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)), setAttr(id, sizeAttrs(10)),
	}
}

// stateChangingOps returns operations that change the state behind a stateid.
func stateChangingOps(id nfs4.StateID) []op {
	return []op{closeFile(id), downgradeOp(id, nfs4.ShareRead, 0, new(nfs4.StateIDRes))}
}

// stateids are scenarios for stateids, CLOSE, OPEN_DOWNGRADE, TEST_STATEID and
// FREE_STATEID.
var stateids = []Scenario{
	{Name: "CLOSE", By: "RFC 8881, 18.2.4: SHOULD return the invalid stateid", run: func(t *T) {
		f := t.newFile("f", "")
		o := closeFile(f.id)
		t.expectStatus(nfs4.OK, putFH(f.fh), o)
		assert.Equal(t, nfs4.InvalidStateID, o.res.(*nfs4.StateIDRes).StateID)
		for _, o := range append(dataOps(f.id), stateChangingOps(f.id)...) {
			t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), o)
		}
	}},
	{Name: "a seqid of 0", By: "RFC 8881, 8.2.2: it means the current one", run: func(t *T) {
		f := t.newFile("f", "")
		t.openAs(t.ownSession(), "f", "owner", nfs4.ShareBoth, 0)
		id := f.id
		id.SeqID = 0
		for _, o := range dataOps(id) {
			t.expectStatus(nfs4.OK, putFH(f.fh), o)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(id))
	}},
	{Name: "old and future seqids", By: "RFC 8881, 8.2.2, 8.2.4: NFS4ERR_OLD_STATEID, NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.newFile("f", "")
		now := t.openAs(t.ownSession(), "f", "owner", nfs4.ShareBoth, 0).id
		for _, o := range append(dataOps(shiftSeqID(now, -1)), stateChangingOps(shiftSeqID(now, -1))...) {
			t.expectStatus(nfs4.ErrOldStateID, putFH(f.fh), o)
		}
		for _, o := range append(dataOps(shiftSeqID(now, 1)), stateChangingOps(shiftSeqID(now, 100))...) {
			t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), o)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(now))
	}},
	{Name: "stateids that the server never gave", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.newFile("f", "")
		for _, at := range []int{0, 3, 5, 7, 8, 11} {
			id := f.id
			id.Other[at] ^= 0x41
			for _, o := range append(dataOps(id), stateChangingOps(id)...) {
				t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), o)
			}
		}
	}},
	{Name: "the stateid of another client", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.newFile("f", "")
		s := t.newClient().newSession().completeReclaim()
		for _, o := range append(dataOps(f.id), stateChangingOps(f.id)...) {
			s.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), o)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "the stateid of another file", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f, g := t.newFile("f", ""), t.newFile("g", "")
		for _, o := range append(dataOps(f.id), stateChangingOps(f.id)...) {
			t.expectStatus(nfs4.ErrBadStateID, putFH(g.fh), o)
		}
	}},
	{Name: "special stateids that are not allowed", By: "RFC 8881, 8.2.3: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.newFile("f", "")
		for _, id := range []nfs4.StateID{nfs4.AnonymousStateID, nfs4.BypassStateID, nfs4.InvalidStateID, nfs4.CurrentStateID} {
			for _, o := range stateChangingOps(id) {
				t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), o)
			}
		}
		other := nfs4.StateID{SeqID: 5}
		ones := nfs4.BypassStateID
		ones.SeqID = 0
		for _, id := range []nfs4.StateID{nfs4.InvalidStateID, nfs4.CurrentStateID, other, ones} {
			for _, o := range dataOps(id) {
				t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), o)
			}
		}
	}},
	{Name: "special stateids", By: "RFC 8881, 8.2.3", run: func(t *T) {
		f := t.newFile("f", "some data")
		for _, id := range []nfs4.StateID{nfs4.AnonymousStateID, nfs4.BypassStateID} {
			for _, o := range dataOps(id) {
				t.expectStatus(nfs4.OK, putFH(f.fh), o)
			}
		}
	}},
	{Name: "special stateids and deny modes", By: "RFC 8881, 8.2.3, 9.7: NFS4ERR_LOCKED", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "owner", nfs4.ShareBoth, nfs4.ShareBoth)
		for _, s := range []*session{t.ownSession(), t.newClient().newSession().completeReclaim()} {
			s.expectStatus(nfs4.ErrLocked, putFH(f.fh), readOp(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)))
			s.expectStatus(nfs4.ErrLocked, putFH(f.fh), writeOp(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
			s.expectStatus(nfs4.ErrLocked, putFH(f.fh), writeOp(nfs4.BypassStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
			s.expectOneOf([]nfs4.Status{nfs4.OK, nfs4.ErrLocked}, putFH(f.fh), readOp(nfs4.BypassStateID, 0, 1, new(nfs4.ReadRes)))
		}
	}},
	{Name: "the mode of an open", By: "RFC 8881, 15.1.8.8: NFS4ERR_OPENMODE", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		r := t.openAs(t.ownSession(), "f", "reader", nfs4.ShareRead, 0)
		t.expectStatus(nfs4.OK, putFH(r.fh), readOp(r.id, 0, 1, new(nfs4.ReadRes)))
		t.expectStatus(nfs4.ErrOpenMode, putFH(r.fh), writeOp(r.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		w := t.openAs(t.ownSession(), "f", "writer", nfs4.ShareWrite, 0)
		t.expectStatus(nfs4.OK, putFH(w.fh), writeOp(w.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		t.expectOneOf([]nfs4.Status{nfs4.OK, nfs4.ErrOpenMode}, putFH(w.fh), readOp(w.id, 0, 1, new(nfs4.ReadRes))) // 9.1.2: it MAY be allowed
	}},
	{Name: "the current stateid moves with the filehandle", By: "RFC 8881, 16.2.3.1.2", run: func(t *T) {
		a := openName("f", "a", 3, 0)
		make := openOp(withCreate(a, nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes))
		end := closeFile(nfs4.StateID{}).withCurrentStateID()
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), make, saveFH(), putRootFH(), restoreFH(), end)
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), make, putFH(t.ownDir()), lookupOp("f"), end)
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), lookupOp("f"), end)
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), lookupOp("f"), readOp(nfs4.StateID{}, 0, 1, new(nfs4.ReadRes)).withCurrentStateID())
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), make, end)
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), make, end, closeFile(nfs4.StateID{}).withCurrentStateID())
	}},
	{Name: "OPEN_DOWNGRADE", By: "RFC 8881, 18.18.3", run: func(t *T) {
		f := t.newFile("f", "")
		t.openAs(t.ownSession(), "f", "owner", nfs4.ShareRead, 0)
		id := shiftSeqID(f.id, 1)
		var res nfs4.StateIDRes
		t.expectStatus(nfs4.OK, putFH(f.fh), downgradeOp(id, nfs4.ShareRead, 0, &res))
		assert.Equal(t, shiftSeqID(id, 1), res.StateID)
		t.expectStatus(nfs4.ErrOpenMode, putFH(f.fh), writeOp(res.StateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(res.StateID, 0, 1, new(nfs4.ReadRes)))
		t.expectStatus(nfs4.ErrOldStateID, putFH(f.fh), closeFile(id))
	}},
	{Name: "OPEN_DOWNGRADE lets others in", By: "RFC 8881, 18.18.3", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		t.openAs(t.newClient().newSession().completeReclaim(), "other", "b", nfs4.ShareRead, 0)
		s := t.newClient().newSession().completeReclaim()
		s.expectStatus(nfs4.ErrShareDenied, putFH(f.fh), openOp(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		g := t.openAs(t.ownSession(), "g", "a", nfs4.ShareRead, 0)
		t.expectStatus(nfs4.OK, putFH(g.fh), closeFile(g.id))
	}},
	{Name: "OPEN_DOWNGRADE to modes that were not opened", By: "RFC 8881, 18.18.3: SHOULD return NFS4ERR_INVAL", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "a", nfs4.ShareRead, 0)
		for _, m := range [][2]uint32{{2, 0}, {3, 0}, {1, 1}, {1, 2}} {
			t.expectStatus(nfs4.ErrInval, putFH(f.fh), downgradeOp(f.id, m[0], m[1], new(nfs4.StateIDRes)))
		}
	}},
	{Name: "OPEN_DOWNGRADE to undefined modes", By: "RFC 8881, 18.18.3: MUST reply with NFS4ERR_INVAL", Linux: "NFS4ERR_BADXDR", run: func(t *T) {
		f := t.newFile("f", "")
		for _, m := range [][2]uint32{{0, 0}, {4, 0}, {3, 4}, {1 << 31, 0}, {1, 1 << 31}} {
			t.expectStatus(nfs4.ErrInval, putFH(f.fh), downgradeOp(f.id, m[0], m[1], new(nfs4.StateIDRes)))
		}
	}},
	{Name: "TEST_STATEID", By: "RFC 8881, 18.48.3", run: func(t *T) {
		f := t.newFile("f", "")
		now := t.openAs(t.ownSession(), "f", "owner", nfs4.ShareBoth, 0).id
		unknown := now
		unknown.Other[9] ^= 1
		zero := now
		zero.SeqID = 0
		var res testedStateIDs
		t.expectStatus(nfs4.OK, testStateID(&res, now, zero, shiftSeqID(now, -1), shiftSeqID(now, 1), unknown,
			nfs4.AnonymousStateID, nfs4.BypassStateID, nfs4.InvalidStateID))
		assert.Equal(t, []nfs4.Status{
			nfs4.OK, nfs4.OK, nfs4.ErrOldStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID,
		}, res.statuses)
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(now))
		res = testedStateIDs{}
		t.expectStatus(nfs4.OK, testStateID(&res, now))
		assert.Equal(t, []nfs4.Status{nfs4.ErrBadStateID}, res.statuses)
		res = testedStateIDs{}
		t.expectStatus(nfs4.OK, testStateID(&res))
		assert.Empty(t, res.statuses)
	}},
	{Name: "TEST_STATEID of another client's stateid", By: "RFC 8881, 18.48.3: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f := t.newFile("f", "")
		var res testedStateIDs
		t.newClient().newSession().completeReclaim().expectStatus(nfs4.OK, testStateID(&res, f.id))
		assert.Equal(t, []nfs4.Status{nfs4.ErrBadStateID}, res.statuses)
	}},
	{Name: "TEST_STATEID of more stateids than the message has", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", run: func(t *T) {
		for _, b := range []raw{{0, 0, 0, 2, 0, 0, 0, 1}, {0xff, 0xff, 0xff, 0xff}, {0x10, 0, 0, 0}} {
			t.expectStatus(nfs4.ErrBadXDR, op{nfs4.OpTestStateID, &b, statusRes()})
		}
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "FREE_STATEID", By: "RFC 8881, 18.38.3: NFS4ERR_LOCKS_HELD", run: func(t *T) {
		f := t.newFile("f", "")
		t.expectStatus(nfs4.ErrLocksHeld, freeStateID(f.id))
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
		t.expectStatus(nfs4.ErrBadStateID, freeStateID(f.id))
		t.expectStatus(nfs4.ErrBadStateID, freeStateID(nfs4.AnonymousStateID))
		g := t.newFile("g", "")
		t.newClient().newSession().completeReclaim().expectStatus(nfs4.ErrBadStateID, freeStateID(g.id))
	}},
	{Name: "FREE_STATEID of the current stateid", By: "RFC 8881, 16.2.3.1.2, 18.38.3", run: func(t *T) {
		a := withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644))
		t.expectStatus(nfs4.ErrLocksHeld, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)), freeStateID(nfs4.CurrentStateID))
	}},
}
