package nfs4test

import (
	"bytes"
	"maps"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// needs are operations with good arguments that need a current filehandle.
func needs() []op {
	any := nfs4.StateID{}
	return []op{
		getFH(new(nfs4.HandleRes)), saveFH(), lookup("x"), lookupP(), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType),
		setAttr(any, mode(0o644)), access(nfs4.AccessRead, new(nfs4.AccessRes)), open(openName("x", "o", 1, 0), new(nfs4.OpenRes)),
		closeFile(any), downgrade(any, 1, 0, new(nfs4.StateIDRes)), read(any, 0, 1, new(nfs4.ReadRes)),
		write(any, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)), commit(0, 0, new(nfs4.CommitRes)),
		create(nfs4.TypeDir, "x", mode(0o755)), remove("x"), rename("x", "y"), link("x"), readLink(new(nfs4.ReadLinkRes)),
		readDir(nfs4.ReadDirArgs{MaxCount: 4096}, new(listing)), verify(nfs4.OpVerify, mode(0o644)), verify(nfs4.OpNVerify, mode(0o644)),
		secInfo("x", new(nfs4.SecInfoRes)), secInfoNoName(nfs4.SecInfoCurrentFH, new(nfs4.SecInfoRes)),
	}
}

// goneOrNot are the statuses of an object that has lost its last name. A server
// may keep it for a while (RFC 8881, Section 18.25.4).
var goneOrNot = []nfs4.Status{nfs4.OK, nfs4.ErrStale}

// handles are scenarios of filehandles.
var handles = []Scenario{
	{Name: "operations without a current filehandle", By: "RFC 8881, 15.1.2.5: NFS4ERR_NOFILEHANDLE", run: func(t *T) {
		for _, o := range needs() {
			t.want(nfs4.ErrNoFileHandle, o)
		}
	}},
	{Name: "operations without a saved filehandle", By: "RFC 8881, 15.1.2.5: NFS4ERR_NOFILEHANDLE", Linux: "NFS4ERR_RESTOREFH, as minor version 0 has it", run: func(t *T) {
		t.want(nfs4.ErrNoFileHandle, restoreFH())
		t.want(nfs4.ErrNoFileHandle, putFH(t.dir()), restoreFH())
		t.want(nfs4.ErrNoFileHandle, putFH(t.dir()), rename("x", "y"))
		t.want(nfs4.ErrNoFileHandle, putFH(t.dir()), link("x"))
	}},
	{Name: "PUTFH of objects of each type", By: "RFC 8881, 18.19.3", run: func(t *T) {
		t.each(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			var got nfs4.HandleRes
			var attr nfs4.GetAttrRes
			t.want(nfs4.OK, putFH(fh), getFH(&got), getAttr(&attr, nfs4.AttrType))
			assert.Equal(t, fh, got.Object, name)
			assert.Equal(t, kind, attr.Attrs.Type, name)
		})
	}},
	{Name: "PUTFH of a broken filehandle", By: "RFC 8881, 15.1.2.1: NFS4ERR_BADHANDLE", Linux: "an empty one is NFS4ERR_NOFILEHANDLE", run: func(t *T) {
		for _, fh := range []nfs4.FH{{}, {0}, nfs4.FH("abc"), {1, 2, 3, 4}, make(nfs4.FH, nfs4.FHSize), bytes.Repeat([]byte{0xff}, nfs4.FHSize)} {
			t.want(nfs4.ErrBadHandle, putFH(fh))
		}
		whole := t.dir()
		for _, fh := range []nfs4.FH{whole[:len(whole)-1], append(slices.Clone(whole), 0, 0, 0, 0)} {
			t.oneOf([]nfs4.Status{nfs4.ErrBadHandle, nfs4.ErrStale}, putFH(fh))
		}
	}},
	{Name: "PUTFH of too long a filehandle", By: "RFC 5662: nfs_fh4<NFS4_FHSIZE>", run: func(t *T) {
		t.want(nfs4.ErrBadXDR, putFH(make(nfs4.FH, nfs4.FHSize+1)))
		t.want(nfs4.OK, putRootFH())
	}},
	{Name: "PUTFH of a removed object", By: "RFC 8881, 15.1.2.7: NFS4ERR_STALE", run: func(t *T) {
		for _, kind := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeDir, nfs4.TypeLnk} {
			fh := t.object(kind, "gone")
			t.want(nfs4.OK, putFH(t.dir()), remove("gone"))
			rep := t.session().do(putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
			assert.Contains(t, goneOrNot, rep.status)
		}
	}},
	{Name: "an object is removed in its COMPOUND", By: "RFC 8881, 15.1.2.7: NFS4ERR_STALE", run: func(t *T) {
		t.object(nfs4.TypeDir, "gone")
		t.oneOf(goneOrNot, putFH(t.dir()), lookup("gone"), saveFH(), putFH(t.dir()), remove("gone"), restoreFH(),
			getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
	}},
	{Name: "PUTROOTFH and PUTPUBFH", By: "RFC 8881, 18.20.3, 18.21.3", run: func(t *T) {
		var root, public nfs4.HandleRes
		var attr nfs4.GetAttrRes
		t.want(nfs4.OK, putRootFH(), getFH(&root), getAttr(&attr, nfs4.AttrType, nfs4.AttrFSID),
			op{nfs4.OpPutPubFH, &void, status()}, getFH(&public))
		assert.Equal(t, root.Object, public.Object)
		assert.Equal(t, nfs4.TypeDir, attr.Attrs.Type)
		t.want(nfs4.OK, putFH(slices.Clone(root.Object)), getAttr(&attr, nfs4.AttrType))
	}},
	{Name: "SAVEFH and RESTOREFH", By: "RFC 8881, 18.27.3, 18.28.3", run: func(t *T) {
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			fh := t.object(kinds[name], name)
			var got, dir nfs4.HandleRes
			t.want(nfs4.OK, putFH(fh), saveFH(), putFH(t.dir()), getFH(&dir), restoreFH(), getFH(&got))
			assert.Equal(t, fh, got.Object)
			t.want(nfs4.OK, putFH(fh), saveFH(), restoreFH(), restoreFH(), getFH(&got))
			assert.Equal(t, fh, got.Object, "it stays saved")
		}
	}},
	{Name: "a COMPOUND begins without filehandles", By: "RFC 8881, 16.2.3", Linux: "NFS4ERR_RESTOREFH, as minor version 0 has it", run: func(t *T) {
		t.want(nfs4.OK, putRootFH(), saveFH())
		t.want(nfs4.ErrNoFileHandle, getFH(new(nfs4.HandleRes)))
		t.want(nfs4.ErrNoFileHandle, restoreFH())
	}},
	{Name: "filehandles persist", By: "RFC 8881, 4.2.2: fh_expire_type", run: func(t *T) {
		fh := t.object(nfs4.TypeDir, "d")
		a := t.attrsOf(fh, nfs4.AttrFHExpireType)
		t.want(nfs4.OK, putFH(t.dir()), saveFH(), rename("d", "renamed"))
		if a.FHExpireType == nfs4.FHPersistent {
			t.want(nfs4.OK, putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
		}
	}},
}

// lookups are scenarios of LOOKUP and LOOKUPP.
var lookups = []Scenario{
	{Name: "LOOKUP of objects of each type", By: "RFC 8881, 18.13.3", run: func(t *T) {
		t.each(func(name string, _ nfs4.FileType, fh nfs4.FH) {
			var got nfs4.HandleRes
			t.want(nfs4.OK, putFH(t.dir()), lookup("of type "+name), getFH(&got))
			assert.Equal(t, fh, got.Object, "%s: a link is not followed", name)
		})
	}},
	{Name: "LOOKUP of a missing name", By: "RFC 8881, 15.1.4.8: NFS4ERR_NOENT", run: func(t *T) {
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("missing"))
		t.want(nfs4.ErrNoEnt, putRootFH(), lookup("missing"))
	}},
	{Name: "LOOKUP of an empty name", By: "RFC 8881, 18.13.3: NFS4ERR_INVAL", run: func(t *T) {
		t.want(nfs4.ErrInval, putFH(t.dir()), lookup(""))
		t.want(nfs4.ErrInval, putRootFH(), lookup(""))
	}},
	{Name: "LOOKUP of dots", By: "RFC 8881, 18.13.4, 15.1.7.2: no special semantics, NFS4ERR_BADNAME", run: func(t *T) {
		for _, name := range []string{".", ".."} {
			t.oneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt}, putFH(t.dir()), lookup(name))
			t.oneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt}, putRootFH(), lookup(name))
		}
	}},
	{Name: "LOOKUP of names with slashes and zeros", By: "RFC 8881, 15.1.7: NFS4ERR_BADCHAR or NFS4ERR_BADNAME", Linux: "NFS4ERR_ACCESS", run: func(t *T) {
		t.object(nfs4.TypeDir, "a")
		for _, name := range []string{"/", "a/", "a/b", "a\x00", "\x00"} {
			t.oneOf([]nfs4.Status{nfs4.ErrBadChar, nfs4.ErrBadName, nfs4.ErrNoEnt}, putFH(t.dir()), lookup(name))
		}
	}},
	{Name: "LOOKUP of too long a name", By: "RFC 8881, 15.1.7.3: NFS4ERR_NAMETOOLONG", run: func(t *T) {
		longest := t.attrsOf(t.dir(), nfs4.AttrMaxName).MaxName
		t.want(nfs4.ErrNameTooLong, putFH(t.dir()), lookup(string(bytes.Repeat([]byte{'n'}, int(longest)+1))))
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup(string(bytes.Repeat([]byte{'n'}, int(longest)))))
	}},
	{Name: "LOOKUP of a name that is not UTF-8", By: "RFC 8881, 18.13.3, 14.4: NFS4ERR_INVAL, unless fs_charset_cap says that there are such names", run: func(t *T) {
		a := t.attrsOf(t.dir(), nfs4.AttrFSCharsetCap)
		want := nfs4.ErrInval
		if !a.Mask.Has(nfs4.AttrFSCharsetCap) || a.FSCharsetCap&nfs4.CharsetContainsNonUTF8 != 0 {
			want = nfs4.ErrNoEnt
		}
		for _, name := range []string{"\xff", "a\xc0\xaf", "\xed\xa0\x80", "trailing\xc3"} {
			t.want(want, putFH(t.dir()), lookup(name))
		}
	}},
	{Name: "LOOKUP in what is no directory", By: "RFC 8881, 18.13.4: NFS4ERR_SYMLINK, NFS4ERR_NOTDIR", run: func(t *T) {
		t.each(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			want := nfs4.ErrNotDir
			switch kind {
			case nfs4.TypeDir:
				want = nfs4.ErrNoEnt
			case nfs4.TypeLnk:
				want = nfs4.ErrSymlink
			}
			t.want(want, putFH(fh), lookup("x"))
		})
	}},
	{Name: "LOOKUP without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.make(create(nfs4.TypeDir, "private", mode(0o700)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(fh), create(nfs4.TypeDir, "d", mode(0o777)))
		s := t.dial().as(7).client(t.unique()).session().ready()
		s.want(nfs4.ErrAccess, putFH(fh), lookup("d"))
	}},
	{Name: "LOOKUP that fails leaves the filehandle alone", By: "RFC 8881, 18.13.3", run: func(t *T) {
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(t.dir()), getFH(&got))
		assert.Equal(t, t.dir(), got.Object)
	}},
	{Name: "LOOKUPP", By: "RFC 8881, 18.14.3", run: func(t *T) {
		fh := t.object(nfs4.TypeDir, "d")
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(fh), lookupP(), getFH(&got))
		assert.Equal(t, t.dir(), got.Object)
	}},
	{Name: "LOOKUPP from the root", By: "RFC 8881, 18.14.3: NFS4ERR_NOENT", run: func(t *T) {
		t.want(nfs4.ErrNoEnt, putRootFH(), lookupP())
	}},
	{Name: "LOOKUPP to the root", By: "RFC 8881, 18.14.3: it crosses mount points", run: func(t *T) {
		var root, got nfs4.HandleRes
		ops := t.top()
		for range t.Path {
			ops = append(ops, lookupP())
		}
		t.want(nfs4.OK, append(append([]op{putRootFH(), getFH(&root)}, ops...), getFH(&got))...)
		assert.Equal(t, root.Object, got.Object)
	}},
	{Name: "LOOKUPP in what is no directory", By: "RFC 8881, 18.14.3: NFS4ERR_NOTDIR; 15.2 lists NFS4ERR_SYMLINK", run: func(t *T) {
		t.each(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			switch kind {
			case nfs4.TypeDir:
			case nfs4.TypeLnk:
				t.oneOf([]nfs4.Status{nfs4.ErrNotDir, nfs4.ErrSymlink}, putFH(fh), lookupP())
			default:
				t.want(nfs4.ErrNotDir, putFH(fh), lookupP())
			}
		})
	}},
}

func secInfo(name string, res *nfs4.SecInfoRes) op { return op{nfs4.OpSecInfo, name4(name), res} }

func secInfoNoName(style uint32, res *nfs4.SecInfoRes) op {
	return op{nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{Style: style}, res}
}

// flavors asserts that a result offers AUTH_SYS, by which the scenarios go.
func (t *T) flavors(res *nfs4.SecInfoRes) {
	require.NotEmpty(t, res.Flavors)
	assert.True(t, slices.ContainsFunc(res.Flavors, func(f nfs4.SecInfo) bool { return f.Flavor == nfs4.CallbackSys }))
}

// security are scenarios of SECINFO and SECINFO_NO_NAME.
var security = []Scenario{
	{Name: "SECINFO", By: "RFC 8881, 18.29.3: the current filehandle is consumed", run: func(t *T) {
		t.object(nfs4.TypeDir, "d")
		var res nfs4.SecInfoRes
		t.want(nfs4.OK, putFH(t.dir()), secInfo("d", &res))
		t.flavors(&res)
		t.want(nfs4.ErrNoFileHandle, putFH(t.dir()), secInfo("d", &res), getFH(new(nfs4.HandleRes)))
	}},
	{Name: "SECINFO of bad names", By: "RFC 8881, 18.29.3", run: func(t *T) {
		var res nfs4.SecInfoRes
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), secInfo("missing", &res))
		t.want(nfs4.ErrInval, putFH(t.dir()), secInfo("", &res))
		t.oneOf([]nfs4.Status{nfs4.ErrBadName, nfs4.ErrNoEnt}, putFH(t.dir()), secInfo("..", &res))
		t.want(nfs4.ErrNotDir, putFH(t.object(nfs4.TypeReg, "f")), secInfo("x", &res))
		t.want(nfs4.ErrNameTooLong, putFH(t.dir()), secInfo(string(bytes.Repeat([]byte{'n'}, 300)), &res))
	}},
	{Name: "SECINFO_NO_NAME", By: "RFC 8881, 18.45.3: the current filehandle is consumed", run: func(t *T) {
		var res nfs4.SecInfoRes
		for _, style := range []uint32{nfs4.SecInfoCurrentFH, nfs4.SecInfoParent} {
			t.want(nfs4.OK, putFH(t.dir()), secInfoNoName(style, &res))
			t.flavors(&res)
			t.want(nfs4.ErrNoFileHandle, putFH(t.dir()), secInfoNoName(style, &res), getFH(new(nfs4.HandleRes)))
		}
		t.want(nfs4.OK, putRootFH(), secInfoNoName(nfs4.SecInfoCurrentFH, &res))
	}},
	{Name: "SECINFO_NO_NAME of the root's parent", By: "RFC 8881, 18.45.3: as LOOKUPP, NFS4ERR_NOENT", run: func(t *T) {
		t.want(nfs4.ErrNoEnt, putRootFH(), secInfoNoName(nfs4.SecInfoParent, new(nfs4.SecInfoRes)))
	}},
	{Name: "SECINFO_NO_NAME of a file's parent", By: "RFC 8881, 18.45.3: as LOOKUPP, NFS4ERR_NOTDIR", run: func(t *T) {
		t.want(nfs4.ErrNotDir, putFH(t.object(nfs4.TypeReg, "f")), secInfoNoName(nfs4.SecInfoParent, new(nfs4.SecInfoRes)))
		t.want(nfs4.OK, putFH(t.object(nfs4.TypeReg, "g")), secInfoNoName(nfs4.SecInfoCurrentFH, new(nfs4.SecInfoRes)))
	}},
	{Name: "SECINFO_NO_NAME of an undefined style", By: "RFC 5662: secinfo_style4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		t.want(nfs4.ErrBadXDR, putRootFH(), secInfoNoName(2, new(nfs4.SecInfoRes)))
	}},
}
