package nfs4test

import (
	"bytes"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// badNames are names that no operation may make or remove, with the statuses
// that an operation may answer.
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

// dirs runs check for an object of each type that is no directory.
func (t *T) notDirs(check func(fh nfs4.FH)) {
	t.each(func(_ string, kind nfs4.FileType, fh nfs4.FH) {
		if kind != nfs4.TypeDir {
			check(fh)
		}
	})
}

// makes are scenarios of CREATE.
var makes = []Scenario{
	{Name: "CREATE of each type", By: "RFC 8881, 18.4.3", run: func(t *T) {
		for name, kind := range kinds {
			if kind == nfs4.TypeReg {
				continue
			}
			var attr nfs4.GetAttrRes
			var got nfs4.HandleRes
			o := create(kind, name, mode(0o705))
			t.want(nfs4.OK, putFH(t.dir()), o, getFH(&got), getAttr(&attr, nfs4.AttrType, nfs4.AttrMode))
			assert.Equal(t, kind, attr.Attrs.Type, name)
			assert.NotEqual(t, t.dir(), got.Object, "18.4.3: the current filehandle is the new object's")
			if kind != nfs4.TypeLnk {
				assert.EqualValues(t, 0o705, attr.Attrs.Mode, name)
				assert.Equal(t, nfs4.BitmapOf(nfs4.AttrMode), o.res.(*nfs4.CreateRes).AttrSet, name)
			}
			t.want(nfs4.ErrExist, putFH(t.dir()), create(kind, name, mode(0o705)))
		}
	}},
	{Name: "CREATE of what it does not make", By: "RFC 8881, 18.4.3: NFS4ERR_BADTYPE", run: func(t *T) {
		for _, kind := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeAttrDir, nfs4.TypeNamedAttr} {
			t.want(nfs4.ErrBadType, putFH(t.dir()), create(kind, "x", mode(0o644)))
		}
		t.oneOf([]nfs4.Status{nfs4.ErrBadType, nfs4.ErrBadXDR}, putFH(t.dir()), create(99, "x", mode(0o644)))
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("x"))
	}},
	{Name: "CREATE of names that cannot be", By: "RFC 8881, 18.4.3, 15.1.7", Linux: "NFS4ERR_BADXDR for very long names", run: func(t *T) {
		for name, want := range badNames {
			for _, kind := range []nfs4.FileType{nfs4.TypeDir, nfs4.TypeLnk, nfs4.TypeFIFO} {
				t.oneOf(want, putFH(t.dir()), create(kind, name, mode(0o755)))
			}
		}
	}},
	{Name: "CREATE in what is no directory", By: "RFC 8881, 18.4.3: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.notDirs(func(fh nfs4.FH) { t.want(nfs4.ErrNotDir, putFH(fh), create(nfs4.TypeDir, "x", mode(0o755))) })
	}},
	{Name: "CREATE of a link to nothing", By: "RFC 8881, 15.1.1.4: NFS4ERR_INVAL; 15.2 does not list NFS4ERR_NOENT for CREATE", run: func(t *T) {
		o := create(nfs4.TypeLnk, "l", nfs4.Attrs{})
		o.args.(*nfs4.CreateArgs).LinkData = nil
		t.want(nfs4.ErrInval, putFH(t.dir()), o)
	}},
	{Name: "CREATE of links", By: "RFC 8881, 18.4.4: the content is not interpreted", run: func(t *T) {
		for i, text := range []string{".", "/", "a/../b", "\xff\xfe", string(bytes.Repeat([]byte{'p'}, 1000))} {
			o := create(nfs4.TypeLnk, fmt.Sprint("l", i), nfs4.Attrs{})
			o.args.(*nfs4.CreateArgs).LinkData = []byte(text)
			var res nfs4.ReadLinkRes
			t.want(nfs4.OK, putFH(t.dir()), o, readLink(&res))
			assert.Equal(t, text, string(res.Link))
		}
	}},
	{Name: "CREATE with attributes that can only be read", By: "RFC 8881, 5.5: NFS4ERR_INVAL", run: func(t *T) {
		t.want(nfs4.ErrInval, putFH(t.dir()), create(nfs4.TypeDir, "d", attrs(nil, nfs4.AttrLinkSupport)))
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("d"))
	}},
	{Name: "CREATE with attributes that are not supported", By: "RFC 8881, 15.1.15.1: NFS4ERR_ATTRNOTSUPP", run: func(t *T) {
		all := t.attrsOf(t.dir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		for id := nfs4.AttrID(0); id < 96; id++ {
			if !all.Has(id) && nfs4.Known.Has(id) {
				t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), create(nfs4.TypeDir, "d", attrs(nil, id)))
			}
		}
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("d"))
	}},
	{Name: "CREATE without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.make(create(nfs4.TypeDir, "private", mode(0o755)), putFH(t.dir()))
		s := t.dial().as(7).client(t.unique()).session().ready()
		s.want(nfs4.ErrAccess, putFH(fh), create(nfs4.TypeDir, "x", mode(0o755)))
		s.want(nfs4.ErrAccess, putFH(fh), saveFH(), putFH(fh), create(nfs4.TypeLnk, "x", mode(0o755)))
	}},
	{Name: "CREATE tells the change of the directory", By: "RFC 8881, 18.4.3: cinfo", run: func(t *T) {
		before := t.attrsOf(t.dir(), nfs4.AttrChange).Change
		o := create(nfs4.TypeDir, "d", mode(0o755))
		t.want(nfs4.OK, putFH(t.dir()), o)
		res := o.res.(*nfs4.CreateRes)
		assert.Equal(t, before, res.Dir.Before)
		assert.Equal(t, t.attrsOf(t.dir(), nfs4.AttrChange).Change, res.Dir.After)
		assert.NotEqual(t, res.Dir.Before, res.Dir.After)
	}},
}

// removals are scenarios of REMOVE.
var removals = []Scenario{
	{Name: "REMOVE of objects of each type", By: "RFC 8881, 18.25.3", run: func(t *T) {
		t.each(func(name string, _ nfs4.FileType, _ nfs4.FH) {
			o := remove("of type " + name)
			t.want(nfs4.OK, putFH(t.dir()), o)
			assert.NotEqual(t, o.res.(*nfs4.ChangeRes).Dir.Before, o.res.(*nfs4.ChangeRes).Dir.After, name)
			t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("of type "+name))
			t.want(nfs4.ErrNoEnt, putFH(t.dir()), remove("of type "+name))
		})
	}},
	{Name: "REMOVE of a directory that is not empty", By: "RFC 8881, 15.1.4.10: NFS4ERR_NOTEMPTY", run: func(t *T) {
		fh := t.object(nfs4.TypeDir, "d")
		t.want(nfs4.OK, putFH(fh), create(nfs4.TypeDir, "inner", mode(0o755)))
		t.want(nfs4.ErrNotEmpty, putFH(t.dir()), remove("d"))
		t.want(nfs4.OK, putFH(fh), remove("inner"))
		t.want(nfs4.OK, putFH(t.dir()), remove("d"))
	}},
	{Name: "REMOVE of names that cannot be", By: "RFC 8881, 18.25.3, 15.1.7", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		for name, want := range badNames {
			t.oneOf(append([]nfs4.Status{nfs4.ErrNoEnt}, want...), putFH(t.dir()), remove(name))
		}
		t.want(nfs4.ErrInval, putFH(t.dir()), remove(""))
	}},
	{Name: "REMOVE in what is no directory", By: "RFC 8881, 15.1.2.6: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.notDirs(func(fh nfs4.FH) { t.want(nfs4.ErrNotDir, putFH(fh), remove("x")) })
	}},
	{Name: "REMOVE without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.make(create(nfs4.TypeDir, "private", mode(0o755)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(fh), create(nfs4.TypeDir, "d", mode(0o777)))
		s := t.dial().as(7).client(t.unique()).session().ready()
		s.want(nfs4.ErrAccess, putFH(fh), remove("d"))
	}},
	{Name: "REMOVE keeps the current filehandle", By: "RFC 8881, 18.25.3", run: func(t *T) {
		t.object(nfs4.TypeDir, "d")
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(t.dir()), remove("d"), getFH(&got))
		assert.Equal(t, t.dir(), got.Object)
	}},
}

// move renames within the scenario's directory.
func (t *T) move(want []nfs4.Status, from, to string) *nfs4.RenameRes {
	o := rename(from, to)
	t.oneOf(want, putFH(t.dir()), saveFH(), o)
	return o.res.(*nfs4.RenameRes)
}

var good = []nfs4.Status{nfs4.OK}

// renames are scenarios of RENAME and LINK.
var renames = []Scenario{
	{Name: "RENAME of objects of each type", By: "RFC 8881, 18.26.3", run: func(t *T) {
		t.each(func(name string, _ nfs4.FileType, fh nfs4.FH) {
			res := t.move(good, "of type "+name, "new "+name)
			assert.NotEqual(t, res.Source.Before, res.Source.After)
			var got nfs4.HandleRes
			t.want(nfs4.OK, putFH(t.dir()), lookup("new "+name), getFH(&got))
			assert.Equal(t, fh, got.Object, name)
			t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("of type "+name))
		})
	}},
	{Name: "RENAME to another directory", By: "RFC 8881, 18.26.3", run: func(t *T) {
		a, b := t.object(nfs4.TypeDir, "a"), t.object(nfs4.TypeDir, "b")
		t.want(nfs4.OK, putFH(a), create(nfs4.TypeDir, "x", mode(0o755)))
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(a), saveFH(), putFH(b), rename("x", "y"), getFH(&got))
		assert.Equal(t, b, got.Object, "18.26.3: the current filehandle stays the target directory")
		t.want(nfs4.OK, putFH(b), lookup("y"))
		t.want(nfs4.ErrNoEnt, putFH(a), lookup("x"))
	}},
	{Name: "RENAME of a missing name", By: "RFC 8881, 15.1.4.8: NFS4ERR_NOENT", run: func(t *T) {
		t.move([]nfs4.Status{nfs4.ErrNoEnt}, "missing", "new")
	}},
	{Name: "RENAME of names that cannot be", By: "RFC 8881, 18.26.3, 18.26.4", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		t.object(nfs4.TypeDir, "d")
		for name, want := range badNames {
			t.move(want, "d", name)
			t.move(append([]nfs4.Status{nfs4.ErrNoEnt}, want...), name, "new")
		}
		t.move([]nfs4.Status{nfs4.ErrInval}, "", "new")
		t.want(nfs4.OK, putFH(t.dir()), lookup("d"))
	}},
	{Name: "RENAME with what is no directory", By: "RFC 8881, 18.26.4: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.notDirs(func(fh nfs4.FH) {
			t.want(nfs4.ErrNotDir, putFH(fh), saveFH(), putFH(t.dir()), rename("x", "y"))
			t.want(nfs4.ErrNotDir, putFH(t.dir()), saveFH(), putFH(fh), rename("of type file", "y"))
		})
	}},
	{Name: "RENAME to names that exist", By: "RFC 8881, 18.26.3: NFS4ERR_EXIST if they are not compatible", Linux: "NFS4ERR_NOTDIR", run: func(t *T) {
		exist := []nfs4.Status{nfs4.ErrExist, nfs4.ErrNotEmpty} // 15.2 lists both
		t.object(nfs4.TypeDir, "empty")
		full := t.object(nfs4.TypeDir, "full")
		t.want(nfs4.OK, putFH(full), create(nfs4.TypeDir, "inner", mode(0o755)))
		t.object(nfs4.TypeDir, "d")
		t.object(nfs4.TypeReg, "f")
		t.object(nfs4.TypeLnk, "l")
		t.move(exist[:1], "d", "f")
		t.move(exist[:1], "d", "l")
		t.move(exist[:1], "f", "d")
		t.move(exist, "l", "full")
		t.move(exist, "d", "full")
		t.move(good, "d", "empty")
		t.move(good, "f", "l")
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("f"))
	}},
	{Name: "RENAME of a directory into itself", By: "RFC 8881, 15.2: NFS4ERR_INVAL", run: func(t *T) {
		fh := t.object(nfs4.TypeDir, "d")
		t.want(nfs4.ErrInval, putFH(t.dir()), saveFH(), putFH(fh), rename("d", "x"))
	}},
	{Name: "RENAME to itself", By: "RFC 8881, 18.26.3: MUST perform no action and return NFS4_OK", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.move(good, "f", "f")
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(t.dir()), lookup("f"), getFH(&got))
		assert.Equal(t, fh, got.Object)
	}},
	{Name: "RENAME to another link of the file", By: "RFC 8881, 18.26.3: MUST perform no action and return NFS4_OK", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), saveFH(), putFH(t.dir()), link("g"))
		t.move(good, "f", "g")
		t.want(nfs4.OK, putFH(t.dir()), lookup("f"))
		t.want(nfs4.OK, putFH(t.dir()), lookup("g"))
	}},
	{Name: "RENAME without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.make(create(nfs4.TypeDir, "private", mode(0o755)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(fh), create(nfs4.TypeDir, "d", mode(0o777)))
		s := t.dial().as(7).client(t.unique()).session().ready()
		s.want(nfs4.ErrAccess, putFH(fh), saveFH(), rename("d", "e"))
	}},
	{Name: "LINK", By: "RFC 8881, 18.9.3", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(fh), saveFH(), putFH(t.dir()), link("g"), getFH(&got))
		assert.Equal(t, t.dir(), got.Object)
		assert.EqualValues(t, 2, t.attrsOf(fh, nfs4.AttrNumLinks).NumLinks, "18.9.4: one more")
		t.want(nfs4.OK, putFH(t.dir()), lookup("g"), getFH(&got))
		require.Equal(t, t.attrsOf(fh, nfs4.AttrFileID).FileID, t.attrsOf(bytes.Clone(got.Object), nfs4.AttrFileID).FileID)
		t.want(nfs4.ErrExist, putFH(fh), saveFH(), putFH(t.dir()), link("g"))
		t.want(nfs4.ErrExist, putFH(fh), saveFH(), putFH(t.dir()), link("f"))
	}},
	{Name: "LINK of objects of each type", By: "RFC 8881, 18.9.3", run: func(t *T) {
		t.each(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			want := []nfs4.Status{nfs4.OK, nfs4.ErrNotSupp, nfs4.ErrWrongType, nfs4.ErrSymlink}
			if kind == nfs4.TypeDir {
				want = []nfs4.Status{nfs4.ErrIsDir}
			}
			t.oneOf(want, putFH(fh), saveFH(), putFH(t.dir()), link("link of "+name))
		})
	}},
	{Name: "LINK of names that cannot be", By: "RFC 8881, 18.9.4, 15.1.7", Linux: "NFS4ERR_ACCESS for slashes", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		for name, want := range badNames {
			t.oneOf(want, putFH(fh), saveFH(), putFH(t.dir()), link(name))
		}
	}},
	{Name: "LINK in what is no directory", By: "RFC 8881, 15.1.2.6: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		f := t.object(nfs4.TypeReg, "f")
		t.notDirs(func(fh nfs4.FH) { t.want(nfs4.ErrNotDir, putFH(f), saveFH(), putFH(fh), link("x")) })
	}},
}
