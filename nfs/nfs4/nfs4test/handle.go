package nfs4test

import (
	"bytes"
	"maps"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// opsNeedingFH returns operations with valid arguments that need a current
// filehandle.
func opsNeedingFH() []op {
	any := nfs4.StateID{}
	return []op{
		getFH(new(nfs4.HandleRes)), saveFH(), lookupOp("x"), lookupP(), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType),
		setAttr(any, modeAttrs(0o644)), accessOp(nfs4.AccessRead, new(nfs4.AccessRes)), openOp(openName("x", "o", 1, 0), new(nfs4.OpenRes)),
		closeFile(any), downgradeOp(any, 1, 0, new(nfs4.StateIDRes)), readOp(any, 0, 1, new(nfs4.ReadRes)),
		writeOp(any, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)), commitOp(0, 0, new(nfs4.CommitRes)),
		createOp(nfs4.TypeDir, "x", modeAttrs(0o755)), removeOp("x"), renameOp("x", "y"), linkOp("x"), readLink(new(nfs4.ReadLinkRes)),
		readDir(nfs4.ReadDirArgs{MaxCount: 4096}, new(listing)), verifyOp(nfs4.OpVerify, modeAttrs(0o644)), verifyOp(nfs4.OpNVerify, modeAttrs(0o644)),
		secInfo("x", new(nfs4.SecInfoRes)), secInfoNoName(nfs4.SecInfoCurrentFH, new(nfs4.SecInfoRes)),
	}
}

// removedStatuses are the valid statuses for an object whose last name was removed. A
// server may keep it for a while (RFC 8881, Section 18.25.4).
var removedStatuses = []nfs4.Status{nfs4.OK, nfs4.ErrStale}

// handles are scenarios for filehandles.
var handles = []Scenario{
	{Name: "operations without a current filehandle", By: "RFC 8881, 15.1.2.5: NFS4ERR_NOFILEHANDLE", run: func(t *T) {
		for _, o := range opsNeedingFH() {
			t.expectStatus(nfs4.ErrNoFileHandle, o)
		}
	}},
	{Name: "operations without a saved filehandle", By: "RFC 8881, 15.1.2.5: NFS4ERR_NOFILEHANDLE", Linux: "NFS4ERR_RESTOREFH, as minor version 0 has it", run: func(t *T) {
		t.expectStatus(nfs4.ErrNoFileHandle, restoreFH())
		t.expectStatus(nfs4.ErrNoFileHandle, putFH(t.ownDir()), restoreFH())
		t.expectStatus(nfs4.ErrNoFileHandle, putFH(t.ownDir()), renameOp("x", "y"))
		t.expectStatus(nfs4.ErrNoFileHandle, putFH(t.ownDir()), linkOp("x"))
	}},
	{Name: "PUTFH of objects of each type", By: "RFC 8881, 18.19.3", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			var got nfs4.HandleRes
			var attr nfs4.GetAttrRes
			t.expectStatus(nfs4.OK, putFH(fh), getFH(&got), getAttr(&attr, nfs4.AttrType))
			assert.Equal(t, fh, got.Object, name)
			assert.Equal(t, kind, attr.Attrs.Type, name)
		})
	}},
	{Name: "PUTFH of a broken filehandle", By: "RFC 8881, 15.1.2.1: NFS4ERR_BADHANDLE", Linux: "an empty one is NFS4ERR_NOFILEHANDLE", run: func(t *T) {
		for _, fh := range []nfs4.FH{{}, {0}, nfs4.FH("abc"), {1, 2, 3, 4}, make(nfs4.FH, nfs4.FHSize), bytes.Repeat([]byte{0xff}, nfs4.FHSize)} {
			t.expectStatus(nfs4.ErrBadHandle, putFH(fh))
		}
		whole := t.ownDir()
		for _, fh := range []nfs4.FH{whole[:len(whole)-1], append(slices.Clone(whole), 0, 0, 0, 0)} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadHandle, nfs4.ErrStale}, putFH(fh))
		}
	}},
	{Name: "PUTFH of too long a filehandle", By: "RFC 5662: nfs_fh4<NFS4_FHSIZE>", run: func(t *T) {
		t.expectStatus(nfs4.ErrBadXDR, putFH(make(nfs4.FH, nfs4.FHSize+1)))
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "PUTFH of a removed object", By: "RFC 8881, 15.1.2.7: NFS4ERR_STALE", run: func(t *T) {
		for _, kind := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeDir, nfs4.TypeLnk} {
			fh := t.newObject(kind, "gone")
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("gone"))
			rep := t.ownSession().callWithSequence(putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
			assert.Contains(t, removedStatuses, rep.status)
		}
	}},
	{Name: "an object is removed in its COMPOUND", By: "RFC 8881, 15.1.2.7: NFS4ERR_STALE", run: func(t *T) {
		t.newObject(nfs4.TypeDir, "gone")
		t.expectOneOf(removedStatuses, putFH(t.ownDir()), lookupOp("gone"), saveFH(), putFH(t.ownDir()), removeOp("gone"), restoreFH(),
			getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
	}},
	{Name: "PUTROOTFH and PUTPUBFH", By: "RFC 8881, 18.20.3, 18.21.3", run: func(t *T) {
		var root, public nfs4.HandleRes
		var attr nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putRootFH(), getFH(&root), getAttr(&attr, nfs4.AttrType, nfs4.AttrFSID),
			op{nfs4.OpPutPubFH, &void, statusRes()}, getFH(&public))
		assert.Equal(t, root.Object, public.Object)
		assert.Equal(t, nfs4.TypeDir, attr.Attrs.Type)
		t.expectStatus(nfs4.OK, putFH(slices.Clone(root.Object)), getAttr(&attr, nfs4.AttrType))
	}},
	{Name: "SAVEFH and RESTOREFH", By: "RFC 8881, 18.27.3, 18.28.3", run: func(t *T) {
		for _, name := range slices.Sorted(maps.Keys(objectTypes)) {
			fh := t.newObject(objectTypes[name], name)
			var got, dir nfs4.HandleRes
			t.expectStatus(nfs4.OK, putFH(fh), saveFH(), putFH(t.ownDir()), getFH(&dir), restoreFH(), getFH(&got))
			assert.Equal(t, fh, got.Object)
			t.expectStatus(nfs4.OK, putFH(fh), saveFH(), restoreFH(), restoreFH(), getFH(&got))
			assert.Equal(t, fh, got.Object, "it stays saved")
		}
	}},
	{Name: "a COMPOUND begins without filehandles", By: "RFC 8881, 16.2.3", Linux: "NFS4ERR_RESTOREFH, as minor version 0 has it", run: func(t *T) {
		t.expectStatus(nfs4.OK, putRootFH(), saveFH())
		t.expectStatus(nfs4.ErrNoFileHandle, getFH(new(nfs4.HandleRes)))
		t.expectStatus(nfs4.ErrNoFileHandle, restoreFH())
	}},
	{Name: "filehandles persist", By: "RFC 8881, 4.2.2: fh_expire_type", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "d")
		a := t.getAttrs(fh, nfs4.AttrFHExpireType)
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), saveFH(), renameOp("d", "renamed"))
		if a.FHExpireType == nfs4.FHPersistent {
			t.expectStatus(nfs4.OK, putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
		}
	}},
}

// lookups are scenarios for LOOKUP and LOOKUPP.
var lookups = []Scenario{
	{Name: "LOOKUP of objects of each type", By: "RFC 8881, 18.13.3", run: func(t *T) {
		t.forEachType(func(name string, _ nfs4.FileType, fh nfs4.FH) {
			var got nfs4.HandleRes
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("of type "+name), getFH(&got))
			assert.Equal(t, fh, got.Object, "%s: a link is not followed", name)
		})
	}},
	{Name: "LOOKUP of a missing name", By: "RFC 8881, 15.1.4.8: NFS4ERR_NOENT", run: func(t *T) {
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("missing"))
		t.expectStatus(nfs4.ErrNoEnt, putRootFH(), lookupOp("missing"))
	}},
	{Name: "LOOKUP of an empty name", By: "RFC 8881, 18.13.3: NFS4ERR_INVAL", run: func(t *T) {
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), lookupOp(""))
		t.expectStatus(nfs4.ErrInval, putRootFH(), lookupOp(""))
	}},
	{Name: "LOOKUP of dots", By: "RFC 8881, 18.13.4, 15.1.7.2: no special semantics, NFS4ERR_BADNAME", run: func(t *T) {
		for _, name := range []string{".", ".."} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt}, putFH(t.ownDir()), lookupOp(name))
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt}, putRootFH(), lookupOp(name))
		}
	}},
	{Name: "LOOKUP of names with slashes and zeros", By: "RFC 8881, 15.1.7: NFS4ERR_BADCHAR or NFS4ERR_BADNAME", Linux: "NFS4ERR_ACCESS", run: func(t *T) {
		t.newObject(nfs4.TypeDir, "a")
		for _, name := range []string{"/", "a/", "a/b", "a\x00", "\x00"} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrBadChar, nfs4.ErrBadName, nfs4.ErrNoEnt}, putFH(t.ownDir()), lookupOp(name))
		}
	}},
	{Name: "LOOKUP of too long a name", By: "RFC 8881, 15.1.7.3: NFS4ERR_NAMETOOLONG", run: func(t *T) {
		longest := t.getAttrs(t.ownDir(), nfs4.AttrMaxName).MaxName
		t.expectStatus(nfs4.ErrNameTooLong, putFH(t.ownDir()), lookupOp(string(bytes.Repeat([]byte{'n'}, int(longest)+1))))
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp(string(bytes.Repeat([]byte{'n'}, int(longest)))))
	}},
	{Name: "LOOKUP of a name that is not UTF-8", By: "RFC 8881, 18.13.3, 14.4: NFS4ERR_INVAL, unless fs_charset_cap says that there are such names", run: func(t *T) {
		a := t.getAttrs(t.ownDir(), nfs4.AttrFSCharsetCap)
		want := nfs4.ErrInval
		if !a.Mask.Has(nfs4.AttrFSCharsetCap) || a.FSCharsetCap&nfs4.CharsetContainsNonUTF8 != 0 {
			want = nfs4.ErrNoEnt
		}
		for _, name := range []string{"\xff", "a\xc0\xaf", "\xed\xa0\x80", "trailing\xc3"} {
			t.expectStatus(want, putFH(t.ownDir()), lookupOp(name))
		}
	}},
	{Name: "LOOKUP in what is no directory", By: "RFC 8881, 18.13.4: NFS4ERR_SYMLINK, NFS4ERR_NOTDIR", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			want := nfs4.ErrNotDir
			switch kind {
			case nfs4.TypeDir:
				want = nfs4.ErrNoEnt
			case nfs4.TypeLnk:
				want = nfs4.ErrSymlink
			}
			t.expectStatus(want, putFH(fh), lookupOp("x"))
		})
	}},
	{Name: "LOOKUP without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o700)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeDir, "d", modeAttrs(0o777)))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(fh), lookupOp("d"))
	}},
	{Name: "LOOKUP that fails leaves the filehandle alone", By: "RFC 8881, 18.13.3", run: func(t *T) {
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), getFH(&got))
		assert.Equal(t, t.ownDir(), got.Object)
	}},
	{Name: "LOOKUPP", By: "RFC 8881, 18.14.3", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "d")
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(fh), lookupP(), getFH(&got))
		assert.Equal(t, t.ownDir(), got.Object)
	}},
	{Name: "LOOKUPP from the root", By: "RFC 8881, 18.14.3: NFS4ERR_NOENT", run: func(t *T) {
		t.expectStatus(nfs4.ErrNoEnt, putRootFH(), lookupP())
	}},
	{Name: "LOOKUPP to the root", By: "RFC 8881, 18.14.3: it crosses mount points", run: func(t *T) {
		var root, got nfs4.HandleRes
		ops := t.lookupPathOps()
		for range t.Path {
			ops = append(ops, lookupP())
		}
		t.expectStatus(nfs4.OK, append(append([]op{putRootFH(), getFH(&root)}, ops...), getFH(&got))...)
		assert.Equal(t, root.Object, got.Object)
	}},
	{Name: "LOOKUPP in what is no directory", By: "RFC 8881, 18.14.3: NFS4ERR_NOTDIR; 15.2 lists NFS4ERR_SYMLINK", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			switch kind {
			case nfs4.TypeDir:
			case nfs4.TypeLnk:
				t.expectOneOf([]nfs4.Status{nfs4.ErrNotDir, nfs4.ErrSymlink}, putFH(fh), lookupP())
			default:
				t.expectStatus(nfs4.ErrNotDir, putFH(fh), lookupP())
			}
		})
	}},
}

func secInfo(name string, res *nfs4.SecInfoRes) op { return op{nfs4.OpSecInfo, nameArgs(name), res} }

func secInfoNoName(style uint32, res *nfs4.SecInfoRes) op {
	return op{nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{Style: style}, res}
}

// checkFlavors asserts that a result offers AUTH_SYS, which the scenarios use.
func (t *T) checkFlavors(res *nfs4.SecInfoRes) {
	require.NotEmpty(t, res.Flavors)
	assert.True(t, slices.ContainsFunc(res.Flavors, func(f nfs4.SecInfo) bool { return f.Flavor == nfs4.CallbackSys }))
}

// security are scenarios for SECINFO and SECINFO_NO_NAME.
var security = []Scenario{
	{Name: "SECINFO", By: "RFC 8881, 18.29.3: the current filehandle is consumed", run: func(t *T) {
		t.newObject(nfs4.TypeDir, "d")
		var res nfs4.SecInfoRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), secInfo("d", &res))
		t.checkFlavors(&res)
		t.expectStatus(nfs4.ErrNoFileHandle, putFH(t.ownDir()), secInfo("d", &res), getFH(new(nfs4.HandleRes)))
	}},
	{Name: "SECINFO of bad names", By: "RFC 8881, 18.29.3", run: func(t *T) {
		var res nfs4.SecInfoRes
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), secInfo("missing", &res))
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), secInfo("", &res))
		t.expectOneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt}, putFH(t.ownDir()), secInfo("..", &res))
		t.expectStatus(nfs4.ErrNotDir, putFH(t.newObject(nfs4.TypeReg, "f")), secInfo("x", &res))
		t.expectStatus(nfs4.ErrNameTooLong, putFH(t.ownDir()), secInfo(string(bytes.Repeat([]byte{'n'}, 300)), &res))
	}},
	{Name: "SECINFO_NO_NAME", By: "RFC 8881, 18.45.3: the current filehandle is consumed", run: func(t *T) {
		var res nfs4.SecInfoRes
		for _, style := range []uint32{nfs4.SecInfoCurrentFH, nfs4.SecInfoParent} {
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), secInfoNoName(style, &res))
			t.checkFlavors(&res)
			t.expectStatus(nfs4.ErrNoFileHandle, putFH(t.ownDir()), secInfoNoName(style, &res), getFH(new(nfs4.HandleRes)))
		}
		t.expectStatus(nfs4.OK, putRootFH(), secInfoNoName(nfs4.SecInfoCurrentFH, &res))
	}},
	{Name: "SECINFO_NO_NAME of the root's parent", By: "RFC 8881, 18.45.3: as LOOKUPP, NFS4ERR_NOENT", run: func(t *T) {
		t.expectStatus(nfs4.ErrNoEnt, putRootFH(), secInfoNoName(nfs4.SecInfoParent, new(nfs4.SecInfoRes)))
	}},
	{Name: "SECINFO_NO_NAME of a file's parent", By: "RFC 8881, 18.45.3: as LOOKUPP, NFS4ERR_NOTDIR", run: func(t *T) {
		t.expectStatus(nfs4.ErrNotDir, putFH(t.newObject(nfs4.TypeReg, "f")), secInfoNoName(nfs4.SecInfoParent, new(nfs4.SecInfoRes)))
		t.expectStatus(nfs4.OK, putFH(t.newObject(nfs4.TypeReg, "g")), secInfoNoName(nfs4.SecInfoCurrentFH, new(nfs4.SecInfoRes)))
	}},
	{Name: "SECINFO_NO_NAME of an undefined style", By: "RFC 5662: secinfo_style4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		t.expectStatus(nfs4.ErrBadXDR, putRootFH(), secInfoNoName(2, new(nfs4.SecInfoRes)))
	}},
}
