package nfs4test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// retries40 are scenarios for retries that the server answers from owners'
// saved replies.
var retries40 = []Scenario{
	{Name: "OPEN that is repeated", By: "RFC 7530, 9.1.7: the reply is kept for the owner; the rest of the COMPOUND is executed", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		n := o.nextSeqID()
		var one, two nfs4.OpenRes
		var fh nfs4.HandleRes
		var size nfs4.GetAttrRes
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(n, openOrCreate("g", "", nfs4.ShareBoth, 0), &one), getFH(&fh))
		made := slices.Clone(fh.Object)
		o.expectStatus(nfs4.OK, putFH(made), writeOp(one.StateID, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)))
		for range 100 {
			o.expectStatus(nfs4.OK, putFH(t.ownDir()), getAttr(&size, nfs4.AttrType)) // others make no difference
		}
		t.dial().expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(n, openOrCreate("g", "", nfs4.ShareBoth, 0), &two), getFH(&fh), getAttr(&size, nfs4.AttrSize))
		assert.Equal(t, one, two)
		assert.Equal(t, made, fh.Object)
		assert.EqualValues(t, 4, size.Attrs.Size)
		o.expectStatus(nfs4.OK, putFH(made), readOp(two.StateID, 0, 1, new(nfs4.ReadRes)))
	}},
	{Name: "LOCK that was denied is repeated", By: "RFC 7530, 9.1.7: errors are kept too", run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		o, other := c.newOwner("a", "f", 10, 0), t.newClient40().newOwner("b", "f", 10, 0)
		var held nfs4.LockRes
		other.expectStatus(nfs4.OK, putFH(other.fh), other.lockOp(other.nextSeqID(), "l", 1, 0, 10, &held))
		n := o.nextSeqID()
		var one, two nfs4.LockRes
		o.expectStatus(nfs4.ErrDenied, putFH(o.fh), o.lockOp(n, "l", 1, 5, 1, &one))
		assert.Equal(t, nfs4.StateOwner{ClientID: other.client.id, Owner: []byte("l")}, one.Denied.Owner)
		other.expectStatus(nfs4.OK, putFH(other.fh), unlockOp(held.StateID, 2, 0, 10, new(nfs4.StateIDRes)))
		t.dial().expectStatus(nfs4.ErrDenied, putFH(o.fh), o.lockOp(n, "l", 1, 5, 1, &two))
		assert.Equal(t, one, two)
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 1, 5, 1, &two))
	}},
	{Name: "CLOSE that is repeated", By: "RFC 7530, 9.10.1: the stateid is remembered until the owner's next operation", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		n := o.nextSeqID()
		one := o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(n, new(nfs4.StateIDRes)))
		two := t.dial().expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(n, new(nfs4.StateIDRes)))
		assert.Equal(t, one.raw, two.raw)
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), readOp(o.id, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		rep := o.callCompound(putFH(o.fh), o.closeOp(n, new(nfs4.StateIDRes)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrBadSeqID}, rep.status)
	}},
	{Name: "RELEASE_LOCKOWNER", By: "RFC 7530, 16.37.4: NFS4ERR_LOCKS_HELD, or all of the lock-owner is forgotten", run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		o := c.newOwner("a", "f", 10, 0)
		var locked nfs4.LockRes
		var res nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 5, 0, 10, &locked))
		c.expectStatus(nfs4.ErrLocksHeld, releaseLockOwner(c.id, "l"))
		o.expectStatus(nfs4.OK, putFH(o.fh), unlockOp(locked.StateID, 6, 0, 10, &res))
		assert.EqualValues(t, 2, res.StateID.SeqID, "9.1.4.2")
		o.expectStatus(nfs4.OK, putFH(o.fh), relockOp(res.StateID, 7, 0, 10, &locked)) // 9.1.4.4: it stays valid without locks
		o.expectStatus(nfs4.OK, putFH(o.fh), unlockOp(locked.StateID, 8, 0, toEOF, &res))
		c.expectStatus(nfs4.OK, releaseLockOwner(c.id, "l"))
		c.expectStatus(nfs4.OK, releaseLockOwner(c.id, "nobody"))
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), relockOp(res.StateID, 9, 0, 10, &locked))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 999, 0, 10, &locked))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), &res))
		c.expectStatus(nfs4.OK, releaseLockOwner(c.id, "l"))
	}},
}

// stateids40 are scenarios for NFSv4.0 stateids.
var stateids40 = []Scenario{
	{Name: "seqids of stateids", By: "RFC 7530, 9.1.4.4: a later one is NFS4ERR_BAD_STATEID, an earlier one NFS4ERR_OLD_STATEID, and so is 0", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		var res nfs4.OpenRes
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", nfs4.ShareRead, 0), &res))
		assert.Equal(t, o.id.Other, res.StateID.Other, "9.1.4.1, 9.11")
		assert.Equal(t, o.id.SeqID+1, res.StateID.SeqID, "2.2.16")
		for seqid, want := range map[uint32]nfs4.Status{
			res.StateID.SeqID: nfs4.OK, res.StateID.SeqID - 1: nfs4.ErrOldStateID, res.StateID.SeqID + 1: nfs4.ErrBadStateID, 0: nfs4.ErrOldStateID,
		} {
			id := nfs4.StateID{SeqID: seqid, Other: o.id.Other}
			o.expectStatus(want, putFH(o.fh), readOp(id, 0, 1, new(nfs4.ReadRes)))
			o.expectStatus(want, putFH(o.fh), writeOp(id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
			o.expectStatus(want, putFH(o.fh), setAttr(id, newAttrs(func(a *nfs4.Attrs) { a.Size = 3 }, nfs4.AttrSize)))
		}
	}},
	{Name: "special stateids of other versions", By: "RFC 7530, 9.1.4.3: NFS4ERR_BAD_STATEID", Linux: "NFS4ERR_STALE_STATEID", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		ones := nfs4.BypassStateID.Other
		o.expectStatus(nfs4.OK, putFH(o.fh), readOp(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), readOp(nfs4.BypassStateID, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), setAttr(nfs4.AnonymousStateID, modeAttrs(0o600))) // 9.1.4.6
		for _, id := range []nfs4.StateID{nfs4.CurrentStateID, nfs4.InvalidStateID, {SeqID: 0, Other: ones}, {SeqID: 7, Other: ones}} {
			o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), readOp(id, 0, 1, new(nfs4.ReadRes)))
			o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), writeOp(id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
			bad := *o
			bad.id = id
			o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), bad.closeOp(o.seq+1, new(nfs4.StateIDRes)))
		}
		var res nfs4.OpenRes
		o.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", nfs4.ShareRead, 0), &res), readOp(nfs4.CurrentStateID, 0, 1, new(nfs4.ReadRes)))
	}},
	{Name: "stateids of other kinds and files", By: "RFC 7530, 9.1.4, 9.1.4.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		o, g := c.newOwner("a", "f", 10, 0), c.newOwner("b", "g", 10, 0)
		var locked nfs4.LockRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 5, 0, 10, &locked))
		wrong := *o
		wrong.id = locked.StateID
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), wrong.closeOp(o.seq+1, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), wrong.downgradeOp(o.seq+1, nfs4.ShareRead, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), openConfirmOp(locked.StateID, o.seq+1, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), unlockOp(o.id, 6, 0, 1, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), relockOp(o.id, 6, 0, 1, new(nfs4.LockRes)))
		for _, id := range []nfs4.StateID{o.id, locked.StateID} {
			o.expectStatus(nfs4.OK, putFH(o.fh), readOp(id, 0, 1, new(nfs4.ReadRes)))
			o.expectStatus(nfs4.ErrBadStateID, putFH(g.fh), readOp(id, 0, 1, new(nfs4.ReadRes)))
			o.expectStatus(nfs4.ErrBadStateID, putFH(g.fh), writeOp(id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		}
		o.expectStatus(nfs4.ErrBadStateID, putFH(g.fh), o.closeOp(o.seq+1, new(nfs4.StateIDRes)))
	}},
	{Name: "stateids of an earlier server", By: "RFC 7530, 9.1.4.4: NFS4ERR_STALE_STATEID", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		stale := *o
		stale.id.Other[0] ^= 0x40 // the server's boot time, as in Linux's
		o.expectStatus(nfs4.ErrStaleStateID, putFH(o.fh), readOp(stale.id, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.ErrStaleStateID, putFH(o.fh), stale.closeOp(o.seq+1, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
	}},
	{Name: "share reservations of version 4.0", By: "RFC 7530, 9.9, 16.16.5: NFS4ERR_SHARE_DENIED, also for the same owner", run: func(t *T) {
		other := t.newClient40()
		first := t.newClient40()
		for m := range uint32(12) {
			share, deny := m/4+1, m%4
			name := fmt.Sprint("f", m)
			h := first.newOwner(name, name, 1, 0)
			var res nfs4.StateIDRes
			h.expectStatus(nfs4.OK, putFH(h.fh), h.closeOp(h.nextSeqID(), &res))
			h.expectStatus(nfs4.OK, putFH(t.ownDir()), h.openOp(h.nextSeqID(), openName(name, "", share, deny), new(nfs4.OpenRes)))
			for n := range uint32(12) {
				want := nfs4.OK
				if n%4&share != 0 || deny&(n/4+1) != 0 {
					want = nfs4.ErrShareDenied
				}
				x := other.newOwner(fmt.Sprint(m, n), "own", 1, 0)
				var opened nfs4.OpenRes
				x.expectStatus(want, putFH(t.ownDir()), x.openOp(x.nextSeqID(), openName(name, "", n/4+1, n%4), &opened))
				if want == nfs4.OK {
					x.id = opened.StateID
					x.expectStatus(nfs4.OK, putFH(h.fh), x.closeOp(x.nextSeqID(), new(nfs4.StateIDRes)))
				} else {
					h.expectStatus(want, putFH(t.ownDir()), h.openOp(h.nextSeqID(), openName(name, "", n/4+1, n%4), &opened))
				}
			}
			want := nfs4.OK
			if deny&nfs4.ShareRead != 0 {
				want = nfs4.ErrLocked // 9.1.4.3
			}
			other.expectStatus(want, putFH(h.fh), readOp(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)))
		}
	}, Linux: "deny modes do not keep out reads without an open"},
	{Name: "OPEN_DOWNGRADE in version 4.0", By: "RFC 7530, 16.19.4: the union of some OPENs; 9.11: the seqid moves in any case", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		o.expectStatus(nfs4.ErrInval, putFH(o.fh), o.downgradeOp(o.nextSeqID(), nfs4.ShareRead, new(nfs4.StateIDRes)))
		var opened nfs4.OpenRes
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", nfs4.ShareRead, 0), &opened))
		o.id = opened.StateID
		var res nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.downgradeOp(o.nextSeqID(), nfs4.ShareRead, &res))
		assert.Equal(t, nfs4.StateID{SeqID: o.id.SeqID + 1, Other: o.id.Other}, res.StateID)
		o.id = res.StateID
		o.expectStatus(nfs4.ErrOpenMode, putFH(o.fh), writeOp(o.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
	}},
}

// plainOps are other scenarios in which NFSv4.0 differs.
var plainOps = []Scenario{
	{Name: "operations that version 4.0 does not have", By: "RFC 7530, 15.2.4: OP_ILLEGAL", run: func(t *T) {
		c := t.dial()
		for _, num := range []nfs4.Op{0, 2, nfs4.OpBackchannelCtl, nfs4.OpSequence, nfs4.OpExchangeID, nfs4.OpReclaimComplete, nfs4.OpGetXattr, 76, nfs4.OpIllegal, ^nfs4.Op(0)} {
			rep := c.callCompound(putRootFH(), op{num, &void, statusRes()})
			assert.Equal(t, nfs4.ErrOpIllegal, rep.status, num)
			assert.Equal(t, nfs4.OpIllegal, rep.lastOp)
			assert.Equal(t, 2, rep.resultCount)
		}
	}},
	{Name: "operations that are not supported", By: "RFC 7530, 10.2.1: DELEGPURGE, CLAIM_DELEGATE_PREV; 16.17: OPENATTR", run: func(t *T) {
		c := t.newClient40()
		o := c.newOwner("a", "f", 1, 0)
		c.expectStatus(nfs4.ErrNotSupp, op{nfs4.OpDelegPurge, &nfs4.ClientIDArgs{ClientID: c.id}, statusRes()})
		prev := openName("f", "", nfs4.ShareRead, 0)
		prev.Claim = nfs4.ClaimDelegatePrev
		o.expectStatus(nfs4.ErrNotSupp, putFH(t.ownDir()), o.openOp(o.nextSeqID(), prev, new(nfs4.OpenRes)))
		dirs := raw{0, 0, 0, 0}
		c.expectStatus(nfs4.ErrNotSupp, putFH(o.fh), op{nfs4.OpOpenAttr, &dirs, statusRes()})
	}},
	{Name: "the attributes of version 4.0", By: "RFC 7530, 5.8.1.4: 0 to 55; 5.8.1.11: lease_time", run: func(t *T) {
		c := t.dial()
		var res nfs4.GetAttrRes
		c.expectStatus(nfs4.OK, append(t.lookupPathOps(), getAttr(&res, nfs4.AttrSupportedAttrs, nfs4.AttrLeaseTime, nfs4.AttrFHExpireType, nfs4.AttrSuppattrExclCreat, nfs4.AttrXattrSupport, nfs4.AttrChangeAttrType))...)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrLeaseTime, nfs4.AttrFHExpireType), res.Attrs.Mask)
		assert.Zero(t, res.Attrs.SupportedAttrs.Words[1]>>(56-32))
		assert.Zero(t, res.Attrs.SupportedAttrs.Words[2])
		for id := range nfs4.AttrRdattrError + 1 {
			assert.True(t, res.Attrs.SupportedAttrs.Has(id), id)
		}
		assert.EqualValues(t, t.Lease/time.Second, res.Attrs.LeaseTime)
		assert.Equal(t, nfs4.FHPersistent, res.Attrs.FHExpireType)
	}},
	{Name: "SECINFO keeps the current filehandle", By: "RFC 7530, 16.31.4", run: func(t *T) {
		var before, after nfs4.HandleRes
		t.newObject(nfs4.TypeDir, "d")
		t.dial().expectStatus(nfs4.OK, putFH(t.ownDir()), getFH(&before), op{nfs4.OpSecInfo, nameArgs("d"), new(nfs4.SecInfoRes)}, getFH(&after))
		assert.Equal(t, before, after)
	}},
	{Name: "RESTOREFH without a saved filehandle", By: "RFC 7530, 16.29.5: NFS4ERR_RESTOREFH", run: func(t *T) {
		t.dial().expectStatus(nfs4.ErrRestoreFH, putRootFH(), restoreFH())
		t.dial().expectStatus(nfs4.ErrNoFileHandle, putRootFH(), linkOp("l"))
		t.dial().expectStatus(nfs4.ErrNoFileHandle, putRootFH(), renameOp("a", "b"))
	}},
	{Name: "operations on objects of the wrong type", By: "RFC 7530, 13.2, 16.16.5: NFS4ERR_INVAL, ISDIR, NOTDIR or SYMLINK", run: func(t *T) {
		c := t.newClient40()
		o := c.newOwner("a", "f", 1, 0)
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			if kind == nfs4.TypeReg {
				return
			}
			want := []nfs4.Status{nfs4.ErrInval}
			opening := nfs4.ErrSymlink
			switch kind {
			case nfs4.TypeDir:
				want, opening = []nfs4.Status{nfs4.ErrIsDir}, nfs4.ErrIsDir
			case nfs4.TypeLnk:
				want = []nfs4.Status{nfs4.ErrInval, nfs4.ErrSymlink}
			}
			for _, x := range []op{
				readOp(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)), writeOp(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)),
				commitOp(0, 0, new(nfs4.CommitRes)), lockTest(c.id, "l", 0, 1, new(nfs4.LockTRes)),
				setAttr(nfs4.AnonymousStateID, newAttrs(func(a *nfs4.Attrs) { a.Size = 1 }, nfs4.AttrSize)),
			} {
				rep := c.callCompound(putFH(fh), x)
				assert.Contains(t, want, rep.status, "%s of a %s", x.num, name)
			}
			if kind != nfs4.TypeLnk {
				rep := c.callCompound(putFH(fh), readLink(new(nfs4.ReadLinkRes)))
				assert.Contains(t, []nfs4.Status{nfs4.ErrInval, nfs4.ErrIsDir}, rep.status, "READLINK of a %s", name)
			}
			var res nfs4.OpenRes
			o.expectStatus(opening, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("of type "+name, "", nfs4.ShareRead, 0), &res))
		})
	}, Linux: "NFS4ERR_SYMLINK for pipes and devices"},
	{Name: "claims, modes and access of later versions", By: "RFC 7530, 16.16.1, 9.9", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		byFH := openFH("", nfs4.ShareRead, 0)
		rep := o.callCompound(putFH(o.fh), o.openOp(o.seq+1, byFH, new(nfs4.OpenRes)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrBadXDR, nfs4.ErrInval}, rep.status)
		if rep.status == nfs4.ErrInval {
			o.seq++
		}
		rep = o.callCompound(putFH(t.ownDir()), o.openOp(o.seq+1, withCreate(openName("x", "", nfs4.ShareRead, 0), nfs4.Exclusive1, modeAttrs(0o600)), new(nfs4.OpenRes)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrBadXDR, nfs4.ErrInval}, rep.status)
		if rep.status == nfs4.ErrInval {
			o.seq++
		}
		for _, x := range [][2]uint32{{0, 0}, {4, 0}, {1, 4}, {0x101, 0}, {0x10001, 0}, {1, 1 << 31}} {
			o.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", x[0], x[1]), new(nfs4.OpenRes)))
		}
	}, Linux: "NFS4ERR_BADXDR for undefined access"},
	{Name: "OPEN with UNCHECKED4 and with EXCLUSIVE4", By: "RFC 7530, 16.16.5", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 10, 0)
		o.expectStatus(nfs4.OK, putFH(o.fh), writeOp(o.id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)))
		size := func(n uint64) nfs4.Attrs {
			return newAttrs(func(a *nfs4.Attrs) { a.Size, a.Mode = n, 0o400 }, nfs4.AttrSize, nfs4.AttrMode)
		}
		for n, want := range map[uint64]uint64{7: 4, 0: 0} {
			if n == 0 {
				continue
			}
			var res nfs4.OpenRes
			o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), withCreate(openName("f", "", nfs4.ShareBoth, 0), nfs4.Unchecked, size(n)), &res))
			assert.Equal(t, want, t.getAttrs(o.fh, nfs4.AttrSize).Size, "createattrs of a file that exists are ignored")
		}
		var res nfs4.OpenRes
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), withCreate(openName("f", "", nfs4.ShareBoth, 0), nfs4.Unchecked, size(0)), &res))
		got := t.getAttrs(o.fh, nfs4.AttrSize, nfs4.AttrMode)
		assert.Zero(t, got.Size, "but for a size of 0")
		assert.EqualValues(t, 0o666, got.Mode)

		exclusive := openName("x", "", nfs4.ShareBoth, 0)
		exclusive.How, exclusive.Verf = nfs4.Exclusive, nfs4.Verifier{1, 2, 3}
		var one, two nfs4.OpenRes
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), exclusive, &one))
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), exclusive, &two))
		assert.Equal(t, one.StateID.Other, two.StateID.Other)
		exclusive.Verf[0]++
		o.expectStatus(nfs4.ErrExist, putFH(t.ownDir()), o.openOp(o.nextSeqID(), exclusive, &two))
		assert.True(t, one.AttrSet.Has(nfs4.AttrTimeAccessSet) && one.AttrSet.Has(nfs4.AttrTimeModifySet), "attrset has the times that hold the verifier")
	}, Linux: "attrset has time_access and time_modify, not those to set"},
	{Name: "a COMPOUND of too many operations", By: "RFC 7530, 13.1.3.4: NFS4ERR_RESOURCE", run: func(t *T) {
		rep := t.dial().callCompound(slices.Repeat([]op{putRootFH()}, 200)...)
		assert.Equal(t, nfs4.ErrResource, rep.status)
	}},
	{Name: "users of one connection", By: "RFC 7530, 3.1: it carries the calls of many", run: func(t *T) {
		c := t.newClient40()
		one := c.newOwner("of root", "f", 1, 0)
		c.withUID(1000)
		two := c.newOwner("of 1000", "f", 1, 0)
		c.withUID(0)
		one.expectStatus(nfs4.OK, putFH(one.fh), one.closeOp(one.nextSeqID(), new(nfs4.StateIDRes)))
		c.withUID(1000)
		two.expectStatus(nfs4.OK, putFH(two.fh), two.closeOp(two.nextSeqID(), new(nfs4.StateIDRes)))
	}},
	{Name: "names in version 4.0", By: "RFC 7530, 12.7: NFS4ERR_INVAL, BADNAME, BADCHAR", run: func(t *T) {
		c := t.dial()
		c.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), lookupOp(""))
		c.expectStatus(nfs4.ErrBadName, putFH(t.ownDir()), lookupOp("."))
		c.expectStatus(nfs4.ErrBadName, putFH(t.ownDir()), lookupOp(".."))
		c.expectStatus(nfs4.ErrBadChar, putFH(t.ownDir()), lookupOp("a/b"))
		c.expectStatus(nfs4.ErrBadChar, putFH(t.ownDir()), lookupOp("a\x00b"))
		c.expectStatus(nfs4.ErrBadChar, putFH(t.ownDir()), removeOp("a/b"))
		for _, name := range []string{"caf\xff", "caf\u00e9", "cafe\u0301"} {
			t.newObject(nfs4.TypeDir, name) // unchanged bytes
		}
	}, Linux: "NFS4ERR_BADNAME for a slash"},
}

// leases40 are scenarios that wait for leases to expire.
var leases40 = []Scenario{
	{Name: "what renews the lease of version 4.0", By: "RFC 7530, 9.5", Slow: true, run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		o := c.newOwner("a", "f", 10, 0)
		deny := c.newOwner("d", "denied", 10, nfs4.ShareBoth)
		var locked nfs4.LockRes
		var res nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 1, 0, 1, &locked))
		for _, x := range []func() op{
			func() op { return renewOp(c.id) },
			func() op { return readOp(o.id, 0, 1, new(nfs4.ReadRes)) },
			func() op { return writeOp(o.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)) },
			func() op { return setAttr(o.id, modeAttrs(0o666)) },
			func() op { return lockTest(c.id, "l", 0, 1, new(nfs4.LockTRes)) },
			func() op { return releaseLockOwner(c.id, "nobody") },
			func() op { return relockOp(locked.StateID, 2, 0, 1, &locked) },
			func() op { return unlockOp(locked.StateID, 3, 0, 1, &res) },
			func() op { return o.downgradeOp(o.nextSeqID(), nfs4.ShareBoth, &res) },
			func() op { o.id = res.StateID; return o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)) },
		} {
			t.waitForLease(t.Lease * 3 / 5)
			c.expectStatus(nfs4.OK, putFH(o.fh), x())
			t.waitForLease(t.Lease * 3 / 5)
			other := t.newClient40()
			other.expectStatus(nfs4.ErrShareDenied, putFH(t.ownDir()), other.openSeqOp(1, openName("denied", "x", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
			c.expectStatus(nfs4.OK, putFH(deny.fh), renewOp(c.id))
		}
	}},
	{Name: "DELEGPURGE renews the lease of version 4.0", By: "RFC 7530, 9.5: it does so by a valid client ID; 10.2.1: it need not be supported", Slow: true, run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		c.newOwner("d", "denied", 10, nfs4.ShareBoth)
		t.waitForLease(t.Lease * 3 / 5)
		c.expectStatus(nfs4.ErrNotSupp, op{nfs4.OpDelegPurge, &nfs4.ClientIDArgs{ClientID: c.id}, statusRes()})
		t.waitForLease(t.Lease * 3 / 5)
		other := t.newClient40()
		other.expectStatus(nfs4.ErrShareDenied, putFH(t.ownDir()), other.openSeqOp(1, openName("denied", "x", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		c.expectStatus(nfs4.OK, renewOp(c.id))
	}, Linux: "it does not"},
	{Name: "what does not renew the lease of version 4.0", By: "RFC 7530, 9.5, 9.6.3: special stateids and SETCLIENTID do not; then the client has expired", Slow: true, run: func(t *T) {
		c := t.newClient40()
		o := c.newOwner("a", "f", 10, nfs4.ShareWrite)
		t.waitForLease(t.Lease * 3 / 5)
		c.expectStatus(nfs4.OK, putFH(o.fh), readOp(nfs4.BypassStateID, 0, 1, new(nfs4.ReadRes)))
		set := c.setClientID(nfs4.OK)
		c.confirmClientID(nfs4.OK, set.ClientID, set.Confirm)
		t.waitForLease(t.Lease / 2)
		t.newClient40().newOwner("b", "f", 10, nfs4.ShareWrite) // 9.6.3.1: it is expired at the conflict
		c.expectStatus(nfs4.ErrExpired, renewOp(c.id))
		c.expectStatus(nfs4.ErrExpired, putFH(o.fh), readOp(o.id, 0, 1, new(nfs4.ReadRes)))
		c.expectStatus(nfs4.ErrExpired, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
	}, Linux: "SETCLIENTID_CONFIRM renews the lease"},
	{Name: "a silent client that is in nobody's way", By: "RFC 7530, 9.6.3.1: it may keep its locks", Slow: true, run: func(t *T) {
		t.awaitGraceEnd()
		o := t.newClient40().newOwner("a", "f", 10, 0)
		var locked nfs4.LockRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 1, 0, 1, &locked))
		t.waitForLease(2 * t.Lease)
		o.expectStatus(nfs4.OK, putFH(o.fh), unlockOp(locked.StateID, 2, 0, 1, new(nfs4.StateIDRes)))
	}},
}

// exhaustions40 are scenarios for NFSv4.0 clients that use up all resources they can
// get.
var exhaustions40 = []Scenario{
	{Name: "SETCLIENTID without end", By: "RFC 7530, 16.34.5: unconfirmed records are bounded", Heavy: true, run: func(t *T) {
		c := &client{conn: t.dial(), owner: t.uniqueName()}
		name := c.owner
		for i := range 3000 {
			c.owner = fmt.Sprint(name, i)
			c.setClientID(nfs4.OK)
		}
		t.newClient40().newOwner("a", "f", 1, 0)
	}},
	{Name: "open-owners without end", By: "RFC 7530, 16.18.5: those that are not in use are forgotten", Heavy: true, run: func(t *T) {
		c := t.newClient40()
		var fh nfs4.HandleRes
		for i := range 5000 {
			name := fmt.Sprint("owner ", i)
			var res nfs4.OpenRes
			c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(1, openOrCreate("f", name, nfs4.ShareRead, 0), &res), getFH(&fh))
			if i%2 == 0 {
				o := &owner{client: c, name: name, seq: 1, fh: fh.Object}
				var confirmed nfs4.StateIDRes
				c.expectStatus(nfs4.OK, putFH(o.fh), openConfirmOp(res.StateID, o.nextSeqID(), &confirmed))
				o.id = confirmed.StateID
				c.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
			}
		}
		t.newClient40().newOwner("a", "g", 1, 0)
	}},
	{Name: "lock-owners without end", By: "RFC 7530, 16.37.5: they end with the open, or by RELEASE_LOCKOWNER", Heavy: true, run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		for i := range 20 {
			o := c.newOwner(fmt.Sprint("a", i), "f", 1, 0)
			for n := range 200 {
				var locked nfs4.LockRes
				name := fmt.Sprint("l", i, n)
				o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), name, 1, uint64(n), 1, &locked))
				if i%2 == 0 {
					o.expectStatus(nfs4.OK, putFH(o.fh), unlockOp(locked.StateID, 2, 0, toEOF, new(nfs4.StateIDRes)))
					o.expectStatus(nfs4.OK, releaseLockOwner(c.id, name))
				}
			}
			o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
		}
	}},
}
