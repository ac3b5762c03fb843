package nfs4server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// createObject makes an object in the export with CREATE.
func (g *testServer) createObject(a nfs4.CreateArgs) (nfs4.CreateRes, nfs4.FH, nfs4.Status) {
	g.t.Helper()
	var res nfs4.CreateRes
	var fh nfs4.HandleRes
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &a, &res}, step{nfs4.OpGetFH, &void, &fh})
	return res, append(nfs4.FH(nil), fh.Object...), st
}

// TestCreateTypes checks CREATE for each type (R8881-18.4.3-1, R8881-18.4.3-2, R8881-18.4.3-6).
func TestCreateTypes(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	for typ, want := range map[nfs4.FileType]nfs4.Status{
		0: nfs4.ErrBadType, nfs4.TypeReg: nfs4.ErrBadType, nfs4.TypeDir: nfs4.OK, nfs4.TypeBlk: nfs4.OK, nfs4.TypeChr: nfs4.OK,
		nfs4.TypeLnk: nfs4.OK, nfs4.TypeSock: nfs4.OK, nfs4.TypeFIFO: nfs4.OK, nfs4.TypeAttrDir: nfs4.ErrBadType,
		nfs4.TypeNamedAttr: nfs4.ErrBadType, 10: nfs4.ErrBadType, ^nfs4.FileType(0): nfs4.ErrBadType,
	} {
		name := "t" + string(rune('a'+typ%26))
		a := nfs4.CreateArgs{Type: typ, Name: []byte(name), LinkData: []byte("to"), Dev: nfs4.SpecData{Major: 7, Minor: 9}}
		res, fh, st := g.createObject(a)
		assert.Equal(t, want, st, typ)
		if st != nfs4.OK {
			continue
		}
		assert.NotEqual(t, res.Dir.Before, res.Dir.After)
		got := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrRawDev))
		assert.Equal(t, typ, got.Type, "the new object is the current filehandle")
		if typ == nfs4.TypeBlk || typ == nfs4.TypeChr {
			assert.Equal(t, a.Dev, got.RawDev)
		}
		_, _, st = g.createObject(a)
		assert.Equal(t, nfs4.ErrExist, st, typ)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("n")}, new(nfs4.CreateRes)})
		if typ != nfs4.TypeDir {
			assert.Equal(t, nfs4.ErrNotDir, st, typ)
		}
	}
	for text, want := range map[string]nfs4.Status{
		"\xff\xfe/./..//x": nfs4.OK, strings.Repeat("l", maxPath): nfs4.OK, "": nfs4.ErrInval, strings.Repeat("l", maxPath+1): nfs4.ErrNameTooLong,
	} {
		_, fh, st := g.createObject(nfs4.CreateArgs{Type: nfs4.TypeLnk, Name: []byte("link"), LinkData: []byte(text)})
		assert.Equal(t, want, st, "%.20q", text)
		if st != nfs4.OK {
			continue
		}
		var link nfs4.ReadLinkRes
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpReadLink, &void, &link})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, text, string(link.Link), "R8881-18.24.4-2")
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("link")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.OK, st)
	}
}

// TestCreateAttributes checks a new object's attributes, and attrset (R8881-18.4.3-3,
// R8881-18.4.3-4, R8881-18.4.3-5).
func TestCreateAttributes(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	want := nfs4.Attrs{
		Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModifySet), Mode: 0o751, Owner: []byte("77"),
		TimeModifySet: nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 5}},
	}
	res, fh, st := g.createObject(nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d"), Attrs: want})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, want.Mask, res.AttrSet)
	got := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModify))
	assert.Equal(t, want.Mode, got.Mode)
	assert.Equal(t, "77", string(got.Owner))
	assert.EqualValues(t, 5, got.TimeModify.Sec)

	_, shared, st := g.createObject(nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("shared"), Attrs: nfs4.Attrs{
		Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwnerGroup), Mode: 0o2777, OwnerGroup: []byte("500"),
	}})
	require.Equal(t, nfs4.OK, st)
	g.cred.UID, g.cred.GID = 1000, 1001
	var child nfs4.HandleRes
	st, _ = g.sendSteps(putStep(shared), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("c")}, &res}, step{nfs4.OpGetFH, &void, &child})
	require.Equal(t, nfs4.OK, st)
	got = g.getAttrs(append(nfs4.FH(nil), child.Object...), nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup))
	assert.Equal(t, "1000", string(got.Owner))
	assert.Equal(t, "500", string(got.OwnerGroup), "of the directory with its set-group-ID bit")
	for _, mask := range []nfs4.AttrID{nfs4.AttrOwner, nfs4.AttrOwnerGroup} {
		_, _, st = g.createObject(nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("stolen"), Attrs: nfs4.Attrs{
			Mask: nfs4.BitmapOf(mask), Owner: []byte("0"), OwnerGroup: []byte("0"),
		}})
		assert.Equal(t, nfs4.ErrPerm, st, mask)
	}
	stolen := openArgs("o", "stolen", nfs4.ShareBoth, 0, nfs4.Guarded)
	stolen.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("0")}
	_, _, st = g.openName(stolen)
	assert.Equal(t, nfs4.ErrPerm, st)
	assert.NotContains(t, g.listNames("x"), "stolen")
	g.cred.GIDs = []uint32{7, 8}
	own := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup), Owner: []byte("1000"), OwnerGroup: []byte("8")}
	res, fh, st = g.createObject(nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("own"), Attrs: own})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, own.Mask, res.AttrSet)
	got = g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup))
	assert.Equal(t, "1000 8", string(got.Owner)+" "+string(got.OwnerGroup))
}

// TestOpenCreates checks OPEN's effect on a name that exists, and a new file's permissions
// (R8881-18.16.3-3, R8881-18.16.3-4, R8881-18.16.4-7).
func TestOpenCreates(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked)
	a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrSize), Mode: 0o111, Size: 3}
	res, _, st := g.openName(a)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.Bitmap{}, res.AttrSet)
	got := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrSize))
	assert.Equal(t, []uint64{0o644, 7}, []uint64{uint64(got.Mode), got.Size}, "only a size of 0 counts")
	a.Attrs.Size = 0
	res, _, st = g.openName(a)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BitmapOf(nfs4.AttrSize), res.AttrSet)
	got = g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrSize))
	assert.Equal(t, []uint64{0o644, 0}, []uint64{uint64(got.Mode), got.Size})
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded))
	assert.Equal(t, nfs4.ErrExist, st)

	g.cred.UID, g.cred.GID = 1000, 1000
	fresh := openArgs("o", "exclusive", nfs4.ShareBoth, 0, nfs4.Exclusive)
	_, fh, st = g.openName(fresh)
	require.Equal(t, nfs4.OK, st)
	got = g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner))
	assert.Zero(t, got.Mode&0o077, "closed to others")
	assert.Equal(t, "1000", string(got.Owner))
}

// TestExclusive checks which attributes an exclusive create accepts, and which attributes the
// reply names as the verifier's place (R8881-18.16.3-6, R8881-18.16.3-7, R8881-18.16.3-9,
// R8881-18.16.4-6).
func TestExclusive(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fh := g.makeFile("f", "")
	can := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSuppattrExclCreat)).SuppattrExclCreat
	inTimes := nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet)
	assert.Equal(t, nfs4.Bitmap{}, can.And(inTimes))
	for id := nfs4.AttrID(0); id < 96; id++ {
		if !nfs4.Known.Has(id) || can.Has(id) || id == nfs4.AttrModeUmask {
			continue
		}
		a := openArgs("o", "refused", nfs4.ShareBoth, 0, nfs4.Exclusive1)
		a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(id), Type: nfs4.TypeReg}
		_, _, st := g.openName(a)
		assert.Contains(t, []nfs4.Status{nfs4.ErrInval, nfs4.ErrAttrNotSupp}, st, id)
	}
	assert.NotContains(t, g.listNames("x"), "refused")
	for how, set := range map[nfs4.CreateMode]nfs4.Bitmap{
		nfs4.Exclusive: inTimes, nfs4.Exclusive1: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet),
	} {
		a := openArgs("o", "new"+string('0'+rune(how)), nfs4.ShareBoth, 0, how)
		a.Verf = nfs4.Verifier{1, 2, 3, 4, 5, 6, 7, 8}
		if how == nfs4.Exclusive1 {
			a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o640}
		}
		res, fh, st := g.openName(a)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, set, res.AttrSet)
		got := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrSize, nfs4.AttrOwner))
		if how == nfs4.Exclusive1 {
			assert.Equal(t, uint32(0o640), got.Mode)
		}
		assert.Equal(t, []any{uint64(0), "0"}, []any{got.Size, string(got.Owner)})
	}
}

// TestExclusiveAfterRestart checks that an exclusive create's verifier outlives the server
// (R8881-18.16.3-5).
func TestExclusiveAfterRestart(t *testing.T) {
	e := newMemoryExport("/x", free)
	for run := range 2 {
		g := newTestServer(t, e).connectClient().becomeRoot()
		for _, how := range []nfs4.CreateMode{nfs4.Exclusive, nfs4.Exclusive1} {
			a := openArgs("o", "f"+string('0'+rune(how)), nfs4.ShareBoth, 0, how)
			a.Verf = nfs4.Verifier{9, 8, 7, 6, 5, 4, 3, 2}
			_, _, st := g.openName(a)
			assert.Equal(t, nfs4.OK, st, run)
			a.Verf[7]++
			_, _, st = g.openName(a)
			assert.Equal(t, nfs4.ErrExist, st)
		}
	}
}
