package nfs4test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// spellings are names that are unlike others, and that all hosts of POSIX have.
var spellings = []string{
	" ", "  ", "a", "A", "a ", " a", "-rf", "*", "?", "\\", "a\\b", "a:b", "\"", "'", "$(x)", "~", "\t", "new\nline", "\x01", "\x7f", "...", "..a",
	"\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f600", strings.Repeat("x", 255), strings.Repeat("\u00e9", 127),
}

// spelled are scenarios of the bytes of names.
var spelled = []Scenario{
	{Name: "names of many bytes", By: "RFC 8881, 14.4, 14.5: names are told apart and kept as they are", run: func(t *T) {
		dir := t.object(nfs4.TypeDir, "names")
		for _, name := range spellings {
			t.want(nfs4.OK, putFH(dir), create(nfs4.TypeDir, name, mode(0o755)))
			t.want(nfs4.ErrExist, putFH(dir), create(nfs4.TypeDir, name, mode(0o755)))
		}
		names, _ := t.listAll(dir, 4096, nfs4.Bitmap{})
		want := slices.Sorted(slices.Values(spellings))
		assert.Equal(t, want, names)
		for _, name := range spellings {
			t.want(nfs4.OK, putFH(dir), lookup(name))
			t.want(nfs4.OK, putFH(dir), remove(name))
		}
	}},
	{Name: "names of many bytes in OPEN, LINK and RENAME", By: "RFC 8881, 14.4, 14.5", run: func(t *T) {
		dir := t.object(nfs4.TypeDir, "names")
		for _, name := range spellings {
			var fh nfs4.HandleRes
			a := creating(openName(name, "a", nfs4.ShareBoth, 0), nfs4.Guarded, mode(0o644))
			t.want(nfs4.OK, putFH(dir), open(a, new(nfs4.OpenRes)), getFH(&fh), closeCurrent())
			t.want(nfs4.OK, putFH(slices.Clone(fh.Object)), saveFH(), putFH(dir), link("a link"), saveFH(), rename("a link", "a link to it"))
			t.want(nfs4.OK, putFH(dir), saveFH(), rename("a link to it", name)) // another name of the same file: both stay
			t.want(nfs4.OK, putFH(dir), remove("a link to it"))
			t.want(nfs4.OK, putFH(dir), remove(name))
		}
	}},
	{Name: "names that are not UTF-8", By: "RFC 8881, 14.5: NFS4ERR_INVAL, unless fs_charset_cap says that there are such names", run: func(t *T) {
		a := t.attrsOf(t.dir(), nfs4.AttrFSCharsetCap)
		allowed := !a.Mask.Has(nfs4.AttrFSCharsetCap) || a.FSCharsetCap&nfs4.CharsetContainsNonUTF8 != 0
		dir := t.object(nfs4.TypeDir, "names")
		var want []string
		for _, name := range []string{"\xc0\xc1", "\xf5", "\x80", "cut \xe2\x82", "\xed\xa0\x80", "\xff\xfe"} {
			if !allowed {
				t.want(nfs4.ErrInval, putFH(dir), create(nfs4.TypeDir, name, mode(0o755)))
				continue
			}
			t.want(nfs4.OK, putFH(dir), create(nfs4.TypeDir, name, mode(0o755)))
			want = append(want, name)
		}
		slices.Sort(want)
		names, _ := t.listAll(dir, 4096, nfs4.Bitmap{})
		assert.Equal(t, want, names)
	}},
	{Name: "names that differ in case", By: "RFC 8881, 5.8.2.3, 5.8.2.4: case_insensitive, case_preserving", run: func(t *T) {
		a := t.attrsOf(t.dir(), nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving)
		fh := t.object(nfs4.TypeDir, "Name")
		var got nfs4.HandleRes
		if a.CaseInsensitive {
			t.want(nfs4.OK, putFH(t.dir()), lookup("nAME"), getFH(&got))
			assert.Equal(t, fh, got.Object)
			return
		}
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("nAME"))
		other := t.object(nfs4.TypeDir, "nAME")
		assert.NotEqual(t, fh, other)
	}},
	{Name: "the longest name", By: "RFC 8881, 5.8.2.19: maxname; 5.8.2.24: no_trunc", run: func(t *T) {
		a := t.attrsOf(t.dir(), nfs4.AttrMaxName, nfs4.AttrNoTrunc)
		assert.True(t, a.NoTrunc)
		longest := string(bytes.Repeat([]byte{'n'}, int(a.MaxName)))
		fh := t.object(nfs4.TypeDir, longest)
		var got nfs4.HandleRes
		t.want(nfs4.OK, putFH(t.dir()), lookup(longest), getFH(&got))
		assert.Equal(t, fh, got.Object)
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup(longest[1:]))
		t.want(nfs4.OK, putFH(t.dir()), saveFH(), rename(longest, longest[1:]))
		t.want(nfs4.ErrNameTooLong, putFH(t.dir()), saveFH(), rename(longest[1:], longest+"n"))
	}},
	{Name: "links with long contents", By: "RFC 8881, 18.4.4, 18.24.3", run: func(t *T) {
		for _, n := range []int{1, 59, 60, 1023, 1024, 4095} {
			o := create(nfs4.TypeLnk, "l"+strings.Repeat("i", n%7), nfs4.Attrs{})
			text := strings.Repeat("p/", (n+1)/2)[:n]
			o.args.(*nfs4.CreateArgs).LinkData = []byte(text)
			var res nfs4.ReadLinkRes
			t.want(nfs4.OK, putFH(t.dir()), o, readLink(&res))
			assert.Equal(t, text, string(res.Link))
			var attr nfs4.GetAttrRes
			t.want(nfs4.OK, putFH(t.dir()), lookup("l"+strings.Repeat("i", n%7)), getAttr(&attr, nfs4.AttrSize, nfs4.AttrType))
			assert.EqualValues(t, n, attr.Attrs.Size)
			t.want(nfs4.OK, putFH(t.dir()), remove("l"+strings.Repeat("i", n%7)))
		}
	}},
	{Name: "REMOVE of the directory that is the current one", By: "RFC 8881, 15.1.2.7: NFS4ERR_STALE, if the handle is used again", run: func(t *T) {
		fh := t.object(nfs4.TypeDir, "d")
		t.want(nfs4.OK, putFH(t.dir()), remove("d"))
		rep := t.session().do(putFH(fh), create(nfs4.TypeDir, "inner", mode(0o755)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrStale, nfs4.ErrNoEnt}, rep.status)
	}},
	{Name: "RENAME over an open file", By: "RFC 8881, 18.26.3: the target is replaced", run: func(t *T) {
		f := t.file("f", "old")
		t.object(nfs4.TypeReg, "g")
		t.move(good, "g", "f")
		rep := t.session().do(putFH(f.fh), read(f.id, 0, 10, new(nfs4.ReadRes)))
		assert.Contains(t, goneOrNot, rep.status)
		t.session().do(putFH(f.fh), closeFile(f.id))
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("g"))
	}},
	{Name: "RENAME tells the changes of both directories", By: "RFC 8881, 18.26.3: source_cinfo, target_cinfo", run: func(t *T) {
		a, b := t.object(nfs4.TypeDir, "a"), t.object(nfs4.TypeDir, "b")
		t.want(nfs4.OK, putFH(a), create(nfs4.TypeDir, "x", mode(0o755)))
		change := func(fh nfs4.FH) uint64 { return t.attrsOf(fh, nfs4.AttrChange).Change }
		one, two := change(a), change(b)
		o := rename("x", "y")
		t.want(nfs4.OK, putFH(a), saveFH(), putFH(b), o)
		res := o.res.(*nfs4.RenameRes)
		assert.Equal(t, []uint64{one, change(a), two, change(b)}, []uint64{res.Source.Before, res.Source.After, res.Target.Before, res.Target.After})
	}},
	{Name: "LINK and REMOVE tell the change of the directory", By: "RFC 8881, 18.9.3, 18.25.3: cinfo", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		change := func() uint64 { return t.attrsOf(t.dir(), nfs4.AttrChange).Change }
		for _, ops := range [][]op{{putFH(fh), saveFH(), putFH(t.dir()), link("g")}, {putFH(t.dir()), remove("g")}} {
			before := change()
			t.want(nfs4.OK, ops...)
			res := ops[len(ops)-1].res.(*nfs4.ChangeRes)
			assert.Equal(t, before, res.Dir.Before)
			assert.Equal(t, change(), res.Dir.After)
		}
	}},
	{Name: "LINK by a saved directory and in a missing place", By: "RFC 8881, 18.9.4, 15.2", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		gone := t.object(nfs4.TypeDir, "gone")
		t.want(nfs4.OK, putFH(t.dir()), remove("gone"))
		rep := t.session().do(putFH(fh), saveFH(), putFH(gone), link("x"))
		assert.Contains(t, []nfs4.Status{nfs4.ErrStale, nfs4.ErrNoEnt}, rep.status)
		t.want(nfs4.ErrIsDir, putFH(t.dir()), saveFH(), link("x"))
	}},
}
