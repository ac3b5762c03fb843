package nfs4test

import (
	"bytes"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// shareModes are more scenarios for OPEN, OPEN_DOWNGRADE and CLOSE, and for open
// and lock stateids.
var shareModes = []Scenario{
	{Name: "OPEN that creates by a filehandle", By: "RFC 8881, 18.16.3: with OPEN4_CREATE the claim MUST have a name", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, claim := range []nfs4.Claim{nfs4.ClaimFH, nfs4.ClaimPrevious, nfs4.ClaimDelegCurFH} {
			for _, how := range []nfs4.CreateMode{nfs4.Unchecked, nfs4.Guarded, nfs4.Exclusive1} {
				a := withCreate(openName("", "a", nfs4.ShareRead, 0), how, nfs4.Attrs{})
				a.Claim = claim
				t.expectStatus(nfs4.ErrInval, putFH(fh), openOp(a, new(nfs4.OpenRes)))
			}
		}
	}},
	{Name: "OPEN by the filehandle of a directory", By: "RFC 8881, 18.16.4, 15.1.2.3: NFS4ERR_ISDIR", run: func(t *T) {
		t.expectStatus(nfs4.ErrIsDir, putFH(t.ownDir()), openOp(openFH("a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		t.expectStatus(nfs4.ErrIsDir, putRootFH(), openOp(openFH("a", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
	}},
	{Name: "OPEN by two names of a file", By: "RFC 8881, 9.9: an open-owner has one open of a file", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("g"))
		one := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead, 0))
		two := t.tryOpen(t.ownSession(), nfs4.OK, openName("g", "a", nfs4.ShareWrite, 0))
		assert.Equal(t, shiftSeqID(one.StateID, 1), two.StateID)
		t.expectStatus(nfs4.OK, putFH(fh), closeFile(two.StateID))
	}},
	{Name: "OPEN of a file that was renamed", By: "RFC 8881, 8.2.1: a stateid is of the file, not of a name", run: func(t *T) {
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), saveFH(), renameOp("f", "g"))
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, 4, new(nfs4.ReadRes)))
		again := t.openAs(t.ownSession(), "g", "owner", nfs4.ShareBoth, 0)
		assert.Equal(t, shiftSeqID(f.id, 1), again.id)
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(again.id))
	}},
	{Name: "OPEN of a name that another file has got", By: "RFC 8881, 8.2.1", run: func(t *T) {
		f := t.newFile("f", "old")
		t.newFile("g", "new")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), saveFH(), renameOp("g", "f"))
		next := t.openAs(t.ownSession(), "f", "b", nfs4.ShareBoth, 0)
		assert.NotEqual(t, f.fh, next.fh)
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(next.fh), readOp(next.id, 0, 10, &res))
		assert.Equal(t, "new", string(res.Data))
	}},
	{Name: "OPEN by owners of each length", By: "RFC 8881, 18.16.1: owner<NFS4_OPAQUE_LIMIT>", Linux: "an owner may be longer", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		ids := map[[nfs4.OtherSize]byte]bool{}
		for _, n := range []int{0, 1, 3, 4, 100, nfs4.OpaqueLimit} {
			var res nfs4.OpenRes
			t.expectStatus(nfs4.OK, putFH(fh), openOp(openFH(string(bytes.Repeat([]byte{0xff}, n)), nfs4.ShareRead, 0), &res))
			ids[res.StateID.Other] = true
		}
		assert.Len(t, ids, 6)
		t.expectStatus(nfs4.ErrBadXDR, putFH(fh), openOp(openFH(string(make([]byte, nfs4.OpaqueLimit+1)), nfs4.ShareRead, 0), new(nfs4.OpenRes)))
	}},
	{Name: "deny modes add up over the OPENs of an owner", By: "RFC 8881, 18.16.3: the modes are ORed together", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "a", nfs4.ShareRead, 0)
		t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead, nfs4.ShareWrite))
		s := t.newClient().newSession().completeReclaim()
		s.expectStatus(nfs4.ErrShareDenied, putFH(f.fh), openOp(openFH("b", nfs4.ShareWrite, 0), new(nfs4.OpenRes)))
		s.expectStatus(nfs4.OK, putFH(f.fh), openOp(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)), closeCurrentOp())
		t.expectStatus(nfs4.OK, putFH(f.fh), downgradeOp(shiftSeqID(f.id, 1), nfs4.ShareRead, 0, new(nfs4.StateIDRes)))
		s.expectStatus(nfs4.OK, putFH(f.fh), openOp(openFH("b", nfs4.ShareWrite, 0), new(nfs4.OpenRes)), closeCurrentOp())
	}},
	{Name: "CLOSE lets others in", By: "RFC 8881, 18.2.3: it releases share reservations", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		s := t.newClient().newSession().completeReclaim()
		s.expectStatus(nfs4.ErrShareDenied, putFH(f.fh), openOp(openFH("b", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
		s.expectStatus(nfs4.OK, putFH(f.fh), openOp(openFH("b", nfs4.ShareBoth, nfs4.ShareBoth), new(nfs4.OpenRes)))
	}},
	{Name: "OPEN that is denied changes nothing", By: "RFC 8881, 18.16.3: NFS4ERR_SHARE_DENIED", Linux: "NFS4ERR_INVAL if it truncates and is for reading", run: func(t *T) {
		f := t.newFile("f", "some data")
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
		denier := t.openAs(t.ownSession(), "f", "denier", nfs4.ShareRead, nfs4.ShareWrite)
		w := t.newClient().newSession().completeReclaim()
		t.tryOpen(w, nfs4.ErrShareDenied, withCreate(openName("f", "b", nfs4.ShareBoth, 0), nfs4.Unchecked, sizeAttrs(0)))
		t.tryOpen(w, nfs4.ErrShareDenied, withCreate(openName("f", "b", nfs4.ShareRead, 0), nfs4.Unchecked, sizeAttrs(0)))
		assert.EqualValues(t, 9, t.getAttrs(f.fh, nfs4.AttrSize).Size)
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(denier.id))
		res := t.tryOpen(w, nfs4.OK, openName("f", "b", nfs4.ShareBoth, 0))
		assert.EqualValues(t, 1, res.StateID.SeqID)
	}},
	{Name: "OPEN with EXCLUSIVE4_1 and attributes", By: "RFC 8881, 18.16.3: attrset has those of cva_attrs, and those that keep the verifier", Linux: "attrset has the owner, which is not set", run: func(t *T) {
		can := t.getAttrs(t.ownDir(), nfs4.AttrSuppattrExclCreat).SuppattrExclCreat
		assert.True(t, can.Has(nfs4.AttrMode), "5.8.1.14")
		set := newAttrs(func(a *nfs4.Attrs) { a.Mode, a.Owner, a.OwnerGroup = 0o640, []byte("7"), []byte("8") },
			nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
		if !can.Has(nfs4.AttrOwner) || !can.Has(nfs4.AttrOwnerGroup) {
			set = modeAttrs(0o640)
		}
		res := t.tryOpen(t.ownSession(), nfs4.OK, exclusiveOpen(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Exclusive1, exclusiveVerf, set))
		assert.Equal(t, set.Mask, res.AttrSet.And(set.Mask))
		var attr nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"), getAttr(&attr, nfs4.AttrMode, nfs4.AttrOwner))
		assert.EqualValues(t, 0o640, attr.Attrs.Mode)
		if set.Mask.Has(nfs4.AttrOwner) {
			assert.Equal(t, "7", string(attr.Attrs.Owner))
		}
	}},
	{Name: "OPEN creates with a size, an owner and times", By: "RFC 8881, 18.16.3: the initial attributes", run: func(t *T) {
		at := nfs4.Time{Sec: 1_000_000_000}
		set := newAttrs(func(a *nfs4.Attrs) {
			a.Size, a.Mode, a.Owner = 100, 0o604, []byte("7")
			a.TimeModifySet = nfs4.SetTime{Client: true, Time: at}
		}, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModifySet)
		res := t.tryOpen(t.ownSession(), nfs4.OK, withCreate(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, set))
		assert.Equal(t, set.Mask, res.AttrSet)
		var attr nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"), getAttr(&attr, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModify))
		assert.EqualValues(t, 100, attr.Attrs.Size)
		assert.EqualValues(t, 0o604, attr.Attrs.Mode)
		assert.Equal(t, "7", string(attr.Attrs.Owner))
		assert.Equal(t, at, attr.Attrs.TimeModify)
	}},
	{Name: "the stateid of locks where that of an open is needed", By: "RFC 8881, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		for _, o := range stateChangingOps(l.lockID) {
			t.expectStatus(nfs4.ErrBadStateID, putFH(l.fh), o)
		}
		t.expectStatus(nfs4.ErrBadStateID, putFH(l.fh), op{nfs4.OpLock, &nfs4.LockArgs{
			Type: nfs4.LockRead, Length: 1, New: true, StateID: l.lockID, Owner: nfs4.StateOwner{Owner: []byte("b")},
		}, new(nfs4.LockRes)})
		t.expectStatus(nfs4.ErrBadStateID, putFH(l.fh), op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockRead, Length: 1, StateID: l.id}, new(nfs4.LockRes)})
		t.expectStatus(nfs4.ErrBadStateID, putFH(l.fh), op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: l.id, Length: 1}, new(nfs4.StateIDRes)})
	}},
	{Name: "LOCK by a lock-owner that has locks, with the stateid of the open", By: "RFC 8881, 18.10.3: the client need not have the stateid of the locks", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		had := l.lockID
		l.lockID = nfs4.StateID{}
		l.lockRange(nfs4.OK, nfs4.LockWrite, 20, 10)
		assert.Equal(t, shiftSeqID(had, 1), l.lockID, "8.2.2: one stateid for the owner, the open and the file")
	}},
	{Name: "one name for an open-owner and a lock-owner", By: "RFC 8881, 9.1.1: they remain separate", run: func(t *T) {
		t.awaitGraceEnd()
		f := t.newFile("f", "") // opened by "owner"
		l := &locker{openedFile: f, owner: "owner"}
		l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		assert.NotEqual(t, f.id.Other, l.lockID.Other)
		l.unlockRange(nfs4.OK, 0, 10)
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "LOCKU with each type", By: "RFC 8881, 18.12.3: any legal value has no effect", run: func(t *T) {
		l := t.newLocker(t.ownSession(), "f", "a")
		for kind := nfs4.LockRead; kind <= nfs4.LockWriteWait; kind++ {
			l.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
			var res nfs4.StateIDRes
			t.expectStatus(nfs4.OK, putFH(l.fh), op{nfs4.OpLockU, &nfs4.LockUArgs{Type: kind, SeqID: 77, StateID: l.lockID, Length: 10}, &res})
			l.lockID = res.StateID
		}
		t.expectStatus(nfs4.ErrBadXDR, putFH(l.fh), op{nfs4.OpLockU, &nfs4.LockUArgs{Type: 0, StateID: l.lockID, Length: 10}, new(nfs4.StateIDRes)})
	}},
	{Name: "locks of one owner by two opens", By: "RFC 8881, 9.5: the last LOCK or LOCKU counts, whatever the stateid", run: func(t *T) {
		one := t.newLocker(t.ownSession(), "f", "a")
		two := &locker{openedFile: t.openAs(t.ownSession(), "f", "another open", nfs4.ShareBoth, 0), owner: "a"}
		one.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		two.lockRange(nfs4.OK, nfs4.LockWrite, 5, 10)
		other := t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		other.testRange(nfs4.ErrDenied, nfs4.LockRead, 0, 5)
		other.testRange(nfs4.ErrDenied, nfs4.LockRead, 10, 5)
		one.lockRange(nfs4.OK, nfs4.LockWrite, 40, 10)
		assert.EqualValues(t, 2, one.lockID.SeqID, "the seqid of another stateid MUST NOT be incremented")
		two.unlockRange(nfs4.OK, 0, toEOF)
		other.testRange(nfs4.OK, nfs4.LockWrite, 0, toEOF)
	}},
	{Name: "the client of a lock that is in the way", By: "RFC 8881, 18.10.3: it MUST be the actual client ID", run: func(t *T) {
		holder, other := t.newLocker(t.ownSession(), "f", "holder"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "other")
		holder.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		assert.Equal(t, t.ownSession().client.id, other.testRange(nfs4.ErrDenied, nfs4.LockRead, 0, 1).Owner.ClientID)
		assert.Equal(t, t.ownSession().client.id, other.lockRange(nfs4.ErrDenied, nfs4.LockRead, 0, 1).Denied.Owner.ClientID)
	}},
	{Name: "LOCKT makes no state", By: "RFC 8881, 18.11.3", run: func(t *T) {
		a, b := t.newLocker(t.ownSession(), "f", "a"), t.newLocker(t.newClient().newSession().completeReclaim(), "f", "b")
		a.testRange(nfs4.OK, nfs4.LockWrite, 0, toEOF)
		b.lockRange(nfs4.OK, nfs4.LockWrite, 0, toEOF)
	}},
	{Name: "LOCKT without an open", By: "RFC 8881, 18.11.3: it needs no stateid", run: func(t *T) {
		holder := t.newLocker(t.ownSession(), "f", "holder")
		holder.lockRange(nfs4.OK, nfs4.LockWrite, 0, 10)
		other := &locker{openedFile: &openedFile{fh: holder.fh, s: t.newClient().newSession().completeReclaim()}, owner: "x"}
		other.testRange(nfs4.ErrDenied, nfs4.LockRead, 0, 1)
		other.testRange(nfs4.OK, nfs4.LockWrite, 10, 1)
	}},
}
