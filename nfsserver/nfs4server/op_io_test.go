package nfs4server

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// makeObjects makes a directory, a symbolic link and a FIFO in the export, and returns their
// handles with a file's handle.
func (g *testServer) makeObjects() map[string]nfs4.FH {
	g.t.Helper()
	fhs := map[string]nfs4.FH{"file": g.makeFile("file", "content")}
	for name, a := range map[string]*nfs4.CreateArgs{
		"dir": {Type: nfs4.TypeDir}, "link": {Type: nfs4.TypeLnk, LinkData: []byte("file")}, "fifo": {Type: nfs4.TypeFIFO},
	} {
		a.Name = []byte(name)
		var fh nfs4.HandleRes
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, a, new(nfs4.CreateRes)}, step{nfs4.OpGetFH, &void, &fh})
		require.Equal(g.t, nfs4.OK, st)
		fhs[name] = append(nfs4.FH(nil), fh.Object...)
	}
	return fhs
}

// TestWrongTypes checks the status of data operations on other objects (R8881-15.1.2.9).
//
// R8881-15.1.2.6-1, R8881-18.3.3-3, R8881-18.13.3-2, R8881-18.14.3-1,
// R8881-18.22.3-3, R8881-18.24.4-1, R8881-18.32.4-2.
func TestWrongTypes(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fhs := g.makeObjects()
	want := map[string]nfs4.Status{"file": nfs4.OK, "dir": nfs4.ErrIsDir, "link": nfs4.ErrSymlink, "fifo": nfs4.ErrWrongType}
	for name, fh := range fhs {
		for _, s := range []step{
			{nfs4.OpRead, &nfs4.ReadArgs{Count: 1}, new(nfs4.ReadRes)},
			{nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("x")}, new(nfs4.WriteRes)},
			{nfs4.OpCommit, &nfs4.CommitArgs{}, new(nfs4.CommitRes)},
		} {
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, want[name], st, "%s of %s", s.op, name)
		}
		st, _ := g.sendSteps(putStep(fh), lookupStep("name"))
		assert.Equal(t, map[string]nfs4.Status{"file": nfs4.ErrNotDir, "dir": nfs4.ErrNoEnt, "link": nfs4.ErrSymlink, "fifo": nfs4.ErrNotDir}[name], st, name)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpLookupP, &void, newStatusRes()})
		assert.Equal(t, map[string]nfs4.Status{"file": nfs4.ErrNotDir, "dir": nfs4.OK, "link": nfs4.ErrSymlink, "fifo": nfs4.ErrNotDir}[name], st, name)
		var link nfs4.ReadLinkRes
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpReadLink, &void, &link})
		if name == "link" {
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, "file", string(link.Link))
		} else {
			assert.Equal(t, nfs4.ErrWrongType, st, name)
		}
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000}, new(dirListing)})
		if name == "dir" {
			assert.Equal(t, nfs4.OK, st)
		} else {
			assert.Equal(t, nfs4.ErrNotDir, st, name)
		}
	}
	for _, s := range []step{
		{nfs4.OpRead, &nfs4.ReadArgs{Count: 1}, new(nfs4.ReadRes)},
		{nfs4.OpWrite, &nfs4.WriteArgs{}, new(nfs4.WriteRes)},
		{nfs4.OpCommit, &nfs4.CommitArgs{}, new(nfs4.CommitRes)},
	} {
		st, _ := g.sendSteps(putRootStep(), s)
		assert.Equal(t, nfs4.ErrIsDir, st, "%s of a pseudo node", s.op)
	}
}

// TestOffsets checks reads and writes at both ends of a file's possible range (R8881-3.1-2,
// R8881-5.8.2.17-1).
//
// R8881-18.22.3-1, R8881-18.32.4-2.
func TestOffsets(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	for _, tt := range []struct {
		offset uint64
		count  uint32
		data   string
		eof    bool
	}{
		{0, 0, "", false},
		{0, 5, "01234", false},
		{5, 5, "56789", true},
		{9, 100, "9", true},
		{10, 1, "", true},
		{11, 1, "", true},
		{math.MaxInt64, 1, "", true},
		{math.MaxUint64, math.MaxUint32, "", true},
	} {
		var res nfs4.ReadRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Offset: tt.offset, Count: tt.count}, &res})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, tt.data, string(res.Data), tt)
		assert.Equal(t, tt.eof, res.EOF, tt)
	}
	for _, off := range []uint64{math.MaxInt64, math.MaxUint64} {
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Offset: off, Data: []byte("x")}, new(nfs4.WriteRes)})
		assert.Equal(t, nfs4.ErrFBig, st)
	}
	for _, a := range []nfs4.CommitArgs{{}, {Offset: 100, Count: 1}, {Offset: math.MaxInt64, Count: 5}, {Offset: math.MaxUint64, Count: 1}} {
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpCommit, &a, new(nfs4.CommitRes)})
		assert.Equal(t, nfs4.OK, st, "%v: COMMIT has no NFS4ERR_INVAL", a)
	}
	for _, how := range []nfs4.Stable{nfs4.Unstable, nfs4.DataSync, nfs4.FileSync} {
		var res nfs4.WriteRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Stable: how, Data: []byte("new")}, &res})
		assert.Equal(t, nfs4.OK, st)
		assert.GreaterOrEqual(t, res.Committed, how)
		assert.NotZero(t, res.Verf)
	}
}

// TestReadOnly checks that an export which the client may only read stays as it
// is.
//
// R8881-18.16.3-15, R8881-18.30.4-3, R8881-18.32.4-2.
func TestReadOnly(t *testing.T) {
	e := newMemoryExport("/x", exports.Options{Insecure: true, NoRootSquash: true})
	g := newTestServer(t, e).connectClient().becomeRoot()
	fhs := g.makeObjects()
	e.Clients = exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true, ReadOnly: true})
	require.NoError(t, g.s.exports.SetExports(append(g.s.exports.Exports()[:0], e)))
	dir := []step{putRootStep(), lookupStep("x")}
	empty := openArgs("o", "file", nfs4.ShareRead, 0, nfs4.Unchecked)
	empty.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}
	for name, s := range map[string][]step{
		"empty":  append(dir[:2:2], step{nfs4.OpOpen, empty, new(nfs4.OpenRes)}),
		"write":  {putStep(fhs["file"]), {nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("x")}, new(nfs4.WriteRes)}},
		"set":    {putStep(fhs["file"]), {nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode)}}, new(nfs4.SetAttrRes)}},
		"open":   append(dir[:2:2], step{nfs4.OpOpen, openArgs("o", "file", nfs4.ShareWrite, 0, nfs4.NoCreate), new(nfs4.OpenRes)}),
		"make":   append(dir[:2:2], step{nfs4.OpOpen, openArgs("o", "new", nfs4.ShareRead, 0, nfs4.Unchecked), new(nfs4.OpenRes)}),
		"mkdir":  append(dir[:2:2], step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("new")}, new(nfs4.CreateRes)}),
		"remove": append(dir[:2:2], step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("file")}, new(nfs4.ChangeRes)}),
		"rename": append(dir[:2:2], step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("file"), New: []byte("b")}, new(nfs4.RenameRes)}),
		"link":   {putStep(fhs["file"]), {nfs4.OpSaveFH, &void, newStatusRes()}, putRootStep(), lookupStep("x"), {nfs4.OpLink, &nfs4.NameArgs{Name: []byte("b")}, new(nfs4.ChangeRes)}},
	} {
		st, _ := g.sendSteps(s...)
		assert.Equal(t, nfs4.ErrROFS, st, name)
	}
	_, _, st := g.openName(openArgs("o", "file", nfs4.ShareRead, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putStep(fhs["file"]), step{nfs4.OpCommit, &nfs4.CommitArgs{}, new(nfs4.CommitRes)})
	assert.Equal(t, nfs4.OK, st, "data that was written while the export was writable")
	var res nfs4.AccessRes
	st, _ = g.sendSteps(putStep(fhs["file"]), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 0x3f}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Zero(t, res.Access&(nfs4.AccessModify|nfs4.AccessExtend|nfs4.AccessDelete))
	st, _ = g.sendSteps(putStep(fhs["file"]), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 0x400}, &res})
	assert.Equal(t, nfs4.ErrInval, st)
}

// TestNames checks RENAME, LINK and REMOVE.
//
// R8881-18.25.3-1, R8881-18.26.3-2, R8881-18.26.3-3.
func TestNames(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fhs := g.makeObjects()
	x := []step{putRootStep(), lookupStep("x")}
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	var ch nfs4.ChangeRes
	link := func(name string) (nfs4.Status, int) {
		return g.sendSteps(putStep(fhs["file"]), save, putRootStep(), lookupStep("x"), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte(name)}, &ch})
	}
	st, _ := link("second")
	assert.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, ch.Dir.Before, ch.Dir.After)
	st, _ = link("dir")
	assert.Equal(t, nfs4.ErrExist, st)
	st, _ = link("..")
	assert.Equal(t, nfs4.ErrBadName, st)
	st, _ = g.sendSteps(putStep(fhs["dir"]), save, putRootStep(), lookupStep("x"), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("d2")}, &ch})
	assert.Equal(t, nfs4.ErrIsDir, st)
	rename := func(old, to string) nfs4.Status {
		st, _ := g.sendSteps(append(x[:2:2], save, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(old), New: []byte(to)}, new(nfs4.RenameRes)})...)
		return st
	}
	assert.Equal(t, nfs4.OK, rename("file", "file"))
	assert.Equal(t, nfs4.OK, rename("file", "second"), "two names of one object: nothing happens")
	assert.ElementsMatch(t, []string{"file", "second", "dir", "link", "fifo"}, g.listNames("x"))
	assert.Equal(t, nfs4.ErrNoEnt, rename("none", "b"))
	assert.Equal(t, nfs4.ErrExist, rename("file", "dir"))
	assert.Equal(t, nfs4.ErrExist, rename("dir", "file"))
	assert.Equal(t, nfs4.OK, rename("file", "fifo"))
	assert.ElementsMatch(t, []string{"fifo", "second", "dir", "link"}, g.listNames("x"))
	remove := func(name string) nfs4.Status {
		st, _ := g.sendSteps(append(x[:2:2], step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, &ch})...)
		return st
	}
	st, _ = g.sendSteps(putStep(fhs["dir"]), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("sub")}, new(nfs4.CreateRes)})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrNotEmpty, remove("dir"))
	assert.Equal(t, nfs4.ErrNoEnt, remove("file"))
	assert.Equal(t, nfs4.ErrInval, remove(""))
	for _, name := range []string{"fifo", "second", "link"} {
		assert.Equal(t, nfs4.OK, remove(name), name)
	}
	st, _ = g.sendSteps(putStep(fhs["dir"]), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("sub")}, &ch})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.OK, remove("dir"))
	assert.Empty(t, g.listNames("x"))
	for _, typ := range []nfs4.FileType{0, nfs4.TypeReg, nfs4.TypeAttrDir, 99} {
		st, _ := g.sendSteps(append(x[:2:2], step{nfs4.OpCreate, &nfs4.CreateArgs{Type: typ, Name: []byte("n")}, new(nfs4.CreateRes)})...)
		assert.Equal(t, nfs4.ErrBadType, st, typ)
	}
	st, _ = g.sendSteps(append(x[:2:2], step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeLnk, Name: []byte("n")}, new(nfs4.CreateRes)})...)
	assert.Equal(t, nfs4.ErrInval, st)
}

// TestReadDir checks a long directory in small replies, and cookies that no
// listing gave (R8881-18.23.3).
//
// R8881-18.23.3-1, R8881-18.23.3-4.
func TestReadDir(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	want := map[string]bool{}
	for i := range 100 {
		name := "name" + string(rune('a'+i/10)) + string(rune('a'+i%10))
		want[name] = true
		g.makeFile(name, "")
	}
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFileID, nfs4.AttrRdattrError, nfs4.AttrFileHandle)
	got := map[string]bool{}
	cookie, verf := uint64(0), nfs4.Verifier{}
	for calls := 0; ; calls++ {
		var list dirListing
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{Cookie: cookie, Verf: verf, MaxCount: 700, Request: request}, &list})
		require.Equal(t, nfs4.OK, st)
		for _, name := range list.names {
			assert.False(t, got[name], name)
			got[name] = true
		}
		cookie, verf = list.cookie, list.Verf
		if list.eof {
			assert.Greater(t, calls, 5)
			break
		}
	}
	assert.Equal(t, want, got)
	for _, a := range []nfs4.ReadDirArgs{
		{Cookie: 1, MaxCount: 1000}, {Cookie: 2, MaxCount: 1000}, {Verf: nfs4.Verifier{1}, MaxCount: 1000},
	} {
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &a, new(dirListing)})
		assert.Equal(t, nfs4.ErrBadCookie, st, a)
	}
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 20}, new(dirListing)})
	assert.Equal(t, nfs4.ErrTooSmall, st)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000, Request: nfs4.BitmapOf(nfs4.AttrTimeAccessSet)}, new(dirListing)})
	assert.Equal(t, nfs4.ErrInval, st)
}

// TestAttributes checks that the attributes that a client sets come back, and
// the requests that a client may not make.
//
// R8881-18.7.3-1, R8881-18.15.3-1, R8881-18.15.4-1, R8881-18.15.4-2,
// R8881-18.30.2-1, R8881-18.30.3-2, R8881-18.30.4-3.
func TestAttributes(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", exports.Options{Insecure: true, NoRootSquash: true})).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	set := nfs4.Attrs{
		Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet),
		Size: 5, Mode: 0o4751, Owner: []byte("1234"), OwnerGroup: []byte("4321"),
		TimeAccessSet: nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: -1, Nsec: 5}}, TimeModifySet: nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 1 << 33, Nsec: 7}},
	}
	var done nfs4.SetAttrRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: set}, &done})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, set.Mask, done.AttrsSet)
	get := func(mask nfs4.Bitmap) (nfs4.Attrs, nfs4.Status) {
		var res nfs4.GetAttrRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: mask}, &res})
		return res.Attrs, st
	}
	a, st := get(nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeAccess, nfs4.AttrTimeModify, nfs4.AttrHidden))
	require.Equal(t, nfs4.OK, st)
	assert.False(t, a.Mask.Has(nfs4.AttrHidden), "unsupported bits are cleared")
	assert.Equal(t, []any{uint64(5), uint32(0o4751), "1234", "4321"}, []any{a.Size, a.Mode, string(a.Owner), string(a.OwnerGroup)})
	assert.Equal(t, set.TimeAccessSet.Time, a.TimeAccess)
	assert.Equal(t, set.TimeModifySet.Time, a.TimeModify)
	_, st = get(nfs4.BitmapOf(nfs4.AttrTimeModifySet))
	assert.Equal(t, nfs4.ErrInval, st)
	all, st := get(nfs4.Known.Without(writeOnlyAttrs))
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, supportedMinor2.Without(writeOnlyAttrs), all.Mask)
	assert.Equal(t, supportedMinor2, all.SupportedAttrs)
	assert.False(t, all.SuppattrExclCreat.Has(nfs4.AttrTimeModifySet), "an exclusive create keeps its verifier there")
	for name, bad := range map[string]struct {
		a    nfs4.Attrs
		want nfs4.Status
	}{
		"mode":       {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o10000}, nfs4.ErrInval},
		"size":       {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1 << 63}, nfs4.ErrFBig},
		"owner":      {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("")}, nfs4.ErrInval},
		"zeros":      {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("007")}, nfs4.ErrBadOwner},
		"sign":       {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("+7")}, nfs4.ErrBadOwner},
		"nobody":     {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("4294967295")}, nfs4.ErrBadOwner},
		"time":       {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{Client: true, Time: nfs4.Time{Nsec: 1e9}}}, nfs4.ErrInval},
		"fixed":      {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrFileID)}, nfs4.ErrInval},
		"unknown":    {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrArchive)}, nfs4.ErrAttrNotSupp},
		"mode twice": {nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrModeSetMasked)}, nfs4.ErrInval},
	} {
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: bad.a}, &done})
		assert.Equal(t, bad.want, st, name)
	}
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrModeSetMasked), ModeSetMasked: nfs4.ModeMasked{Value: 0o7, Mask: 0o77}}}, &done})
	assert.Equal(t, nfs4.OK, st)
	a, _ = get(nfs4.BitmapOf(nfs4.AttrMode))
	assert.Equal(t, uint32(0o4707), a.Mode)

	verify := func(op nfs4.Op, a nfs4.Attrs) nfs4.Status {
		st, _ := g.sendSteps(putStep(fh), step{op, &nfs4.VerifyArgs{Attrs: a}, newStatusRes()})
		return st
	}
	same := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrOwner), Size: 5, Owner: []byte("1234")}
	assert.Equal(t, nfs4.OK, verify(nfs4.OpVerify, same))
	assert.Equal(t, nfs4.ErrSame, verify(nfs4.OpNVerify, same))
	same.Size++
	assert.Equal(t, nfs4.ErrNotSame, verify(nfs4.OpVerify, same))
	assert.Equal(t, nfs4.OK, verify(nfs4.OpNVerify, same))
	for _, op := range []nfs4.Op{nfs4.OpVerify, nfs4.OpNVerify} {
		assert.Equal(t, nfs4.ErrInval, verify(op, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrRdattrError)}))
		assert.Equal(t, nfs4.ErrInval, verify(op, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeAccessSet)}))
		assert.Equal(t, nfs4.ErrAttrNotSupp, verify(op, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrHidden)}))
	}
}

// FuzzCompound checks that any bytes after a SEQUENCE get
// results that a client can read, and leave nothing running.
func FuzzCompound(f *testing.F) {
	g := newTestServer(f).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	for _, s := range [][]step{
		{putRootStep(), lookupStep("x"), {nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 500, Request: nfs4.BitmapOf(nfs4.AttrSize)}, nil}},
		{putStep(fh), {nfs4.OpRead, &nfs4.ReadArgs{Count: 10}, nil}, {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.Known}, nil}},
		{putRootStep(), lookupStep("x"), {nfs4.OpOpen, openArgs("o", "f", 3, 0, nfs4.Unchecked), nil}, {nfs4.OpClose, &nfs4.CloseArgs{StateID: nfs4.CurrentStateID}, nil}},
		{putStep(fh), {nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 3}}, nil}},
		{putRootStep(), {nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{}, nil}},
	} {
		var b []byte
		for _, s := range s {
			b = nfs4.AppendOp(b, s.op, s.args)
		}
		f.Add(uint8(len(s)), b)
	}
	seq := g.seq
	f.Fuzz(func(t *testing.T, n uint8, wire []byte) {
		seq++
		head := nfs4.CompoundArgs{Minor: 2, N: uint32(n) + 1}
		b := nfs4.AppendOp(head.AppendTo(nil), nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: seq})
		call := oncrpc.Call{Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, Args: xdr.NewReader(append(b, wire...)), MaxReply: 8192}
		var rep oncrpc.Reply
		require.NoError(t, g.s.ServeRPC(context.Background(), &call, &rep))
		assert.LessOrEqual(t, rep.Len(), 8192)
		r := xdr.NewReader(rep.Head)
		var res nfs4.CompoundRes
		res.Decode(&r)
		require.NoError(t, r.Err())
		assert.LessOrEqual(t, res.N, head.N)
		if res.N == 1 && res.Status == nfs4.ErrBadSession || res.Status == nfs4.ErrSeqMisordered {
			t.Skip("the input has destroyed the session")
		}
		rep.DropItem()
		g.s.state.Sweep()
	})
}
