package nfs4test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// rootFH returns the handle of the server's root.
func (t *T) rootFH() nfs4.FH {
	var res nfs4.HandleRes
	t.expectStatus(nfs4.OK, putRootFH(), getFH(&res))
	return slices.Clone(res.Object)
}

// awaitClockTick waits until a new change gets a later time than all changes so far: the
// host's clock may be coarse.
func (t *T) awaitClockTick(probe nfs4.FH) {
	touch := func() nfs4.Time { // not the change attribute: it may count changes
		var res nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putFH(probe), setAttr(nfs4.StateID{}, newAttrs(nil, nfs4.AttrTimeModifySet)), getAttr(&res, nfs4.AttrTimeMetadata))
		return res.Attrs.TimeMetadata
	}
	first := touch()
	for deadline := time.Now().Add(callLimit); touch() == first && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// values are scenarios for attribute values, and for setting them.
var values = []Scenario{
	{Name: "VERIFY and NVERIFY of all attributes of each type", By: "RFC 8881, 18.15.3, 18.31.3", Linux: "NFS4ERR_NOT_SAME for some", run: func(t *T) {
		check := func(name string, fh nfs4.FH) {
			for _, id := range t.supportedAttrs(fh) {
				switch id {
				case nfs4.AttrRdattrError, nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrFilesAvail, nfs4.AttrFilesFree:
					continue // an error, and the attributes that others change
				}
				a := t.getAttrs(fh, id)
				rep := t.ownSession().callWithSequence(putFH(fh), verifyOp(nfs4.OpVerify, a))
				assert.Equal(t, nfs4.OK, rep.status, "%s of a %s", id, name)
				rep = t.ownSession().callWithSequence(putFH(fh), verifyOp(nfs4.OpNVerify, a))
				assert.Equal(t, nfs4.ErrSame, rep.status, "%s of a %s", id, name)
			}
		}
		t.forEachType(func(name string, _ nfs4.FileType, fh nfs4.FH) { check(name, fh) })
		check("root", t.rootFH())
	}},
	{Name: "VERIFY and NVERIFY of nothing", By: "RFC 8881, 18.15.3, 18.31.3: all of none match", run: func(t *T) {
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), verifyOp(nfs4.OpVerify, nfs4.Attrs{}))
		t.expectStatus(nfs4.ErrSame, putFH(t.ownDir()), verifyOp(nfs4.OpNVerify, nfs4.Attrs{}))
	}},
	{Name: "VERIFY and NVERIFY guard what follows", By: "RFC 8881, 18.15.4, 18.30.4", run: func(t *T) {
		f := t.newFile("f", "data")
		guard := newAttrs(func(a *nfs4.Attrs) { a.Size = 4 }, nfs4.AttrSize)
		t.expectStatus(nfs4.OK, putFH(f.fh), verifyOp(nfs4.OpVerify, guard), setAttr(f.id, sizeAttrs(2)))
		rep := t.ownSession().callWithSequence(putFH(f.fh), verifyOp(nfs4.OpVerify, guard), setAttr(f.id, sizeAttrs(0)))
		assert.Equal(t, nfs4.ErrNotSame, rep.status)
		assert.EqualValues(t, 2, t.getAttrs(f.fh, nfs4.AttrSize).Size)
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(f.fh), verifyOp(nfs4.OpNVerify, guard), readOp(f.id, 0, 10, &res))
		assert.Equal(t, "da", string(res.Data))
	}},
	{Name: "VERIFY keeps the filehandle", By: "RFC 8881, 18.31.3", run: func(t *T) {
		var got nfs4.HandleRes
		a := newAttrs(func(a *nfs4.Attrs) { a.Type = nfs4.TypeDir }, nfs4.AttrType)
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), verifyOp(nfs4.OpVerify, a), getFH(&got))
		assert.Equal(t, t.ownDir(), got.Object)
	}},
	{Name: "attributes of the file system", By: "RFC 8881, 5.8.2", run: func(t *T) {
		a := t.getAttrs(t.ownDir(), nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal, nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal,
			nfs4.AttrMaxRead, nfs4.AttrMaxWrite, nfs4.AttrMaxFileSize, nfs4.AttrMaxName, nfs4.AttrMaxLink, nfs4.AttrLinkSupport, nfs4.AttrSymlinkSupport,
			nfs4.AttrHomogeneous, nfs4.AttrCanSetTime, nfs4.AttrTimeDelta, nfs4.AttrUniqueHandles, nfs4.AttrNamedAttr, nfs4.AttrChownRestricted)
		assert.LessOrEqual(t, a.FilesAvail, a.FilesFree)
		assert.LessOrEqual(t, a.FilesFree, a.FilesTotal)
		assert.LessOrEqual(t, a.SpaceAvail, a.SpaceFree)
		assert.LessOrEqual(t, a.SpaceFree, a.SpaceTotal)
		assert.GreaterOrEqual(t, a.MaxRead, uint64(4096))
		assert.GreaterOrEqual(t, a.MaxWrite, uint64(4096))
		assert.GreaterOrEqual(t, a.MaxFileSize, uint64(1<<40))
		assert.GreaterOrEqual(t, a.MaxName, uint32(14))
		assert.True(t, a.LinkSupport && a.SymlinkSupport, "the scenarios use both")
		assert.NotZero(t, a.TimeDelta.Sec+int64(a.TimeDelta.Nsec))
	}},
	{Name: "supported_attrs and suppattr_exclcreat", By: "RFC 8881, 5.8.1.1, 5.8.1.14", run: func(t *T) {
		check := func(fh nfs4.FH) {
			a := t.getAttrs(fh, nfs4.AttrSupportedAttrs, nfs4.AttrSuppattrExclCreat)
			beyond := a.SuppattrExclCreat.Without(a.SupportedAttrs)
			assert.True(t, beyond.Empty(), "what can be set is supported: %x", beyond.Words)
		}
		check(t.rootFH())
		t.forEachType(func(_ string, _ nfs4.FileType, fh nfs4.FH) { check(fh) })
	}},
	{Name: "numlinks", By: "RFC 8881, 5.8.2.25", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for i := range uint32(5) {
			assert.Equal(t, i+1, t.getAttrs(fh, nfs4.AttrNumLinks).NumLinks)
			t.expectStatus(nfs4.OK, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp(fmt.Sprint("l", i)))
		}
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("l0"))
		assert.EqualValues(t, 5, t.getAttrs(fh, nfs4.AttrNumLinks).NumLinks)
	}},
	{Name: "changes move the change attribute", By: "RFC 8881, 5.8.1.4: of data, directory contents and attributes", run: func(t *T) {
		f := t.newFile("f", "data")
		d, probe := t.newObject(nfs4.TypeDir, "d"), t.newObject(nfs4.TypeDir, "probe")
		change := func(fh nfs4.FH) uint64 { return t.getAttrs(fh, nfs4.AttrChange).Change }
		for name, c := range map[string]struct {
			fh  nfs4.FH
			ops []op
		}{
			"the mode":          {f.fh, []op{putFH(f.fh), setAttr(f.id, modeAttrs(0o611))}},
			"the size":          {f.fh, []op{putFH(f.fh), setAttr(f.id, sizeAttrs(1))}},
			"a link":            {f.fh, []op{putFH(f.fh), saveFH(), putFH(t.ownDir()), linkOp("l")}},
			"an entry":          {d, []op{putFH(d), createOp(nfs4.TypeFIFO, "p", modeAttrs(0o600))}},
			"mode of directory": {d, []op{putFH(d), setAttr(nfs4.StateID{}, modeAttrs(0o711))}},
		} {
			before := change(c.fh)
			t.awaitClockTick(probe)
			t.expectStatus(nfs4.OK, c.ops...)
			assert.NotEqual(t, before, change(c.fh), name)
			assert.Equal(t, change(c.fh), change(c.fh), name)
		}
	}},
	{Name: "SETATTR of each mode", By: "RFC 8881, 6.2.4", run: func(t *T) {
		d := t.newObject(nfs4.TypeDir, "d")
		for _, m := range []uint32{0, 0o777, 0o1777, 0o4755, 0o2755, 0o7777, 0o444} {
			t.expectStatus(nfs4.OK, putFH(d), setAttr(nfs4.StateID{}, modeAttrs(m)))
			assert.Equal(t, m, t.getAttrs(d, nfs4.AttrMode).Mode, "%o", m)
		}
	}},
	{Name: "SETATTR of some bits of the mode", By: "RFC 8881, 6.2.5: mode_set_masked", Linux: "it is not supported", run: func(t *T) {
		d := t.newObject(nfs4.TypeDir, "d")
		if all := t.getAttrs(d, nfs4.AttrSupportedAttrs).SupportedAttrs; !assert.True(t, all.Has(nfs4.AttrModeSetMasked)) {
			return
		}
		t.expectStatus(nfs4.OK, putFH(d), setAttr(nfs4.StateID{}, modeAttrs(0o750)))
		part := newAttrs(func(a *nfs4.Attrs) { a.ModeSetMasked = nfs4.ModeMasked{Value: 0o4, Mask: 0o27} }, nfs4.AttrModeSetMasked)
		o := setAttr(nfs4.StateID{}, part)
		t.expectStatus(nfs4.OK, putFH(d), o)
		assert.Equal(t, part.Mask, o.res.(*nfs4.SetAttrRes).AttrsSet)
		assert.EqualValues(t, 0o754, t.getAttrs(d, nfs4.AttrMode).Mode)
		both := part
		both.Mask.Set(nfs4.AttrMode)
		t.expectStatus(nfs4.ErrInval, putFH(d), setAttr(nfs4.StateID{}, both))
	}},
	{Name: "SETATTR of owner and group", By: "RFC 8881, 5.9", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		set := newAttrs(func(a *nfs4.Attrs) { a.Owner, a.OwnerGroup = []byte("7"), []byte("8") }, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
		o := setAttr(nfs4.StateID{}, set)
		t.expectStatus(nfs4.OK, putFH(fh), o)
		assert.Equal(t, set.Mask, o.res.(*nfs4.SetAttrRes).AttrsSet)
		a := t.getAttrs(fh, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
		assert.Equal(t, "7 8", string(a.Owner)+" "+string(a.OwnerGroup))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o600)))
		s.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, newAttrs(func(a *nfs4.Attrs) { a.Owner = []byte("7") }, nfs4.AttrOwner))) // 18.30.4: SHOULD
	}},
	{Name: "SETATTR of many attributes at once", By: "RFC 8881, 18.30.3: attrsset", run: func(t *T) {
		f := t.newFile("f", "0123456789")
		at := nfs4.Time{Sec: 1_234_567_890}
		set := newAttrs(func(a *nfs4.Attrs) {
			a.Size, a.Mode, a.Owner = 3, 0o640, []byte("7")
			a.TimeModifySet = nfs4.SetTime{Client: true, Time: at}
		}, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModifySet)
		o := setAttr(f.id, set)
		t.expectStatus(nfs4.OK, putFH(f.fh), o)
		assert.Equal(t, set.Mask, o.res.(*nfs4.SetAttrRes).AttrsSet)
		a := t.getAttrs(f.fh, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModify)
		assert.EqualValues(t, 3, a.Size)
		assert.EqualValues(t, 0o640, a.Mode)
		assert.Equal(t, "7", string(a.Owner))
		assert.Equal(t, at, a.TimeModify)
	}},
	{Name: "SETATTR of the size by stateids of other files", By: "RFC 8881, 18.30.3, 8.2.4: NFS4ERR_BAD_STATEID", run: func(t *T) {
		f, g := t.newFile("f", "data"), t.newFile("g", "data")
		t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), setAttr(g.id, sizeAttrs(0)))
		t.expectStatus(nfs4.ErrOldStateID, putFH(f.fh), setAttr(shiftSeqID(t.openAs(t.ownSession(), "f", "owner", nfs4.ShareBoth, 0).id, -1), sizeAttrs(0)))
		assert.EqualValues(t, 4, t.getAttrs(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "SETATTR of times before 1970 and after 2106", By: "RFC 8881, 3.3.1: seconds are signed, of 64 bits", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, sec := range []int64{-1, -1 << 31, 1<<32 - 1, 1 << 32, 1<<33 + 5} {
			at := nfs4.Time{Sec: sec, Nsec: 999_999_999}
			set := newAttrs(func(a *nfs4.Attrs) { a.TimeModifySet = nfs4.SetTime{Client: true, Time: at} }, nfs4.AttrTimeModifySet)
			t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, set))
			assert.Equal(t, at, t.getAttrs(fh, nfs4.AttrTimeModify).TimeModify)
		}
	}},
	{Name: "WRITE and READ move times", By: "RFC 8881, 5.8.2.43: time_modify", run: func(t *T) {
		f := t.newFile("f", "data")
		old := newAttrs(func(a *nfs4.Attrs) { a.TimeModifySet = nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 1}} }, nfs4.AttrTimeModifySet)
		for name, o := range map[string]op{
			"WRITE": writeOp(f.id, 0, nfs4.FileSync, "x", new(nfs4.WriteRes)), "a size": setAttr(f.id, sizeAttrs(2)),
		} {
			t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, old), o)
			assert.Greater(t, t.getAttrs(f.fh, nfs4.AttrTimeModify).TimeModify.Sec, int64(1), name)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, old), readOp(f.id, 0, 1, new(nfs4.ReadRes)))
		assert.EqualValues(t, 1, t.getAttrs(f.fh, nfs4.AttrTimeModify).TimeModify.Sec)
	}},
	{Name: "ACCESS by owner, group and others", By: "RFC 8881, 18.1.3", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		set := newAttrs(func(a *nfs4.Attrs) { a.Mode, a.Owner, a.OwnerGroup = 0o641, []byte("7"), []byte("8") },
			nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, set))
		const asked = nfs4.AccessRead | nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessExecute
		for uid, want := range map[uint32]uint32{
			7: nfs4.AccessRead | nfs4.AccessModify | nfs4.AccessExtend, 8: nfs4.AccessRead, 9: nfs4.AccessExecute,
		} {
			var res nfs4.AccessRes
			t.dial().withUID(uid).newClientID(t.uniqueName()).newSession().expectStatus(nfs4.OK, putFH(fh), accessOp(asked, &res))
			assert.Equal(t, want, res.Access, "user and group %d", uid)
		}
	}},
	{Name: "devices keep their numbers", By: "RFC 8881, 5.8.2.31: rawdev", run: func(t *T) {
		for i, kind := range []nfs4.FileType{nfs4.TypeChr, nfs4.TypeBlk} {
			for _, dev := range []nfs4.SpecData{{}, {Major: 1, Minor: 3}, {Major: 8, Minor: 255}, {Major: 259, Minor: 70000}} {
				name := fmt.Sprint("dev", i, dev.Major)
				o := createOp(kind, name, modeAttrs(0o600))
				o.args.(*nfs4.CreateArgs).Dev = dev
				var attr nfs4.GetAttrRes
				t.expectStatus(nfs4.OK, putFH(t.ownDir()), o, getAttr(&attr, nfs4.AttrRawDev, nfs4.AttrType))
				assert.Equal(t, dev, attr.Attrs.RawDev)
				assert.Equal(t, kind, attr.Attrs.Type)
			}
		}
	}},
}
