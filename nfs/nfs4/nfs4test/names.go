package nfs4test

import (
	"bytes"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// badNames are names that no operation may make or remove, with the statuses
// that an operation may return.
var badNames = map[string][]nfs4.Status{
	"":                                      {nfs4.ErrInval},
	".":                                     {nfs4.ErrBadName},
	"..":                                    {nfs4.ErrBadName},
	"a/b":                                   {nfs4.ErrBadName, nfs4.ErrBadChar, nfs4.ErrInval},
	"/":                                     {nfs4.ErrBadName, nfs4.ErrBadChar, nfs4.ErrInval},
	"a\x00b":                                {nfs4.ErrBadName, nfs4.ErrBadChar, nfs4.ErrInval},
	string(bytes.Repeat([]byte{'n'}, 256)):  {nfs4.ErrNameTooLong},
	string(bytes.Repeat([]byte{'n'}, 5000)): {nfs4.ErrNameTooLong},
}

// eachNonDir runs check for an object of each type except a directory.
func (t *T) eachNonDir(check func(fh nfs4.FH)) {
	t.forEachType(func(_ string, kind nfs4.FileType, fh nfs4.FH) {
		if kind != nfs4.TypeDir {
			check(fh)
		}
	})
}

// creates are scenarios for CREATE.
var creates = []Scenario{
	{Name: "CREATE of each type", By: "RFC 8881, 18.4.3", run: func(t *T) {
		for name, kind := range objectTypes {
			if kind == nfs4.TypeReg {
				continue
			}
			var attr nfs4.GetAttrRes
			var got nfs4.HandleRes
			o := createOp(kind, name, modeAttrs(0o705))
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), o, getFH(&got), getAttr(&attr, nfs4.AttrType, nfs4.AttrMode))
			assert.Equal(t, kind, attr.Attrs.Type, name)
			assert.NotEqual(t, t.ownDir(), got.Object, "18.4.3: the current filehandle is the new object's")
			if kind != nfs4.TypeLnk {
				assert.EqualValues(t, 0o705, attr.Attrs.Mode, name)
				assert.Equal(t, nfs4.BitmapOf(nfs4.AttrMode), o.res.(*nfs4.CreateRes).AttrSet, name)
			}
			t.expectStatus(nfs4.ErrExist, putFH(t.ownDir()), createOp(kind, name, modeAttrs(0o705)))
		}
	}},
	{Name: "CREATE of what it does not make", By: "RFC 8881, 18.4.3: NFS4ERR_BADTYPE", run: func(t *T) {
		for _, kind := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeAttrDir, nfs4.TypeNamedAttr} {
			t.expectStatus(nfs4.ErrBadType, putFH(t.ownDir()), createOp(kind, "x", modeAttrs(0o644)))
		}
		t.expectOneOf([]nfs4.Status{nfs4.ErrBadType, nfs4.ErrBadXDR}, putFH(t.ownDir()), createOp(99, "x", modeAttrs(0o644)))
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("x"))
	}},
	{Name: "CREATE of names that cannot be", By: "RFC 8881, 18.4.3, 15.1.7", Linux: "NFS4ERR_BADXDR for very long names", run: func(t *T) {
		for name, want := range badNames {
			for _, kind := range []nfs4.FileType{nfs4.TypeDir, nfs4.TypeLnk, nfs4.TypeFIFO} {
				t.expectOneOf(want, putFH(t.ownDir()), createOp(kind, name, modeAttrs(0o755)))
			}
		}
	}},
	{Name: "CREATE in what is no directory", By: "RFC 8881, 18.4.3: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.eachNonDir(func(fh nfs4.FH) {
			t.expectStatus(nfs4.ErrNotDir, putFH(fh), createOp(nfs4.TypeDir, "x", modeAttrs(0o755)))
		})
	}},
	{Name: "CREATE of a link to nothing", By: "RFC 8881, 15.1.1.4: NFS4ERR_INVAL; 15.2 does not list NFS4ERR_NOENT for CREATE", OldLinux: "NFS4ERR_NOENT (Debian's 6.1.0-48)", run: func(t *T) {
		o := createOp(nfs4.TypeLnk, "l", nfs4.Attrs{})
		o.args.(*nfs4.CreateArgs).LinkData = nil
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), o)
	}},
	{Name: "CREATE of links", By: "RFC 8881, 18.4.4: the content is not interpreted", run: func(t *T) {
		for i, text := range []string{".", "/", "a/../b", "\xff\xfe", string(bytes.Repeat([]byte{'p'}, 1000))} {
			o := createOp(nfs4.TypeLnk, fmt.Sprint("l", i), nfs4.Attrs{})
			o.args.(*nfs4.CreateArgs).LinkData = []byte(text)
			var res nfs4.ReadLinkRes
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), o, readLink(&res))
			assert.Equal(t, text, string(res.Link))
		}
	}},
	{Name: "CREATE with attributes that can only be read", By: "RFC 8881, 5.5: NFS4ERR_INVAL", run: func(t *T) {
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", newAttrs(nil, nfs4.AttrLinkSupport)))
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("d"))
	}},
	{Name: "CREATE with attributes that are not supported", By: "RFC 8881, 15.1.15.1: NFS4ERR_ATTRNOTSUPP", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for id := nfs4.AttrID(0); id < 96; id++ {
			if !all.Has(id) && nfs4.Known.Has(id) {
				t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", newAttrs(nil, id)))
			}
		}
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("d"))
	}},
	{Name: "CREATE without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o755)), putFH(t.ownDir()))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(fh), createOp(nfs4.TypeDir, "x", modeAttrs(0o755)))
		s.expectStatus(nfs4.ErrAccess, putFH(fh), saveFH(), putFH(fh), createOp(nfs4.TypeLnk, "x", modeAttrs(0o755)))
	}},
	{Name: "CREATE tells the change of the directory", By: "RFC 8881, 18.4.3: cinfo", run: func(t *T) {
		before := t.getAttrs(t.ownDir(), nfs4.AttrChange).Change
		o := createOp(nfs4.TypeDir, "d", modeAttrs(0o755))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), o)
		res := o.res.(*nfs4.CreateRes)
		assert.Equal(t, before, res.Dir.Before)
		assert.Equal(t, t.getAttrs(t.ownDir(), nfs4.AttrChange).Change, res.Dir.After)
		assert.NotEqual(t, res.Dir.Before, res.Dir.After)
	}},
}

// removals are scenarios for REMOVE.
var removals = []Scenario{
	{Name: "REMOVE of objects of each type", By: "RFC 8881, 18.25.3", run: func(t *T) {
		t.forEachType(func(name string, _ nfs4.FileType, _ nfs4.FH) {
			o := removeOp("of type " + name)
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), o)
			assert.NotEqual(t, o.res.(*nfs4.ChangeRes).Dir.Before, o.res.(*nfs4.ChangeRes).Dir.After, name)
			t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("of type "+name))
			t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), removeOp("of type "+name))
		})
	}},
	{Name: "REMOVE of a directory that is not empty", By: "RFC 8881, 15.1.4.10: NFS4ERR_NOTEMPTY", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "d")
		t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeDir, "inner", modeAttrs(0o755)))
		t.expectStatus(nfs4.ErrNotEmpty, putFH(t.ownDir()), removeOp("d"))
		t.expectStatus(nfs4.OK, putFH(fh), removeOp("inner"))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("d"))
	}},
	{Name: "REMOVE of names that cannot be", By: "RFC 8881, 18.25.3, 15.1.7", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		for name, want := range badNames {
			t.expectOneOf(append([]nfs4.Status{nfs4.ErrNoEnt}, want...), putFH(t.ownDir()), removeOp(name))
		}
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), removeOp(""))
	}},
	{Name: "REMOVE in what is no directory", By: "RFC 8881, 15.1.2.6: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.eachNonDir(func(fh nfs4.FH) { t.expectStatus(nfs4.ErrNotDir, putFH(fh), removeOp("x")) })
	}},
	{Name: "REMOVE without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o755)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeDir, "d", modeAttrs(0o777)))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(fh), removeOp("d"))
	}},
	{Name: "REMOVE keeps the current filehandle", By: "RFC 8881, 18.25.3", run: func(t *T) {
		t.newObject(nfs4.TypeDir, "d")
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("d"), getFH(&got))
		assert.Equal(t, t.ownDir(), got.Object)
	}},
}

// renameInDir renames a file within the scenario's directory.
func (t *T) renameInDir(want []nfs4.Status, from, to string) *nfs4.RenameRes {
	o := renameOp(from, to)
	t.expectOneOf(want, putFH(t.ownDir()), saveFH(), o)
	return o.res.(*nfs4.RenameRes)
}

var onlyOK = []nfs4.Status{nfs4.OK}

// renames are scenarios for RENAME and LINK.
var renames = []Scenario{
	{Name: "RENAME of objects of each type", By: "RFC 8881, 18.26.3", run: func(t *T) {
		t.forEachType(func(name string, _ nfs4.FileType, fh nfs4.FH) {
			res := t.renameInDir(onlyOK, "of type "+name, "new "+name)
			assert.NotEqual(t, res.Source.Before, res.Source.After)
			var got nfs4.HandleRes
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("new "+name), getFH(&got))
			assert.Equal(t, fh, got.Object, name)
			t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("of type "+name))
		})
	}},
	{Name: "RENAME to another directory", By: "RFC 8881, 18.26.3", run: func(t *T) {
		a, b := t.newObject(nfs4.TypeDir, "a"), t.newObject(nfs4.TypeDir, "b")
		t.expectStatus(nfs4.OK, putFH(a), createOp(nfs4.TypeDir, "x", modeAttrs(0o755)))
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(a), saveFH(), putFH(b), renameOp("x", "y"), getFH(&got))
		assert.Equal(t, b, got.Object, "18.26.3: the current filehandle stays the target directory")
		t.expectStatus(nfs4.OK, putFH(b), lookupOp("y"))
		t.expectStatus(nfs4.ErrNoEnt, putFH(a), lookupOp("x"))
	}},
	{Name: "RENAME of a missing name", By: "RFC 8881, 15.1.4.8: NFS4ERR_NOENT", run: func(t *T) {
		t.renameInDir([]nfs4.Status{nfs4.ErrNoEnt}, "missing", "new")
	}},
	{Name: "RENAME of names that cannot be", By: "RFC 8881, 18.26.3, 18.26.4", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		t.newObject(nfs4.TypeDir, "d")
		for name, want := range badNames {
			t.renameInDir(want, "d", name)
			t.renameInDir(append([]nfs4.Status{nfs4.ErrNoEnt}, want...), name, "new")
		}
		t.renameInDir([]nfs4.Status{nfs4.ErrInval}, "", "new")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("d"))
	}},
	{Name: "RENAME with what is no directory", By: "RFC 8881, 18.26.4: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.eachNonDir(func(fh nfs4.FH) {
			t.expectStatus(nfs4.ErrNotDir, putFH(fh), saveFH(), putFH(t.ownDir()), renameOp("x", "y"))
			t.expectStatus(nfs4.ErrNotDir, putFH(t.ownDir()), saveFH(), putFH(fh), renameOp("of type file", "y"))
		})
	}},
	{Name: "RENAME to names that exist", By: "RFC 8881, 18.26.3: NFS4ERR_EXIST if they are not compatible", Linux: "NFS4ERR_NOTDIR", run: func(t *T) {
		exist := []nfs4.Status{nfs4.ErrExist, nfs4.ErrNotEmpty} // 15.2 lists both
		t.newObject(nfs4.TypeDir, "empty")
		full := t.newObject(nfs4.TypeDir, "full")
		t.expectStatus(nfs4.OK, putFH(full), createOp(nfs4.TypeDir, "inner", modeAttrs(0o755)))
		t.newObject(nfs4.TypeDir, "d")
		t.newObject(nfs4.TypeReg, "f")
		t.newObject(nfs4.TypeLnk, "l")
		t.renameInDir(exist[:1], "d", "f")
		t.renameInDir(exist[:1], "d", "l")
		t.renameInDir(exist[:1], "f", "d")
		t.renameInDir(exist, "l", "full")
		t.renameInDir(exist, "d", "full")
		t.renameInDir(onlyOK, "d", "empty")
		t.renameInDir(onlyOK, "f", "l")
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
	}},
	{Name: "RENAME of a directory into itself", By: "RFC 8881, 15.2: NFS4ERR_INVAL", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "d")
		t.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), saveFH(), putFH(fh), renameOp("d", "x"))
	}},
	{Name: "RENAME to itself", By: "RFC 8881, 18.26.3: MUST perform no action and return NFS4_OK", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.renameInDir(onlyOK, "f", "f")
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"), getFH(&got))
		assert.Equal(t, fh, got.Object)
	}},
	{Name: "RENAME to another link of the file", By: "RFC 8881, 18.26.3: MUST perform no action and return NFS4_OK", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("g"))
		t.renameInDir(onlyOK, "f", "g")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("g"))
	}},
	{Name: "RENAME without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o755)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeDir, "d", modeAttrs(0o777)))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(fh), saveFH(), renameOp("d", "e"))
	}},
	{Name: "LINK", By: "RFC 8881, 18.9.3", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("g"), getFH(&got))
		assert.Equal(t, t.ownDir(), got.Object)
		assert.EqualValues(t, 2, t.getAttrs(fh, nfs4.AttrNumLinks).NumLinks, "18.9.4: one more")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("g"), getFH(&got))
		require.Equal(t, t.getAttrs(fh, nfs4.AttrFileID).FileID, t.getAttrs(bytes.Clone(got.Object), nfs4.AttrFileID).FileID)
		t.expectStatus(nfs4.ErrExist, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("g"))
		t.expectStatus(nfs4.ErrExist, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("f"))
	}},
	{Name: "LINK of objects of each type", By: "RFC 8881, 18.9.3", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			want := []nfs4.Status{nfs4.OK, nfs4.ErrNotSupp, nfs4.ErrWrongType, nfs4.ErrSymlink}
			if kind == nfs4.TypeDir {
				want = []nfs4.Status{nfs4.ErrIsDir}
			}
			t.expectOneOf(want, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("link of "+name))
		})
	}},
	{Name: "LINK of names that cannot be", By: "RFC 8881, 18.9.4, 15.1.7", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for name, want := range badNames {
			t.expectOneOf(want, putFH(fh), saveFH(), putFH(t.ownDir()), linkOp(name))
		}
	}},
	{Name: "LINK in what is no directory", By: "RFC 8881, 15.1.2.6: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		f := t.newObject(nfs4.TypeReg, "f")
		t.eachNonDir(func(fh nfs4.FH) { t.expectStatus(nfs4.ErrNotDir, putFH(f), saveFH(), putFH(fh), linkOp("x")) })
	}},
}
