package nfs4server

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// becomeRoot makes the caller the superuser, and makes the export's root directory writable for
// every user.
func (g *testServer) becomeRoot() *testServer {
	g.cred.UID, g.cred.GID = 0, 0
	return g
}

// openArgs returns the arguments for an OPEN by name.
func openArgs(owner, name string, access, deny uint32, how nfs4.CreateMode) *nfs4.OpenArgs {
	a := &nfs4.OpenArgs{
		ShareAccess: access, ShareDeny: deny, Owner: nfs4.StateOwner{Owner: []byte(owner)}, How: how, Name: []byte(name),
	}
	if how == nfs4.Unchecked || how == nfs4.Guarded {
		a.Attrs.Mask, a.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o644
	}
	return a
}

// openName opens a name in the export, and returns the results and the handle.
func (g *testServer) openName(a *nfs4.OpenArgs) (nfs4.OpenRes, nfs4.FH, nfs4.Status) {
	g.t.Helper()
	var res nfs4.OpenRes
	var fh nfs4.HandleRes
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, &res}, step{nfs4.OpGetFH, &void, &fh})
	return res, append(nfs4.FH(nil), fh.Object...), st
}

func putStep(fh nfs4.FH) step {
	return step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, newStatusRes()}
}

func (g *testServer) closeFile(fh nfs4.FH, id nfs4.StateID) nfs4.Status {
	g.t.Helper()
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{StateID: id}, new(nfs4.StateIDRes)})
	return st
}

func (g *testServer) readFile(fh nfs4.FH, id nfs4.StateID) (string, nfs4.Status) {
	g.t.Helper()
	var res nfs4.ReadRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 100}, &res})
	return string(res.Data), st
}

func (g *testServer) writeFile(fh nfs4.FH, id nfs4.StateID, data string) nfs4.Status {
	g.t.Helper()
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte(data)}, new(nfs4.WriteRes)})
	return st
}

// makeFile creates a file with content.
func (g *testServer) makeFile(name, content string) nfs4.FH {
	g.t.Helper()
	res, fh, st := g.openName(openArgs("maker", name, nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(g.t, nfs4.OK, st)
	require.Equal(g.t, nfs4.OK, g.writeFile(fh, res.StateID, content))
	require.Equal(g.t, nfs4.OK, g.closeFile(fh, res.StateID))
	return fh
}

// TestOpenArguments checks arguments that are refused as such (R8881-18.16).
//
// R8881-18.16.3-2, R8881-18.16.3-17, R8881-18.16.4-1, R8881-18.16.4-4.
func TestOpenArguments(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	g.makeFile("f", "content")
	for _, access := range []uint32{0, 4, 0x600, 0x601} {
		_, _, st := g.openName(openArgs("o", "f", access, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.ErrInval, st, "%#x", access)
	}
	_, _, st := g.openName(openArgs("o", "f", 1, 4, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrInval, st)
	for name, want := range map[string]nfs4.Status{
		"": nfs4.ErrInval, ".": nfs4.ErrBadName, "..": nfs4.ErrBadName, "a/b": nfs4.ErrBadName, "a\x00b": nfs4.ErrBadName,
		string(make([]byte, 256)): nfs4.ErrNameTooLong, "none": nfs4.ErrNoEnt,
	} {
		_, _, st := g.openName(openArgs("o", name, 1, 0, nfs4.NoCreate))
		assert.Equal(t, want, st, "%.9q", name)
	}
	var dir nfs4.CreateRes
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d")}, &dir},
		putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeLnk, LinkData: []byte("f"), Name: []byte("l")}, &dir},
		putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeFIFO, Name: []byte("p")}, &dir})
	require.Equal(t, nfs4.OK, st)
	for name, want := range map[string]nfs4.Status{"d": nfs4.ErrIsDir, "l": nfs4.ErrSymlink, "p": nfs4.ErrSymlink} {
		_, _, st := g.openName(openArgs("o", name, 1, 0, nfs4.NoCreate))
		assert.Equal(t, want, st, name)
		_, _, st = g.openName(openArgs("o", name, 1, 0, nfs4.Guarded))
		assert.Equal(t, nfs4.ErrExist, st, name)
	}
	st, _ = g.sendSteps(putRootStep(), step{nfs4.OpOpen, openArgs("o", "new", 1, 0, nfs4.Unchecked), new(nfs4.OpenRes)})
	assert.Equal(t, nfs4.ErrROFS, st, "in the pseudo file system")
	st, _ = g.sendSteps(putRootStep(), step{nfs4.OpOpen, openArgs("o", "x", 1, 0, nfs4.NoCreate), new(nfs4.OpenRes)})
	assert.Equal(t, nfs4.ErrIsDir, st)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), step{nfs4.OpOpen, openArgs("o", "g", 1, 0, nfs4.NoCreate), new(nfs4.OpenRes)})
	assert.Equal(t, nfs4.ErrNotDir, st)
	reclaim := openArgs("o", "", 1, 0, nfs4.NoCreate)
	reclaim.Claim = nfs4.ClaimPrevious
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), step{nfs4.OpOpen, reclaim, new(nfs4.OpenRes)})
	assert.Equal(t, nfs4.ErrNoGrace, st, "R8881-8.4.2.1-8, R8881-8.4.3-3")
	byFH := openArgs("o", "", 1, 0, nfs4.NoCreate)
	byFH.Claim = nfs4.ClaimFH
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), step{nfs4.OpOpen, byFH, new(nfs4.OpenRes)})
	assert.Equal(t, nfs4.OK, st)
}

// TestCreateModes checks the four ways to create (R8881-18.16.3).
//
// R8881-18.16.3-5, R8881-18.16.3-12.
func TestCreateModes(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded))
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BitmapOf(nfs4.AttrMode), res.AttrSet)
	assert.Equal(t, nfs4.OpenLocktypePosix, res.Flags, "the client cannot be told of locks")
	assert.NotEqual(t, res.Dir.Before, res.Dir.After)
	require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "hello"))
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded))
	assert.Equal(t, nfs4.ErrExist, st)
	again, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, res.StateID.Other, again.StateID.Other, "one stateid for an owner and a file")
	assert.Equal(t, res.StateID.SeqID+1, again.StateID.SeqID)
	data, st := g.readFile(fh, again.StateID)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", data)
	_, st = g.readFile(fh, res.StateID)
	assert.Equal(t, nfs4.ErrOldStateID, st)
	cut := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked)
	cut.Attrs.Mask.Set(nfs4.AttrSize)
	cut.Attrs.Size = 0
	res, _, st = g.openName(cut)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BitmapOf(nfs4.AttrSize), res.AttrSet)
	data, _ = g.readFile(fh, res.StateID)
	assert.Empty(t, data)
	for _, how := range []nfs4.CreateMode{nfs4.Exclusive, nfs4.Exclusive1} {
		name := string('a' + rune(how))
		a := openArgs("o", name, nfs4.ShareBoth, 0, how)
		a.Verf = nfs4.Verifier{1, 2, 3, 4, 5, 6, 7, 8}
		a.Attrs.Mask, a.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
		first, fh1, st := g.openName(a)
		require.Equal(t, nfs4.OK, st)
		if how == nfs4.Exclusive1 {
			assert.True(t, first.AttrSet.Has(nfs4.AttrMode))
		}
		_, fh2, st := g.openName(a)
		assert.Equal(t, nfs4.OK, st, "a retry finds its own file")
		assert.Equal(t, fh1, fh2)
		a.Verf[0]++
		_, _, st = g.openName(a)
		assert.Equal(t, nfs4.ErrExist, st)
	}
	bad := openArgs("o", "bad", 1, 0, nfs4.Unchecked)
	bad.Attrs.Mask = nfs4.BitmapOf(nfs4.AttrChange)
	_, _, st = g.openName(bad)
	assert.Equal(t, nfs4.ErrInval, st)
	bad.Attrs.Mask = nfs4.BitmapOf(nfs4.AttrHidden)
	_, _, st = g.openName(bad)
	assert.Equal(t, nfs4.ErrAttrNotSupp, st)
	bad.Attrs.Mask, bad.Attrs.Owner = nfs4.BitmapOf(nfs4.AttrOwner), []byte("nobody@nowhere")
	_, _, st = g.openName(bad)
	assert.Equal(t, nfs4.ErrBadOwner, st)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("bad"))
	assert.Equal(t, nfs4.ErrNoEnt, st, "what was refused has not been made")
}

// TestShares checks share reservations between owners and clients (R8881-9.7).
//
// R8881-18.18.3-2, R8881-18.22.3-3, R8881-18.32.3-4,
// R8881-18.32.4-2.
func TestShares(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	first, _, st := g.openName(openArgs("a", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	_, _, st = g.openName(openArgs("b", "f", nfs4.ShareWrite, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrShareDenied, st)
	_, _, st = g.openName(openArgs("b", "f", nfs4.ShareRead, nfs4.ShareRead, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrShareDenied, st)
	assert.Equal(t, nfs4.ErrLocked, g.writeFile(fh, nfs4.AnonymousStateID, "x"))
	assert.Equal(t, nfs4.ErrOpenMode, g.writeFile(fh, first.StateID, "x"))
	assert.Equal(t, nfs4.ErrLocked, g.writeFile(fh, nfs4.BypassStateID, "x"), "bypass is for READ alone")
	_, st = g.readFile(fh, nfs4.AnonymousStateID)
	assert.Equal(t, nfs4.OK, st)
	_, _, st = g.openName(openArgs("a", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrShareDenied, st, "an owner's own reservation counts too")
	assert.Equal(t, nfs4.OK, g.closeFile(fh, first.StateID))
	_, _, st = g.openName(openArgs("a", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	up, _, st := g.openName(openArgs("a", "f", nfs4.ShareBoth, nfs4.ShareWrite, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.OK, g.writeFile(fh, up.StateID, "x"))
	var down nfs4.StateIDRes
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: up.StateID, ShareAccess: nfs4.ShareWrite}, &down})
	assert.Equal(t, nfs4.ErrInval, st, "no OPEN asked for that alone")
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: up.StateID, ShareAccess: nfs4.ShareRead}, &down})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrOpenMode, g.writeFile(fh, down.StateID, "x"))
	assert.Equal(t, nfs4.ErrOldStateID, g.closeFile(fh, up.StateID))
	assert.Equal(t, nfs4.OK, g.closeFile(fh, down.StateID))
	assert.Equal(t, nfs4.ErrBadStateID, g.closeFile(fh, down.StateID))
	_, _, st = g.openName(openArgs("b", "f", nfs4.ShareWrite, nfs4.ShareBoth, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
	_, st = g.readFile(fh, nfs4.AnonymousStateID)
	assert.Equal(t, nfs4.ErrLocked, st)
	_, st = g.readFile(fh, nfs4.BypassStateID)
	assert.Equal(t, nfs4.OK, st)
}

// TestOpenEmpties checks that an OPEN that truncates a file changes it, even without write
// access: its caller must have the right to write, and no other open may deny it.
func TestOpenEmpties(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	empty := openArgs("a", "f", nfs4.ShareRead, nfs4.ShareRead, nfs4.Unchecked)
	empty.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}
	denying, _, st := g.openName(openArgs("b", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	empty.ShareDeny = 0
	_, _, st = g.openName(empty)
	assert.Equal(t, nfs4.ErrShareDenied, st)
	require.Equal(t, nfs4.OK, g.closeFile(fh, denying.StateID))

	empty.ShareDeny = nfs4.ShareRead
	g.cred.UID, g.cred.GID = 1000, 1000
	_, _, st = g.openName(empty)
	assert.Equal(t, nfs4.ErrAccess, st)
	got, st := g.readFile(fh, nfs4.AnonymousStateID)
	assert.Equal(t, nfs4.OK, st, "a rejected OPEN denies no access")
	assert.Equal(t, "content", got)

	g.becomeRoot()
	res, _, st := g.openName(empty)
	assert.Equal(t, nfs4.OK, st)
	assert.True(t, res.AttrSet.Has(nfs4.AttrSize))
	got, st = g.readFile(fh, res.StateID)
	assert.Equal(t, nfs4.OK, st)
	assert.Empty(t, got)
}

// TestCurrentStateID checks a COMPOUND's current stateid (R8881-16.2.3.1.2).
//
// R8881-16.2.3.1.2-1, R8881-16.2.3.1.2-2, R8881-16.2.3.1.2-3, R8881-18.19.3-1,
// R8881-18.21.3-1.
func TestCurrentStateID(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	g.makeFile("f", "content")
	var read nfs4.ReadRes
	current := nfs4.CurrentStateID
	opening := step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate), new(nfs4.OpenRes)}
	reading := step{nfs4.OpRead, &nfs4.ReadArgs{StateID: current, Count: 10}, &read}
	closing := step{nfs4.OpClose, &nfs4.CloseArgs{StateID: current}, new(nfs4.StateIDRes)}
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), opening, reading, closing)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "content", string(read.Data))
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), reading)
	assert.Equal(t, nfs4.ErrBadStateID, st)
	save, restore := step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRestoreFH, &void, newStatusRes()}
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), opening, save, putRootStep(), restore, reading, closing)
	assert.Equal(t, nfs4.OK, st, "it moves with SAVEFH and RESTOREFH")
	st, n := g.sendSteps(putRootStep(), lookupStep("x"), opening, putRootStep(), closing)
	assert.Equal(t, nfs4.ErrBadStateID, st, "PUTROOTFH clears it")
	assert.Equal(t, 5, n)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), opening, putStep(g.lookupPath("x", "f")), closing)
	assert.Equal(t, nfs4.ErrBadStateID, st, "and PUTFH, of the same file too")
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), opening, closing, reading)
	assert.Equal(t, nfs4.ErrBadStateID, st)
}

// TestStateIDsOfOthers checks that another client cannot use a stateid (R8881-8.2).
//
// R8881-18.38.3-1, R8881-21-4.
func TestStateIDsOfOthers(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	mine, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	other := *g
	other.seq = 0
	other.connectAs("other")
	_, st = other.readFile(fh, mine.StateID)
	assert.Equal(t, nfs4.ErrBadStateID, st)
	test := func(g *testServer, id nfs4.StateID) nfs4.Status {
		var res nfs4.StatusRes
		a := &nfs4.StateIDArgs{StateID: id}
		st, _ := g.sendSteps(step{nfs4.OpFreeStateID, a, &res})
		return st
	}
	assert.Equal(t, nfs4.ErrBadStateID, test(&other, mine.StateID))
	assert.Equal(t, nfs4.ErrLocksHeld, test(g, mine.StateID))
	assert.Equal(t, nfs4.ErrBadStateID, test(g, nfs4.AnonymousStateID))
	forged := mine.StateID
	forged.Other[11] ^= 1
	_, st = g.readFile(fh, forged)
	assert.Equal(t, nfs4.ErrBadStateID, st)
	late := mine.StateID
	late.SeqID++
	_, st = g.readFile(fh, late)
	assert.Equal(t, nfs4.ErrBadStateID, st)
	fh2 := g.makeFile("g", "other")
	_, st = g.readFile(fh2, mine.StateID)
	assert.Equal(t, nfs4.ErrBadStateID, st, "of another file")
}

// TestReclaimComplete checks that a client must say RECLAIM_COMPLETE first
// (R8881-8.4.2.1-3, R8881-18.51.3-2).
func TestReclaimComplete(t *testing.T) {
	g := newTestServer(t).becomeRoot()
	g.sessionAs("c")
	_, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	assert.Equal(t, nfs4.ErrGrace, st)
	st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{OneFS: true}, newStatusRes()})
	assert.Equal(t, nfs4.ErrNoFileHandle, st, "R8881-18.51.3-4")
	st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
	assert.Equal(t, nfs4.ErrCompleteAlready, st)
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	assert.Equal(t, nfs4.OK, st)
}

// TestExclusiveOfAnother checks that a verifier, which others can read in a file's times, gives
// no right to open the file.
func TestExclusiveOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can act as its callers")
	}
	g := newTestServer(t, newMemoryExport("/x", exports.Options{Insecure: true, NoRootSquash: true})).connectClient().becomeRoot()
	set := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o777}
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: set}, new(nfs4.SetAttrRes)})
	require.Equal(t, nfs4.OK, st)
	a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Exclusive1)
	a.Attrs.Mask, a.Attrs.Mode, a.Verf = nfs4.BitmapOf(nfs4.AttrMode), 0o400, nfs4.Verifier{1}
	g.cred.UID = 1000
	for range 2 {
		_, _, st := g.openName(a)
		assert.Equal(t, nfs4.OK, st, "the maker of a file may write to it, whatever its mode")
	}
	g.cred.UID = 1001
	_, _, st = g.openName(a)
	assert.Equal(t, nfs4.ErrAccess, st)
}

// A fakeUnopenedFS is an embedder's file system that opens no files: reads and writes use
// handles.
type fakeUnopenedFS struct{ vfs.FS }

// TestOpenAccess checks a caller's rights at OPEN, on file systems that do not check them again
// when they open the file (R8881-18.16.3).
func TestOpenAccess(t *testing.T) {
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fakeUnopenedFS{mem.New(mem.Options{Size: 1 << 20})}, Clients: exports.Everyone(free)}).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	for mode, allowed := range map[uint32][]uint32{
		0o000: nil, 0o001: {nfs4.ShareRead}, 0o004: {nfs4.ShareRead}, 0o002: {nfs4.ShareWrite}, 0o006: {nfs4.ShareRead, nfs4.ShareWrite, nfs4.ShareBoth},
	} {
		require.Equal(t, nfs4.OK, g.becomeRoot().setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: mode}))
		g.cred.UID, g.cred.GID = 1000, 1000
		for _, access := range []uint32{nfs4.ShareRead, nfs4.ShareWrite, nfs4.ShareBoth} {
			want := nfs4.ErrAccess
			if slices.Contains(allowed, access) {
				want = nfs4.OK
			}
			res, _, st := g.openName(openArgs("o", "f", access, 0, nfs4.NoCreate))
			assert.Equal(t, want, st, "mode %o, share_access %d", mode, access)
			if st == nfs4.OK {
				require.Equal(t, nfs4.OK, g.closeFile(fh, res.StateID))
			}
		}
	}
}
