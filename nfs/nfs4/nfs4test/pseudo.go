package nfs4test

import (
	"slices"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// isBelowRoot reports whether the scenario's file system is below the root, which
// then is part of a pseudo file system.
func (t *T) isBelowRoot() bool { return len(t.Path) > 0 }

// roots are scenarios for the server's root and the path to a file system.
var roots = []Scenario{
	{Name: "the way from the root", By: "RFC 8881, 7.3: LOOKUPs lead to each file system", run: func(t *T) {
		ops := []op{putRootFH()}
		var fsids []nfs4.FSID
		var attr nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putRootFH(), getAttr(&attr, nfs4.AttrFSID))
		fsids = append(fsids, attr.Attrs.FSID)
		for _, name := range t.Path {
			ops = append(ops, lookupOp(name))
			t.expectStatus(nfs4.OK, append(slices.Clone(ops), getAttr(&attr, nfs4.AttrFSID, nfs4.AttrType))...)
			assert.Equal(t, nfs4.TypeDir, attr.Attrs.Type)
			fsids = append(fsids, attr.Attrs.FSID)
		}
		if t.isBelowRoot() {
			assert.NotEqual(t, fsids[0], fsids[len(fsids)-1], "7.3: the pseudo file system has an fsid of its own")
		}
		assert.Equal(t, fsids[len(fsids)-1], t.getAttrs(t.ownDir(), nfs4.AttrFSID).FSID)
	}},
	{Name: "the filehandle at the root of a file system", By: "RFC 8881, 7.3, 4.2.1", run: func(t *T) {
		var one, two nfs4.HandleRes
		t.expectStatus(nfs4.OK, append(t.lookupPathOps(), getFH(&one))...)
		fh := slices.Clone(one.Object)
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupP(), getFH(&two))
		assert.Equal(t, fh, two.Object, "LOOKUPP leads to it too")
		t.expectStatus(nfs4.OK, putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))
	}},
	{Name: "changes of the pseudo file system", By: "RFC 8881, 7.3: it is read-only: NFS4ERR_ROFS", run: func(t *T) {
		if !t.isBelowRoot() {
			return
		}
		for _, kind := range []nfs4.FileType{nfs4.TypeDir, nfs4.TypeLnk, nfs4.TypeFIFO} {
			t.expectStatus(nfs4.ErrROFS, putRootFH(), createOp(kind, "new", modeAttrs(0o755)))
		}
		t.expectStatus(nfs4.ErrROFS, putRootFH(), openOp(withCreate(openName("new", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes)))
		t.expectStatus(nfs4.ErrROFS, putRootFH(), setAttr(nfs4.StateID{}, modeAttrs(0o700)))
		for _, o := range []op{removeOp("missing"), renameOp("missing", "new")} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrROFS, nfs4.ErrNoEnt}, putRootFH(), saveFH(), o)
		}
		t.expectStatus(nfs4.ErrNoEnt, putRootFH(), lookupOp("new"))
	}},
	{Name: "REMOVE and RENAME of the root of a file system", By: "RFC 8881, 15.2: NFS4ERR_ROFS, NFS4ERR_NOTEMPTY, NFS4ERR_XDEV, NFS4ERR_ACCESS", run: func(t *T) {
		if !t.isBelowRoot() {
			return
		}
		above := t.lookupPathOps()[:len(t.Path)]
		name := t.Path[len(t.Path)-1]
		for _, o := range []op{removeOp(name), renameOp(name, "x")} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrROFS, nfs4.ErrNotEmpty, nfs4.ErrXDev, nfs4.ErrAccess}, append(slices.Clone(above), saveFH(), o)...)
		}
		t.expectStatus(nfs4.OK, t.lookupPathOps()...)
	}},
	{Name: "RENAME and LINK between file systems", By: "RFC 8881, 18.9.4, 18.26.3: NFS4ERR_XDEV", run: func(t *T) {
		if !t.isBelowRoot() {
			return
		}
		fh := t.newObject(nfs4.TypeReg, "f")
		want := []nfs4.Status{nfs4.ErrXDev, nfs4.ErrROFS}
		t.expectOneOf(want, putFH(fh), saveFH(), putRootFH(), linkOp("x"))
		t.expectOneOf(want, putFH(t.ownDir()), saveFH(), putRootFH(), renameOp("f", "x"))
		t.expectOneOf(want, putRootFH(), saveFH(), putFH(t.ownDir()), renameOp("x", "f"))
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("f"))
	}},
	{Name: "the fileid that a file system covers", By: "RFC 8881, 5.8.2.23: mounted_on_fileid is that of READDIR in the parent", run: func(t *T) {
		if !t.isBelowRoot() {
			return
		}
		a := nfs4.AttrMountedOnFileID
		var top nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, append(t.lookupPathOps(), getAttr(&top, a, nfs4.AttrFileID))...)
		var all listing
		above := t.lookupPathOps()[:len(t.Path)]
		t.expectStatus(nfs4.OK, append(above, readDir(nfs4.ReadDirArgs{DirCount: 4096, MaxCount: 4096, Request: nfs4.BitmapOf(a)}, &all))...)
		found := false
		for _, e := range all.entries {
			if string(e.Name) == t.Path[len(t.Path)-1] {
				found = true
				assert.Equal(t, top.Attrs.MountedOnFileID, e.Attrs.MountedOnFileID)
			}
		}
		assert.True(t, found)
		in := t.getAttrs(t.newObject(nfs4.TypeDir, "inner"), a, nfs4.AttrFileID)
		assert.Equal(t, in.FileID, in.MountedOnFileID, "elsewhere it is the fileid")
	}},
	{Name: "READDIR tells what LOOKUP and GETATTR tell", By: "RFC 8881, 18.23.3", run: func(t *T) {
		ids := []nfs4.AttrID{nfs4.AttrType, nfs4.AttrFileID, nfs4.AttrMode, nfs4.AttrNumLinks, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrChange, nfs4.AttrFileHandle, nfs4.AttrOwner, nfs4.AttrRawDev, nfs4.AttrTimeModify}
		t.forEachType(func(string, nfs4.FileType, nfs4.FH) {})
		var all listing
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), readDir(nfs4.ReadDirArgs{DirCount: 16 << 10, MaxCount: 16 << 10, Request: nfs4.BitmapOf(ids...)}, &all))
		for _, e := range all.entries {
			var got nfs4.GetAttrRes
			t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp(string(e.Name)), getAttr(&got, ids...))
			assert.Equal(t, got.Attrs, e.Attrs, "%s", e.Name)
		}
		assert.Len(t, all.entries, len(objectTypes))
	}},
	{Name: "READDIR from each cookie", By: "RFC 8881, 18.23.3: an entry's cookie leads to the next entry", run: func(t *T) {
		fh, _ := t.makeFullDir(20)
		var all listing
		t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{DirCount: 8192, MaxCount: 8192}, &all))
		assert.True(t, all.eof)
		for i, cookie := range all.cookies {
			var rest listing
			t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{Cookie: cookie, Verf: all.Verf, DirCount: 8192, MaxCount: 8192}, &rest))
			assert.ElementsMatch(t, all.names[i+1:], rest.names)
			assert.True(t, rest.eof)
		}
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all.cookies))), len(all.cookies), "cookies differ")
	}},
	{Name: "READDIR while entries come and go", By: "RFC 8881, 18.23.4: an entry that remains is returned once", Linux: "entries are left out: cookies of tmpfs are positions until Linux 6.6", run: func(t *T) {
		fh, want := t.makeFullDir(30)
		var names []string
		a := nfs4.ReadDirArgs{DirCount: 300, MaxCount: 300}
		for i := 0; i < 100; i++ {
			var res listing
			t.expectStatus(nfs4.OK, putFH(fh), readDir(a, &res))
			names = append(names, res.names...)
			if res.eof {
				break
			}
			t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeDir, "later "+string(rune('a'+i)), modeAttrs(0o755)))
			if i > 0 {
				t.expectStatus(nfs4.OK, putFH(fh), removeOp("later "+string(rune('a'+i-1))))
			}
			a.Cookie, a.Verf = res.cookies[len(res.cookies)-1], res.Verf
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n[0] == 'l' })
		slices.Sort(names)
		assert.Equal(t, want, names)
	}},
	{Name: "READDIR by cookies beyond all", By: "RFC 8881, 15.1.1.2, 15.2: NFS4ERR_BAD_COOKIE, NFS4ERR_INVAL, or the end", run: func(t *T) {
		fh, _ := t.makeFullDir(3)
		var first listing
		t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{DirCount: 4096, MaxCount: 4096}, &first))
		for _, cookie := range []uint64{1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			var res listing
			t.expectOneOf([]nfs4.Status{nfs4.OK, nfs4.ErrBadCookie, nfs4.ErrInval, nfs4.ErrNotSame}, putFH(fh),
				readDir(nfs4.ReadDirArgs{Cookie: cookie, Verf: first.Verf, DirCount: 4096, MaxCount: 4096}, &res))
		}
	}},
	{Name: "READDIR with rdattr_error", By: "RFC 8881, 18.23.3, 5.8.1.12: NFS4_OK for each entry without an error", run: func(t *T) {
		fh, want := t.makeFullDir(3)
		var all listing
		t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{
			DirCount: 4096, MaxCount: 4096, Request: nfs4.BitmapOf(nfs4.AttrRdattrError, nfs4.AttrType),
		}, &all))
		for _, e := range all.entries {
			assert.Equal(t, nfs4.OK, e.Attrs.RdattrError)
			assert.Equal(t, nfs4.TypeDir, e.Attrs.Type)
		}
		assert.Len(t, all.entries, len(want))
	}},
}
