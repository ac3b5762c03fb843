package nfs4test

import (
	"bytes"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// tryOpen opens a name in the scenario's directory, and checks the status.
func (t *T) tryOpen(s *session, want nfs4.Status, a nfs4.OpenArgs) nfs4.OpenRes {
	var res nfs4.OpenRes
	s.expectStatus(want, putFH(t.ownDir()), openOp(a, &res))
	return res
}

// opens are scenarios for OPEN.
var opens = []Scenario{
	{Name: "OPEN gives a stateid", By: "RFC 8881, 8.2.2: the first seqid is 1; 18.16.3: OPEN4_RESULT_CONFIRM MUST NOT be returned", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		res := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead, 0))
		assert.EqualValues(t, 1, res.StateID.SeqID)
		assert.False(t, res.StateID.Special())
		assert.Zero(t, res.Flags&nfs4.OpenConfirm)
		assert.True(t, res.AttrSet == nfs4.Bitmap{})
	}},
	{Name: "OPEN again by the same owner", By: "RFC 8881, 18.16.3: the same other, and the next seqid", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		one := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead, 0))
		two := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareWrite, 0))
		assert.Equal(t, one.StateID.Other, two.StateID.Other)
		assert.Equal(t, one.StateID.SeqID+1, two.StateID.SeqID)
		other := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "b", nfs4.ShareRead, 0))
		assert.NotEqual(t, one.StateID.Other, other.StateID.Other)
		assert.EqualValues(t, 1, other.StateID.SeqID)
		fh := t.openAs(t.ownSession(), "f", "c", nfs4.ShareRead, 0).fh
		t.expectStatus(nfs4.OK, putFH(fh), writeOp(two.StateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		t.expectStatus(nfs4.OK, putFH(fh), closeFile(two.StateID))
		t.expectStatus(nfs4.ErrBadStateID, putFH(fh), closeFile(two.StateID)) // a single CLOSE is enough
	}},
	{Name: "OPEN by the filehandle", By: "RFC 8881, 18.16.3: CLAIM_FH", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		var res nfs4.OpenRes
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(fh), openOp(openFH("a", nfs4.ShareRead, 0), &res), getFH(&got))
		assert.Equal(t, fh, got.Object)
		t.expectStatus(nfs4.OK, putFH(fh), closeFile(res.StateID))
	}},
	{Name: "OPEN with each access and deny mode", By: "RFC 8881, 18.16.3", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		for share := nfs4.ShareRead; share <= nfs4.ShareBoth; share++ {
			for deny := uint32(0); deny <= nfs4.ShareBoth; deny++ {
				t.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(openName("f", "a", share, deny), new(nfs4.OpenRes)), closeFile(nfs4.StateID{}).withCurrentStateID())
			}
		}
	}},
	{Name: "OPEN with undefined modes", By: "RFC 8881, 15.1.1.4: NFS4ERR_INVAL", Linux: "NFS4ERR_BADXDR", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		for _, a := range []nfs4.OpenArgs{
			openName("f", "a", 0, 0), openName("f", "a", 1, 4), openName("f", "a", 1, 1<<31), openName("f", "a", 0, 3), openName("f", "a", 4, 0),
			openName("f", "a", 1|0x600, 0),
		} {
			t.tryOpen(t.ownSession(), nfs4.ErrInval, a)
		}
	}},
	{Name: "OPEN that conflicts with share reservations", By: "RFC 8881, 9.7, 18.16.3: NFS4ERR_SHARE_DENIED", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		other := t.newClient().newSession().completeReclaim()
		for m := range uint32(12) {
			share, deny := m/4+1, m%4
			held := t.openAs(t.ownSession(), "f", "holder", share, deny)
			for n := range uint32(12) {
				want := nfs4.OK
				if n%4&share != 0 || deny&(n/4+1) != 0 {
					want = nfs4.ErrShareDenied
				}
				for _, s := range []*session{t.ownSession(), other} {
					var res nfs4.OpenRes
					s.expectStatus(want, putFH(held.fh), openOp(openFH("other", n/4+1, n%4), &res))
					if want == nfs4.OK {
						s.expectStatus(nfs4.OK, putFH(held.fh), closeFile(res.StateID))
					}
				}
			}
			t.expectStatus(nfs4.OK, putFH(held.fh), closeFile(held.id))
		}
	}},
	{Name: "OPEN that conflicts with the owner's own open", By: "RFC 8881, 18.16.3: no exception for the same open-owner", run: func(t *T) {
		t.openAs(t.ownSession(), "f", "a", nfs4.ShareRead, nfs4.ShareWrite)
		t.tryOpen(t.ownSession(), nfs4.ErrShareDenied, openName("f", "a", nfs4.ShareWrite, 0))
		t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead, 0))
	}},
	{Name: "OPEN of names that cannot be", By: "RFC 8881, 18.16.3, 15.1.7", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		t.tryOpen(t.ownSession(), nfs4.ErrInval, openName("", "a", 1, 0))
		t.tryOpen(t.ownSession(), nfs4.ErrNoEnt, openName("missing", "a", 1, 0))
		for _, name := range []string{".", ".."} {
			for _, how := range []nfs4.CreateMode{nfs4.NoCreate, nfs4.Unchecked} {
				t.expectOneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt, nfs4.ErrIsDir, nfs4.ErrExist}, putFH(t.ownDir()),
					openOp(withCreate(openName(name, "a", 1, 0), how, modeAttrs(0o644)), new(nfs4.OpenRes)))
			}
		}
		long := string(bytes.Repeat([]byte{'n'}, 300))
		t.tryOpen(t.ownSession(), nfs4.ErrNameTooLong, openName(long, "a", 1, 0))
		t.tryOpen(t.ownSession(), nfs4.ErrNameTooLong, withCreate(openName(long, "a", 1, 0), nfs4.Unchecked, modeAttrs(0o644)))
		for _, name := range []string{"a/b", "/", "a\x00b"} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrBadChar, nfs4.ErrInval}, putFH(t.ownDir()),
				openOp(withCreate(openName(name, "a", 1, 0), nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes)))
		}
	}},
	{Name: "OPEN in what is no directory", By: "RFC 8881, 15.2: NFS4ERR_NOTDIR, NFS4ERR_SYMLINK", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			if kind != nfs4.TypeDir {
				t.expectOneOf([]nfs4.Status{nfs4.ErrNotDir, nfs4.ErrSymlink}, putFH(fh), openOp(openName("x", "a", 1, 0), new(nfs4.OpenRes)))
			}
		})
	}},
	{Name: "OPEN of what is no file", By: "RFC 8881, 15.1.2: NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			want := []nfs4.Status{nfs4.ErrWrongType, nfs4.ErrSymlink} // Linux opens a device itself only after NFS4ERR_SYMLINK
			switch kind {
			case nfs4.TypeReg:
				return
			case nfs4.TypeDir:
				want = []nfs4.Status{nfs4.ErrIsDir}
			case nfs4.TypeLnk:
				want = []nfs4.Status{nfs4.ErrSymlink}
			}
			t.expectOneOf(want, putFH(t.ownDir()), openOp(openName("of type "+name, "a", 1, 0), new(nfs4.OpenRes)))
			t.expectOneOf(want, putFH(t.ownDir()), openOp(withCreate(openName("of type "+name, "a", 1, 0), nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes)))
			t.expectOneOf(want, putFH(fh), openOp(openFH("a", 1, 0), new(nfs4.OpenRes)))
		})
	}},
	{Name: "OPEN without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o600)), new(nfs4.OpenRes)), closeFile(nfs4.StateID{}).withCurrentStateID())
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		for share := nfs4.ShareRead; share <= nfs4.ShareBoth; share++ {
			t.tryOpen(s, nfs4.ErrAccess, openName("f", "a", share, 0))
		}
	}},
	{Name: "OPEN whose wish for a delegation is not granted", By: "RFC 8881, 18.16.3: MUST return OPEN_DELEGATE_NONE_EXT", Linux: "WND4_CANCELED is sent as 0", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		res := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead|nfs4.WantNoDeleg, 0))
		assert.Equal(t, nfs4.DelegateNoneExt, res.Delegation.Type)
		assert.Equal(t, nfs4.WhyNotWanted, res.Delegation.Why)
		res = t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead|nfs4.WantCancel, 0))
		assert.Equal(t, nfs4.DelegateNoneExt, res.Delegation.Type)
		assert.Equal(t, nfs4.WhyCancelled, res.Delegation.Why, "WND4_CANCELED")
		for _, want := range []uint32{nfs4.WantReadDeleg, nfs4.WantWriteDeleg, nfs4.WantAnyDeleg} {
			res = t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", nfs4.ShareRead|want, 0))
			assert.NotEqual(t, nfs4.DelegateNone, res.Delegation.Type)
		}
	}},
	{Name: "OPEN sets the current filehandle and stateid", By: "RFC 8881, 16.2.3.1.2", run: func(t *T) {
		var got nfs4.HandleRes
		var res nfs4.ReadRes
		a := withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)), getFH(&got),
			writeOp(nfs4.StateID{}, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)).withCurrentStateID(), readOp(nfs4.StateID{}, 0, 10, &res).withCurrentStateID(),
			closeFile(nfs4.StateID{}).withCurrentStateID())
		assert.NotEqual(t, t.ownDir(), got.Object)
		assert.Equal(t, "data", string(res.Data))
	}},
	{Name: "OPEN claims a delegation that is not there", By: "RFC 8881, 15.2", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, claim := range []nfs4.Claim{nfs4.ClaimDelegateCur, nfs4.ClaimDelegatePrev} {
			a := openName("f", "a", 1, 0)
			a.Claim = claim
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrNotSupp, nfs4.ErrNoGrace, nfs4.ErrReclaimBad}, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)))
		}
		for _, claim := range []nfs4.Claim{nfs4.ClaimDelegCurFH, nfs4.ClaimDelegPrevFH} {
			a := openName("f", "a", 1, 0)
			a.Claim = claim
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrNotSupp, nfs4.ErrNoGrace, nfs4.ErrReclaimBad}, putFH(fh), openOp(a, new(nfs4.OpenRes)))
		}
	}},
	{Name: "OPEN with an undefined claim", By: "RFC 5662: open_claim_type4", run: func(t *T) {
		a := openName("f", "a", 1, 0)
		a.Claim = 7
		t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)))
	}},
	{Name: "OPEN with the client ID of another client", By: "RFC 8881, 18.16.3: with a session it is ignored", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		a := openName("f", "a", 1, 0)
		a.Owner.ClientID, a.SeqID = 12345, 99
		t.tryOpen(t.ownSession(), nfs4.OK, a)
	}},
	{Name: "owners of two clients", By: "RFC 8881, 8.1.2: an owner belongs to a client", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		one := t.tryOpen(t.ownSession(), nfs4.OK, openName("f", "a", 1, 0))
		two := t.tryOpen(t.newClient().newSession().completeReclaim(), nfs4.OK, openName("f", "a", 1, 0))
		assert.NotEqual(t, one.StateID.Other, two.StateID.Other)
	}},
	{Name: "an open keeps the rights of its caller", By: "RFC 8881, 18.22.4, 18.16.4", run: func(t *T) {
		var fh nfs4.HandleRes
		var o nfs4.OpenRes
		a := withCreate(openName("f", "a", 3, 0), nfs4.Guarded, modeAttrs(0o444))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, &o), getFH(&fh))
		h := slices.Clone(fh.Object)
		s.expectStatus(nfs4.OK, putFH(h), writeOp(o.StateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		s.expectStatus(nfs4.OK, putFH(h), closeFile(o.StateID))
	}},
}

// exclusiveVerf is the verifier for exclusive creates.
var exclusiveVerf = nfs4.Verifier{1, 2, 3, 4, 5, 6, 7, 8}

// exclusiveOpen returns a copy with an exclusive creation mode.
func exclusiveOpen(a nfs4.OpenArgs, how nfs4.CreateMode, v nfs4.Verifier, set nfs4.Attrs) nfs4.OpenArgs {
	a = withCreate(a, how, set)
	a.Verf = v
	return a
}

// creations are scenarios for OPEN with creation.
var creations = []Scenario{
	{Name: "OPEN creates", By: "RFC 8881, 18.16.3: UNCHECKED4", run: func(t *T) {
		var attr nfs4.GetAttrRes
		var res nfs4.OpenRes
		a := withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o640))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, &res), getAttr(&attr, nfs4.AttrMode, nfs4.AttrSize))
		assert.EqualValues(t, 0o640, attr.Attrs.Mode)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrMode), res.AttrSet)
		assert.NotEqual(t, res.Dir.Before, res.Dir.After, "the directory has changed")
		res = t.tryOpen(t.ownSession(), nfs4.OK, a)
		assert.EqualValues(t, 2, res.StateID.SeqID, "it may exist")
	}},
	{Name: "OPEN truncates", By: "RFC 8881, 18.16.3: size 0 truncates an existing file, and other attributes are ignored", run: func(t *T) {
		f := t.newFile("f", "some data")
		set := newAttrs(func(a *nfs4.Attrs) { a.Mode = 0o600 }, nfs4.AttrSize, nfs4.AttrMode)
		res := t.tryOpen(t.ownSession(), nfs4.OK, withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, set))
		a := t.getAttrs(f.fh, nfs4.AttrSize, nfs4.AttrMode)
		assert.Zero(t, a.Size)
		assert.EqualValues(t, 0o666, a.Mode)
		assert.True(t, res.AttrSet.Has(nfs4.AttrSize))
	}},
	{Name: "OPEN with a size does not lengthen a file that exists", By: "RFC 8881, 18.16.3: only a size of 0 counts", run: func(t *T) {
		f := t.newFile("f", "some data")
		t.tryOpen(t.ownSession(), nfs4.OK, withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, sizeAttrs(100)))
		assert.EqualValues(t, 9, t.getAttrs(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "OPEN with GUARDED4", By: "RFC 8881, 18.16.3: NFS4ERR_EXIST", run: func(t *T) {
		a := withCreate(openName("f", "a", 3, 0), nfs4.Guarded, modeAttrs(0o644))
		t.tryOpen(t.ownSession(), nfs4.OK, a)
		t.tryOpen(t.ownSession(), nfs4.ErrExist, a)
		t.newObject(nfs4.TypeDir, "d")
		a.Name = []byte("d")
		t.tryOpen(t.ownSession(), nfs4.ErrExist, a)
	}},
	{Name: "OPEN with EXCLUSIVE4", By: "RFC 8881, 18.16.3: the same verifier is a retry, another is NFS4ERR_EXIST", run: func(t *T) {
		a := exclusiveOpen(openName("f", "a", 3, 0), nfs4.Exclusive, exclusiveVerf, nfs4.Attrs{})
		t.tryOpen(t.ownSession(), nfs4.OK, a)
		again := t.tryOpen(t.ownSession(), nfs4.OK, a)
		assert.EqualValues(t, 2, again.StateID.SeqID)
		a.Verf[0]++
		t.tryOpen(t.ownSession(), nfs4.ErrExist, a)
		t.newObject(nfs4.TypeReg, "g")
		a.Name = []byte("g")
		t.tryOpen(t.ownSession(), nfs4.ErrExist, a)
	}},
	{Name: "OPEN with EXCLUSIVE4_1", By: "RFC 8881, 18.16.3", run: func(t *T) {
		a := exclusiveOpen(openName("f", "a", 3, 0), nfs4.Exclusive1, exclusiveVerf, modeAttrs(0o600))
		res := t.tryOpen(t.ownSession(), nfs4.OK, a)
		assert.True(t, res.AttrSet.Has(nfs4.AttrMode))
		var attr nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"), getAttr(&attr, nfs4.AttrMode))
		assert.EqualValues(t, 0o600, attr.Attrs.Mode)
		t.tryOpen(t.ownSession(), nfs4.OK, a)
		a.Verf[7]++
		t.tryOpen(t.ownSession(), nfs4.ErrExist, a)
	}},
	{Name: "OPEN with EXCLUSIVE4_1 and attributes beyond suppattr_exclcreat", By: "RFC 8881, 18.16.3: MUST return NFS4ERR_INVAL", run: func(t *T) {
		have := t.getAttrs(t.ownDir(), nfs4.AttrSuppattrExclCreat, nfs4.AttrSupportedAttrs)
		for _, id := range []nfs4.AttrID{nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet} {
			if have.SuppattrExclCreat.Has(id) || !have.SupportedAttrs.Has(id) {
				continue
			}
			t.tryOpen(t.ownSession(), nfs4.ErrInval, exclusiveOpen(openName("f", "a", 3, 0), nfs4.Exclusive1, exclusiveVerf, newAttrs(nil, id)))
			t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
		}
	}},
	{Name: "OPEN creates with attributes that can only be read", By: "RFC 8881, 5.5: NFS4ERR_INVAL", run: func(t *T) {
		for _, how := range []nfs4.CreateMode{nfs4.Unchecked, nfs4.Guarded} {
			t.tryOpen(t.ownSession(), nfs4.ErrInval, withCreate(openName("f", "a", 3, 0), how, newAttrs(nil, nfs4.AttrLinkSupport)))
		}
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
	}},
	{Name: "OPEN creates with attributes that are not supported", By: "RFC 8881, 15.1.15.1: NFS4ERR_ATTRNOTSUPP", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for id := nfs4.AttrID(0); id < 96; id++ {
			if !all.Has(id) && nfs4.Known.Has(id) {
				t.tryOpen(t.ownSession(), nfs4.ErrAttrNotSupp, withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, newAttrs(nil, id)))
			}
		}
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
	}},
	{Name: "OPEN that fails creates nothing", By: "RFC 8881, 18.16.3", Linux: "NFS4ERR_BADXDR for undefined modes", run: func(t *T) {
		t.tryOpen(t.ownSession(), nfs4.ErrInval, withCreate(openName("f", "a", 0, 0), nfs4.Unchecked, modeAttrs(0o644)))
		t.tryOpen(t.ownSession(), nfs4.ErrInval, withCreate(openName("f", "a", 3, 8), nfs4.Unchecked, modeAttrs(0o644)))
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
	}},
	{Name: "OPEN creates without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o755)), putFH(t.ownDir()))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(fh), openOp(withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes)))
	}},
	{Name: "OPEN that creates leaves the change of the directory", By: "RFC 8881, 18.16.2: cinfo", run: func(t *T) {
		before := t.getAttrs(t.ownDir(), nfs4.AttrChange).Change
		res := t.tryOpen(t.ownSession(), nfs4.OK, withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644)))
		assert.Equal(t, before, res.Dir.Before)
		require.Equal(t, t.getAttrs(t.ownDir(), nfs4.AttrChange).Change, res.Dir.After)
	}},
}
