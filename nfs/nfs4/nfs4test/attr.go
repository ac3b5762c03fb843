package nfs4test

import (
	"math"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// requiredAttrs are the attributes that every server supports (RFC 8881, Section
// 5.6).
var requiredAttrs = []nfs4.AttrID{
	nfs4.AttrSupportedAttrs, nfs4.AttrType, nfs4.AttrFHExpireType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrLinkSupport,
	nfs4.AttrSymlinkSupport, nfs4.AttrNamedAttr, nfs4.AttrFSID, nfs4.AttrUniqueHandles, nfs4.AttrLeaseTime,
	nfs4.AttrRdattrError, nfs4.AttrFileHandle, nfs4.AttrSuppattrExclCreat,
}

// settableOnlyAttrs are the attributes that can be set but not read.
var settableOnlyAttrs = []nfs4.AttrID{nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked}

func verifyOp(num nfs4.Op, a nfs4.Attrs) op { return op{num, &nfs4.VerifyArgs{Attrs: a}, statusRes()} }

// supportedAttrs returns the readable attributes that an object has and package
// nfs4 knows.
func (t *T) supportedAttrs(fh nfs4.FH) []nfs4.AttrID {
	var ids []nfs4.AttrID
	all := t.getAttrs(fh, nfs4.AttrSupportedAttrs).SupportedAttrs
	not := nfs4.BitmapOf(append(settableOnlyAttrs, nfs4.AttrModeUmask, nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify)...)
	for id := nfs4.AttrID(0); id < 96; id++ {
		if all.Has(id) && nfs4.Known.Has(id) && !not.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// getattrs are scenarios for GETATTR.
var getattrs = []Scenario{
	{Name: "GETATTR of the required attributes", By: "RFC 8881, 5.6: all servers MUST support them", run: func(t *T) {
		check := func(fh nfs4.FH) {
			a := t.getAttrs(fh, requiredAttrs...)
			assert.Equal(t, nfs4.BitmapOf(requiredAttrs...), a.Mask)
			for _, id := range requiredAttrs {
				assert.True(t, a.SupportedAttrs.Has(id), "%s is in supported_attrs", id)
			}
			assert.Equal(t, fh, a.FileHandle)
			assert.Equal(t, nfs4.OK, a.RdattrError)
			assert.NotZero(t, a.LeaseTime)
		}
		t.forEachType(func(_ string, _ nfs4.FileType, fh nfs4.FH) { check(fh) })
		var root nfs4.HandleRes
		t.expectStatus(nfs4.OK, putRootFH(), getFH(&root))
		check(root.Object)
	}},
	{Name: "GETATTR of each supported attribute", By: "RFC 8881, 18.7.3: MUST return a value", Linux: "time_create of a file system without it is left out", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		ids := t.supportedAttrs(fh)
		for _, id := range ids {
			a := t.getAttrs(fh, id)
			assert.Equal(t, nfs4.BitmapOf(id), a.Mask, "%s", id)
		}
		a := t.getAttrs(fh, ids...)
		assert.Equal(t, nfs4.BitmapOf(ids...), a.Mask)
	}},
	{Name: "GETATTR of attributes that are not supported", By: "RFC 8881, 18.7.3: MUST NOT return a value", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for id := nfs4.AttrID(0); id < 96; id++ {
			if !all.Has(id) && nfs4.Known.Has(id) {
				assert.Equal(t, nfs4.BitmapOf(nfs4.AttrType), t.getAttrs(t.ownDir(), nfs4.AttrType, id).Mask, "%s", id)
			}
		}
	}},
	{Name: "GETATTR of nothing", By: "RFC 8881, 18.7.3", run: func(t *T) {
		assert.True(t, t.getAttrs(t.ownDir()).Mask == nfs4.Bitmap{})
	}},
	{Name: "GETATTR of undefined attributes", By: "RFC 8881, 18.7.3: MUST NOT set the bit", run: func(t *T) {
		b := raw{0, 0, 0, 6}
		for range 5 {
			b = append(b, 0, 0, 0, 0)
		}
		b = append(b, 0x80, 0, 0, 1)
		var res nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), op{nfs4.OpGetAttr, &b, &res})
		assert.True(t, res.Attrs.Mask == nfs4.Bitmap{})
	}},
	{Name: "GETATTR of attributes that can only be set", By: "RFC 8881, 5.5: NFS4ERR_INVAL", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for _, id := range settableOnlyAttrs {
			if all.Has(id) {
				t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), getAttr(new(nfs4.GetAttrRes), id))
				t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType, id))
			}
		}
	}},
	{Name: "GETATTR of devices, links and files", By: "RFC 8881, 5.8.1, 5.8.2", run: func(t *T) {
		a := t.getAttrs(t.newObject(nfs4.TypeChr, "null"), nfs4.AttrType, nfs4.AttrRawDev, nfs4.AttrNumLinks)
		assert.Equal(t, nfs4.SpecData{Major: 1, Minor: 3}, a.RawDev)
		f := t.newFile("f", "some data")
		a = t.getAttrs(f.fh, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrNumLinks)
		assert.EqualValues(t, 9, a.Size)
		assert.EqualValues(t, 0o666, a.Mode)
		assert.EqualValues(t, 1, a.NumLinks)
		assert.NotEmpty(t, a.Owner)
	}},
	{Name: "GETATTR tells objects apart", By: "RFC 8881, 5.8.2.7: fileid", run: func(t *T) {
		a := t.getAttrs(t.newObject(nfs4.TypeReg, "a"), nfs4.AttrFileID, nfs4.AttrFSID)
		b := t.getAttrs(t.newObject(nfs4.TypeReg, "b"), nfs4.AttrFileID, nfs4.AttrFSID)
		assert.NotEqual(t, a.FileID, b.FileID)
		assert.Equal(t, a.FSID, b.FSID)
	}},
	{Name: "the change attribute follows changes", By: "RFC 8881, 5.8.1.4", run: func(t *T) {
		f := t.newFile("f", "")
		seen := map[uint64]bool{}
		for i := range 5 {
			seen[t.getAttrs(f.fh, nfs4.AttrChange).Change] = true
			t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, uint64(i), nfs4.FileSync, "x", new(nfs4.WriteRes)))
		}
		assert.GreaterOrEqual(t, len(seen), 2, "it changes")
		before := t.getAttrs(t.ownDir(), nfs4.AttrChange).Change
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, 1, new(nfs4.ReadRes)))
		assert.Equal(t, before, t.getAttrs(t.ownDir(), nfs4.AttrChange).Change)
	}},
	{Name: "GETATTR by a caller without rights", By: "RFC 8881, 18.7.3", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0)), putFH(t.ownDir()))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.OK, putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType, nfs4.AttrMode))
	}},
}

// verifies are scenarios for VERIFY and NVERIFY.
var verifies = []Scenario{
	{Name: "VERIFY and NVERIFY of each attribute", By: "RFC 8881, 18.15.3, 18.31.3", Linux: "NFS4ERR_NOT_SAME for some", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, id := range t.supportedAttrs(fh) {
			switch id {
			case nfs4.AttrRdattrError, nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrFilesAvail, nfs4.AttrFilesFree:
				continue // an error, and the attributes that others change
			}
			a := t.getAttrs(fh, id)
			t.expectStatus(nfs4.OK, putFH(fh), verifyOp(nfs4.OpVerify, a))
			t.expectStatus(nfs4.ErrSame, putFH(fh), verifyOp(nfs4.OpNVerify, a))
		}
	}},
	{Name: "VERIFY and NVERIFY of other values", By: "RFC 8881, 18.15.3, 18.31.3", run: func(t *T) {
		f := t.newFile("f", "12345")
		for _, a := range []nfs4.Attrs{
			modeAttrs(0o123), newAttrs(func(a *nfs4.Attrs) { a.Size = 4 }, nfs4.AttrSize),
			newAttrs(func(a *nfs4.Attrs) { a.Size, a.Mode = 5, 0o123 }, nfs4.AttrSize, nfs4.AttrMode),
			newAttrs(func(a *nfs4.Attrs) { a.Type = nfs4.TypeDir }, nfs4.AttrType),
		} {
			t.expectStatus(nfs4.ErrNotSame, putFH(f.fh), verifyOp(nfs4.OpVerify, a))
			t.expectStatus(nfs4.OK, putFH(f.fh), verifyOp(nfs4.OpNVerify, a))
		}
	}},
	{Name: "VERIFY and NVERIFY of attributes that can only be set", By: "RFC 8881, 18.15.4, 18.31.4: NFS4ERR_INVAL", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for _, id := range append(settableOnlyAttrs, nfs4.AttrRdattrError) {
			if !all.Has(id) {
				continue
			}
			for _, num := range []nfs4.Op{nfs4.OpVerify, nfs4.OpNVerify} {
				t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), verifyOp(num, newAttrs(nil, id)))
			}
		}
	}},
	{Name: "VERIFY and NVERIFY of attributes that are not supported", By: "RFC 8881, 18.15.4, 18.31.4: NFS4ERR_ATTRNOTSUPP", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for id := nfs4.AttrID(0); id < 96; id++ {
			if all.Has(id) || !nfs4.Known.Has(id) {
				continue
			}
			for _, num := range []nfs4.Op{nfs4.OpVerify, nfs4.OpNVerify} {
				t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), verifyOp(num, newAttrs(nil, id)))
			}
		}
	}},
	{Name: "VERIFY with a list that is too short", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", Linux: "NFS4ERR_NOT_SAME", run: func(t *T) {
		for _, list := range []raw{
			{0, 0, 0, 1, 0, 0, 0, 1 << nfs4.AttrSize, 0, 0, 0, 4, 0, 0, 0, 0},
			{0, 0, 0, 1, 0, 0, 0, 1 << nfs4.AttrSize, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadXDR, nfs4.ErrInval}, putFH(t.ownDir()), op{nfs4.OpVerify, &list, statusRes()})
		}
	}},
}

// setattrs are scenarios for SETATTR.
var setattrs = []Scenario{
	{Name: "SETATTR of the mode of objects of each type", By: "RFC 8881, 18.30.3: attrsset", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			if kind == nfs4.TypeLnk {
				return // hosts have no symbolic link modes
			}
			o := setAttr(nfs4.StateID{}, modeAttrs(0o640))
			t.expectStatus(nfs4.OK, putFH(fh), o)
			assert.Equal(t, nfs4.BitmapOf(nfs4.AttrMode), o.res.(*nfs4.SetAttrRes).AttrsSet, name)
			assert.EqualValues(t, 0o640, t.getAttrs(fh, nfs4.AttrMode).Mode, name)
		})
	}},
	{Name: "SETATTR of nothing", By: "RFC 8881, 18.30.4: if the masks are equal, the status MUST be NFS4_OK", run: func(t *T) {
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), setAttr(nfs4.StateID{}, newAttrs(nil)))
	}},
	{Name: "SETATTR of the mode beyond its bits", By: "RFC 8881, 6.2.4: NFS4ERR_INVAL", Linux: "the bits are ignored", run: func(t *T) {
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), setAttr(nfs4.StateID{}, modeAttrs(0o10000)))
	}},
	{Name: "SETATTR of times", By: "RFC 8881, 18.30.4", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		at := nfs4.Time{Sec: 1_000_000_000, Nsec: 5000}
		set := newAttrs(func(a *nfs4.Attrs) {
			a.TimeAccessSet, a.TimeModifySet = nfs4.SetTime{Client: true, Time: at}, nfs4.SetTime{Client: true, Time: at}
		}, nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet)
		o := setAttr(nfs4.StateID{}, set)
		t.expectStatus(nfs4.OK, putFH(fh), o)
		assert.Equal(t, set.Mask, o.res.(*nfs4.SetAttrRes).AttrsSet)
		a := t.getAttrs(fh, nfs4.AttrTimeAccess, nfs4.AttrTimeModify)
		assert.Equal(t, at, a.TimeAccess)
		assert.Equal(t, at, a.TimeModify)
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, newAttrs(nil, nfs4.AttrTimeModifySet)))
		assert.Greater(t, t.getAttrs(fh, nfs4.AttrTimeModify).TimeModify.Sec, at.Sec, "the server's time")
	}},
	{Name: "SETATTR of a time with too many nanoseconds", By: "RFC 8881, 3.3.1: NFS4ERR_INVAL", run: func(t *T) {
		for _, nsec := range []uint32{1_000_000_000, math.MaxUint32} {
			set := newAttrs(func(a *nfs4.Attrs) {
				a.TimeModifySet = nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 1, Nsec: nsec}}
			}, nfs4.AttrTimeModifySet)
			t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), setAttr(nfs4.StateID{}, set))
		}
	}},
	{Name: "SETATTR of attributes that can only be read", By: "RFC 8881, 5.5: NFS4ERR_INVAL", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		can := nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeCreate)
		for _, id := range t.supportedAttrs(fh) {
			if !can.Has(id) {
				a := t.getAttrs(fh, id)
				t.expectStatus(nfs4.ErrInval, putFH(fh), setAttr(nfs4.StateID{}, a))
			}
		}
	}},
	{Name: "SETATTR of attributes that are not supported", By: "RFC 8881, 18.30.4: NFS4ERR_ATTRNOTSUPP", Linux: "NFS4ERR_BADXDR for some", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for id := nfs4.AttrID(0); id < 96; id++ {
			if !all.Has(id) && nfs4.Known.Has(id) {
				t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), setAttr(nfs4.StateID{}, newAttrs(nil, id)))
			}
		}
	}},
	{Name: "SETATTR of the size", By: "RFC 8881, 18.30.4", run: func(t *T) {
		f := t.newFile("f", "0123456789")
		for _, id := range []nfs4.StateID{f.id, nfs4.AnonymousStateID, nfs4.BypassStateID} {
			for _, size := range []uint64{4, 0, 100, 10} {
				t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(id, sizeAttrs(size)))
				assert.Equal(t, size, t.getAttrs(f.fh, nfs4.AttrSize).Size)
			}
		}
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, 100, &res))
		assert.Equal(t, string(make([]byte, 10)), string(res.Data), "bytes that were added are zero")
	}},
	{Name: "SETATTR of the size of what is no file", By: "RFC 8881, 15.1.2.9, 15.2: NFS4ERR_WRONG_TYPE or NFS4ERR_INVAL", Linux: "NFS4ERR_ISDIR", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			if kind != nfs4.TypeReg {
				t.expectOneOf([]nfs4.Status{nfs4.ErrInval, nfs4.ErrWrongType}, putFH(fh), setAttr(nfs4.StateID{}, sizeAttrs(5)))
			}
		})
	}},
	{Name: "SETATTR of the size by an open for reading", By: "RFC 8881, 18.30.3, 15.1.8.8: NFS4ERR_OPENMODE", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		o := t.openAs(t.ownSession(), "f", "reader", nfs4.ShareRead, 0)
		t.expectStatus(nfs4.ErrOpenMode, putFH(o.fh), setAttr(o.id, sizeAttrs(5)))
	}},
	{Name: "SETATTR of the size that others deny", By: "RFC 8881, 18.30.3: NFS4ERR_LOCKED", run: func(t *T) {
		o := t.openAs(t.ownSession(), "f", "owner", nfs4.ShareRead, nfs4.ShareWrite)
		s := t.newClient().newSession().completeReclaim()
		s.expectStatus(nfs4.ErrLocked, putFH(o.fh), setAttr(nfs4.AnonymousStateID, sizeAttrs(5)))
	}},
	{Name: "SETATTR of the size beyond the largest", By: "RFC 8881, 15.1.4.4: NFS4ERR_FBIG", run: func(t *T) {
		f := t.newFile("f", "")
		t.expectOneOf([]nfs4.Status{nfs4.ErrFBig, nfs4.ErrInval}, putFH(f.fh), setAttr(f.id, sizeAttrs(math.MaxUint64)))
		t.expectOneOf([]nfs4.Status{nfs4.ErrFBig, nfs4.ErrInval}, putFH(f.fh), setAttr(f.id, sizeAttrs(1<<63)))
	}},
	{Name: "SETATTR of owners", By: "RFC 8881, 5.9: NFS4ERR_BADOWNER", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		own := t.getAttrs(fh, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, own))
		for _, name := range []string{"", "nobody knows this@example.invalid", "-1"} {
			a := newAttrs(func(a *nfs4.Attrs) { a.Owner = []byte(name) }, nfs4.AttrOwner)
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadOwner, nfs4.ErrInval}, putFH(fh), setAttr(nfs4.StateID{}, a))
		}
	}},
	{Name: "SETATTR by another user", By: "RFC 8881, 15.1.6.3: NFS4ERR_PERM", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectOneOf([]nfs4.Status{nfs4.ErrPerm, nfs4.ErrAccess}, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o777)))
		own := newAttrs(func(a *nfs4.Attrs) { a.Owner = []byte("7") }, nfs4.AttrOwner)
		s.expectStatus(nfs4.ErrPerm, putFH(fh), setAttr(nfs4.StateID{}, own))
	}},
	{Name: "SETATTR with a list that does not match its mask", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", run: func(t *T) {
		b := raw(make([]byte, 16))
		b = append(b, 0, 0, 0, 1, 0, 0, 0, 1<<nfs4.AttrSize, 0, 0, 0, 4, 0, 0, 0, 0)
		t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), op{nfs4.OpSetAttr, &b, new(nfs4.SetAttrRes)})
		require.Equal(t, nfs4.OK, t.ownSession().callWithSequence(putRootFH()).status)
	}},
}

// sizeAttrs returns attributes with a size.
func sizeAttrs(n uint64) nfs4.Attrs {
	return newAttrs(func(a *nfs4.Attrs) { a.Size = n }, nfs4.AttrSize)
}
