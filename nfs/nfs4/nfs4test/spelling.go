package nfs4test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// spellings are unusual names that all POSIX hosts accept.
var spellings = []string{
	" ", "  ", "a", "A", "a ", " a", "-rf", "*", "?", "\\", "a\\b", "a:b", "\"", "'", "$(x)", "~", "\t", "new\nline", "\x01", "\x7f", "...", "..a",
	"\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f600", strings.Repeat("x", 255), strings.Repeat("\u00e9", 127),
}

// nameBytes are scenarios for the bytes in names.
var nameBytes = []Scenario{
	{Name: "names of many bytes", By: "RFC 8881, 14.4, 14.5: names are distinct and stored unchanged", run: func(t *T) {
		dir := t.newObject(nfs4.TypeDir, "names")
		for _, name := range spellings {
			t.expectStatus(nfs4.OK, putFH(dir), createOp(nfs4.TypeDir, name, modeAttrs(0o755)))
			t.expectStatus(nfs4.ErrExist, putFH(dir), createOp(nfs4.TypeDir, name, modeAttrs(0o755)))
		}
		names, _ := t.listAll(dir, 4096, nfs4.Bitmap{})
		want := slices.Sorted(slices.Values(spellings))
		assert.Equal(t, want, names)
		for _, name := range spellings {
			t.expectStatus(nfs4.OK, putFH(dir), lookupOp(name))
			t.expectStatus(nfs4.OK, putFH(dir), removeOp(name))
		}
	}},
	{Name: "names of many bytes in OPEN, LINK and RENAME", By: "RFC 8881, 14.4, 14.5", run: func(t *T) {
		dir := t.newObject(nfs4.TypeDir, "names")
		for _, name := range spellings {
			var fh nfs4.HandleRes
			a := withCreate(openName(name, "a", nfs4.ShareBoth, 0), nfs4.Guarded, modeAttrs(0o644))
			t.expectStatus(nfs4.OK, putFH(dir), openOp(a, new(nfs4.OpenRes)), getFH(&fh), closeCurrentOp())
			t.expectStatus(nfs4.OK, putFH(slices.Clone(fh.Object)), saveFH(), putFH(dir), linkOp("a link"), saveFH(), renameOp("a link", "a link to it"))
			t.expectStatus(nfs4.OK, putFH(dir), saveFH(), renameOp("a link to it", name)) // another name for the same file: both remain
			t.expectStatus(nfs4.OK, putFH(dir), removeOp("a link to it"))
			t.expectStatus(nfs4.OK, putFH(dir), removeOp(name))
		}
	}},
	{Name: "names that are not UTF-8", By: "RFC 8881, 14.5: NFS4ERR_INVAL, unless fs_charset_cap says that there are such names", run: func(t *T) {
		a := t.getAttrs(t.ownDir(), nfs4.AttrFSCharsetCap)
		allowed := !a.Mask.Has(nfs4.AttrFSCharsetCap) || a.FSCharsetCap&nfs4.CharsetContainsNonUTF8 != 0
		dir := t.newObject(nfs4.TypeDir, "names")
		var want []string
		for _, name := range []string{"\xc0\xc1", "\xf5", "\x80", "cut \xe2\x82", "\xed\xa0\x80", "\xff\xfe"} {
			if !allowed {
				t.expectStatus(nfs4.ErrInval, putFH(dir), createOp(nfs4.TypeDir, name, modeAttrs(0o755)))
				continue
			}
			t.expectStatus(nfs4.OK, putFH(dir), createOp(nfs4.TypeDir, name, modeAttrs(0o755)))
			want = append(want, name)
		}
		slices.Sort(want)
		names, _ := t.listAll(dir, 4096, nfs4.Bitmap{})
		assert.Equal(t, want, names)
	}},
	{Name: "names that differ in case", By: "RFC 8881, 5.8.2.3, 5.8.2.4: case_insensitive, case_preserving", run: func(t *T) {
		a := t.getAttrs(t.ownDir(), nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving)
		fh := t.newObject(nfs4.TypeDir, "Name")
		var got nfs4.HandleRes
		if a.CaseInsensitive {
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("nAME"), getFH(&got))
			assert.Equal(t, fh, got.Object)
			return
		}
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("nAME"))
		other := t.newObject(nfs4.TypeDir, "nAME")
		assert.NotEqual(t, fh, other)
	}},
	{Name: "the longest name", By: "RFC 8881, 5.8.2.19: maxname; 5.8.2.24: no_trunc", run: func(t *T) {
		a := t.getAttrs(t.ownDir(), nfs4.AttrMaxName, nfs4.AttrNoTrunc)
		assert.True(t, a.NoTrunc)
		longest := string(bytes.Repeat([]byte{'n'}, int(a.MaxName)))
		fh := t.newObject(nfs4.TypeDir, longest)
		var got nfs4.HandleRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp(longest), getFH(&got))
		assert.Equal(t, fh, got.Object)
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp(longest[1:]))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), saveFH(), renameOp(longest, longest[1:]))
		t.expectStatus(nfs4.ErrNameTooLong, putFH(t.ownDir()), saveFH(), renameOp(longest[1:], longest+"n"))
	}},
	{Name: "links with long contents", By: "RFC 8881, 18.4.4, 18.24.3", run: func(t *T) {
		for _, n := range []int{1, 59, 60, 1023, 1024, 4095} {
			o := createOp(nfs4.TypeLnk, "l"+strings.Repeat("i", n%7), nfs4.Attrs{})
			text := strings.Repeat("p/", (n+1)/2)[:n]
			o.args.(*nfs4.CreateArgs).LinkData = []byte(text)
			var res nfs4.ReadLinkRes
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), o, readLink(&res))
			assert.Equal(t, text, string(res.Link))
			var attr nfs4.GetAttrRes
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("l"+strings.Repeat("i", n%7)), getAttr(&attr, nfs4.AttrSize, nfs4.AttrType))
			assert.EqualValues(t, n, attr.Attrs.Size)
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("l"+strings.Repeat("i", n%7)))
		}
	}},
	{Name: "REMOVE of the directory that is the current one", By: "RFC 8881, 15.1.2.7: NFS4ERR_STALE, if the handle is used again", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "d")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("d"))
		rep := t.ownSession().callWithSequence(putFH(fh), createOp(nfs4.TypeDir, "inner", modeAttrs(0o755)))
		assert.Contains(t, []nfs4.Status{nfs4.ErrStale, nfs4.ErrNoEnt}, rep.status)
	}},
	{Name: "RENAME over an open file", By: "RFC 8881, 18.26.3: the target is replaced", run: func(t *T) {
		f := t.newFile("f", "old")
		t.newObject(nfs4.TypeReg, "g")
		t.renameInDir(onlyOK, "g", "f")
		rep := t.ownSession().callWithSequence(putFH(f.fh), readOp(f.id, 0, 10, new(nfs4.ReadRes)))
		assert.Contains(t, removedStatuses, rep.status)
		t.ownSession().callWithSequence(putFH(f.fh), closeFile(f.id))
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("g"))
	}},
	{Name: "RENAME tells the changes of both directories", By: "RFC 8881, 18.26.3: source_cinfo, target_cinfo", run: func(t *T) {
		a, b := t.newObject(nfs4.TypeDir, "a"), t.newObject(nfs4.TypeDir, "b")
		t.expectStatus(nfs4.OK, putFH(a), createOp(nfs4.TypeDir, "x", modeAttrs(0o755)))
		change := func(fh nfs4.FH) uint64 { return t.getAttrs(fh, nfs4.AttrChange).Change }
		one, two := change(a), change(b)
		o := renameOp("x", "y")
		t.expectStatus(nfs4.OK, putFH(a), saveFH(), putFH(b), o)
		res := o.res.(*nfs4.RenameRes)
		assert.Equal(t, []uint64{one, change(a), two, change(b)}, []uint64{res.Source.Before, res.Source.After, res.Target.Before, res.Target.After})
	}},
	{Name: "LINK and REMOVE tell the change of the directory", By: "RFC 8881, 18.9.3, 18.25.3: cinfo", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		change := func() uint64 { return t.getAttrs(t.ownDir(), nfs4.AttrChange).Change }
		for _, ops := range [][]op{{putFH(fh), saveFH(), putFH(t.ownDir()), linkOp("g")}, {putFH(t.ownDir()), removeOp("g")}} {
			before := change()
			t.expectStatus(nfs4.OK, ops...)
			res := ops[len(ops)-1].res.(*nfs4.ChangeRes)
			assert.Equal(t, before, res.Dir.Before)
			assert.Equal(t, change(), res.Dir.After)
		}
	}},
	{Name: "LINK by a saved directory and in a missing place", By: "RFC 8881, 18.9.4, 15.2", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		gone := t.newObject(nfs4.TypeDir, "gone")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("gone"))
		rep := t.ownSession().callWithSequence(putFH(fh), saveFH(), putFH(gone), linkOp("x"))
		assert.Contains(t, []nfs4.Status{nfs4.ErrStale, nfs4.ErrNoEnt}, rep.status)
		t.expectStatus(nfs4.ErrIsDir, putFH(t.ownDir()), saveFH(), linkOp("x"))
	}},
}
