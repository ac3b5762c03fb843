package nfs4server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// TestComponents checks names in each operation that takes one (R8881-14-1,
// R8881-14.4-1, R8881-14.5-1 to -4, R8881-18.13.3-1, R8881-18.26.4-2).
//
// R8881-14.5-2, R8881-14.5-3, R8881-14.5-4, R8881-18.26.3-1, R8881-18.29.3-1.
func TestComponents(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	x := []step{putRootStep(), lookupStep("x")}
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	forms := map[string]func(name string) []step{
		"LOOKUP": func(n string) []step { return append(x[:2:2], lookupStep(n)) },
		"SECINFO": func(n string) []step {
			return append(x[:2:2], step{nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte(n)}, new(nfs4.SecInfoRes)})
		},
		"OPEN": func(n string) []step {
			return append(x[:2:2], step{nfs4.OpOpen, openArgs("o", n, nfs4.ShareRead, 0, nfs4.NoCreate), new(nfs4.OpenRes)})
		},
		"OPEN, create": func(n string) []step {
			return append(x[:2:2], step{nfs4.OpOpen, openArgs("o", n, nfs4.ShareRead, 0, nfs4.Guarded), new(nfs4.OpenRes)})
		},
		"CREATE": func(n string) []step {
			return append(x[:2:2], step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte(n)}, new(nfs4.CreateRes)})
		},
		"LINK": func(n string) []step {
			return []step{putStep(fh), save, putRootStep(), lookupStep("x"), {nfs4.OpLink, &nfs4.NameArgs{Name: []byte(n)}, new(nfs4.ChangeRes)}}
		},
		"REMOVE": func(n string) []step {
			return append(x[:2:2], step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(n)}, new(nfs4.ChangeRes)})
		},
		"RENAME from": func(n string) []step {
			return append(x[:2:2], save, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(n), New: []byte("to")}, new(nfs4.RenameRes)})
		},
		"RENAME to": func(n string) []step {
			return append(x[:2:2], save, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte(n)}, new(nfs4.RenameRes)})
		},
	}
	for op, form := range forms {
		for name, want := range map[string]nfs4.Status{
			"": nfs4.ErrInval, ".": nfs4.ErrBadName, "..": nfs4.ErrBadName, "a/b": nfs4.ErrBadName, "/": nfs4.ErrBadName,
			"a\x00": nfs4.ErrBadName, strings.Repeat("n", 256): nfs4.ErrNameTooLong,
		} {
			st, _ := g.sendSteps(form(name)...)
			assert.Equal(t, want, st, "%s of %.9q", op, name)
		}
	}
	assert.Equal(t, []string{"f"}, g.listNames("x"))
	names := []string{"f", "\u00e9", "e\u0301", "\xff\xfe", "F", strings.Repeat("n", 255), "...", " "}
	for _, name := range names[1:] {
		st, _ := g.sendSteps(forms["CREATE"](name)...)
		assert.Equal(t, nfs4.OK, st, "%q", name)
		st, _ = g.sendSteps(forms["LOOKUP"](name)...)
		assert.Equal(t, nfs4.OK, st, "%q", name)
	}
	assert.ElementsMatch(t, names, g.listNames("x"), "bytes as they came, two that look alike among them")
	got := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrFSCharsetCap, nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving))
	assert.Equal(t, nfs4.CharsetContainsNonUTF8, got.FSCharsetCap)
	assert.False(t, got.CaseInsensitive, "R8881-14.1.3-1")
	assert.True(t, got.CasePreserving)
}

// TestLink checks LINK's effect on the object and on the directory (R8881-18.9.3-1,
// R8881-18.9.3-2).
//
// R8881-10.8.1-1.
func TestLink(t *testing.T) {
	exclusive := free
	exclusive.Exclusive = true
	g := newTestServer(t, newMemoryExport("/x", exclusive), newMemoryExport("/y", free)).connectClient().becomeRoot()
	fhs := g.makeObjects()
	var dir nfs4.HandleRes
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpGetFH, &void, &dir})
	require.Equal(t, nfs4.OK, st)
	x := append(nfs4.FH(nil), dir.Object...)
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	link := func(from nfs4.FH, name string, to ...step) (nfs4.ChangeInfo, nfs4.Status) {
		var res nfs4.ChangeRes
		st, _ := g.sendSteps(append(append([]step{putStep(from), save}, to...), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte(name)}, &res}, step{nfs4.OpGetFH, &void, &dir})...)
		return res.Dir, st
	}
	before, was := g.getAttrs(fhs["file"], nfs4.BitmapOf(nfs4.AttrNumLinks, nfs4.AttrChange)), g.getAttrs(x, nfs4.BitmapOf(nfs4.AttrChange))
	info, st := link(fhs["file"], "second", putStep(x))
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, x, dir.Object, "the current filehandle stays")
	after, is := g.getAttrs(fhs["file"], nfs4.BitmapOf(nfs4.AttrNumLinks, nfs4.AttrChange)), g.getAttrs(x, nfs4.BitmapOf(nfs4.AttrChange))
	assert.Equal(t, before.NumLinks+1, after.NumLinks)
	assert.NotEqual(t, before.Change, after.Change)
	assert.Equal(t, nfs4.ChangeInfo{Atomic: true, Before: was.Change, After: is.Change}, info)
	for name, tt := range map[string]struct {
		from nfs4.FH
		name string
		to   step
		want nfs4.Status
	}{
		"a name that is there":            {fhs["file"], "dir", putStep(x), nfs4.ErrExist},
		"the same object":                 {fhs["file"], "second", putStep(x), nfs4.ErrExist},
		"a directory":                     {fhs["dir"], "third", putStep(x), nfs4.ErrIsDir},
		"into a file":                     {fhs["file"], "third", putStep(fhs["fifo"]), nfs4.ErrNotDir},
		"into a symbolic link":            {fhs["file"], "third", putStep(fhs["link"]), nfs4.ErrNotDir},
		"to another file system":          {fhs["file"], "third", lookupStep("y"), nfs4.ErrXDev},
		"of a symbolic link, not its end": {fhs["link"], "third", putStep(x), nfs4.OK},
	} {
		to := []step{tt.to}
		if tt.to.op == nfs4.OpLookup {
			to = []step{putRootStep(), tt.to}
		}
		_, st := link(tt.from, tt.name, to...)
		assert.Equal(t, tt.want, st, name)
	}
	var third nfs4.HandleRes
	st, _ = g.sendSteps(putStep(x), lookupStep("third"), step{nfs4.OpGetFH, &void, &third})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.TypeLnk, g.getAttrs(append(nfs4.FH(nil), third.Object...), nfs4.BitmapOf(nfs4.AttrType)).Type)
}

// TestRename checks objects that RENAME replaces, and the two directories
// (R8881-18.26.3-1 to -4).
//
// R8881-18.26.3-2, R8881-18.26.3-4.
func TestRename(t *testing.T) {
	exclusive := free
	exclusive.Exclusive = true
	g := newTestServer(t, newMemoryExport("/x", exclusive), newMemoryExport("/y", free)).connectClient().becomeRoot()
	fhs := g.makeObjects()
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	mkdir := func(at nfs4.FH, name string) nfs4.FH {
		var fh nfs4.HandleRes
		st, _ := g.sendSteps(putStep(at), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte(name)}, new(nfs4.CreateRes)}, step{nfs4.OpGetFH, &void, &fh})
		require.Equal(t, nfs4.OK, st)
		return append(nfs4.FH(nil), fh.Object...)
	}
	from, to := mkdir(fhs["dir"], "from"), mkdir(fhs["dir"], "to")
	mkdir(from, "d")
	mkdir(mkdir(to, "full"), "entry")
	mkdir(to, "empty")
	rename := func(from, to step, old, name string) (nfs4.RenameRes, nfs4.FH, nfs4.Status) {
		var res nfs4.RenameRes
		var fh nfs4.HandleRes
		steps := []step{from, save, to, {nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(old), New: []byte(name)}, &res}, {nfs4.OpGetFH, &void, &fh}}
		if to.op == nfs4.OpLookup {
			steps = append([]step{from, save, putRootStep(), to}, steps[3:]...)
		}
		st, _ := g.sendSteps(steps...)
		return res, append(nfs4.FH(nil), fh.Object...), st
	}
	var source, target [2]uint64
	changes := func(i int) {
		source[i], target[i] = g.getAttrs(from, nfs4.BitmapOf(nfs4.AttrChange)).Change, g.getAttrs(to, nfs4.BitmapOf(nfs4.AttrChange)).Change
	}
	changes(0)
	res, current, st := rename(putStep(from), putStep(to), "d", "moved")
	require.Equal(t, nfs4.OK, st)
	changes(1)
	assert.Equal(t, to, current)
	assert.Equal(t, nfs4.ChangeInfo{Atomic: true, Before: source[0], After: source[1]}, res.Source)
	assert.Equal(t, nfs4.ChangeInfo{Atomic: true, Before: target[0], After: target[1]}, res.Target)
	_, _, st = rename(putStep(to), putStep(to), "moved", "empty")
	assert.Equal(t, nfs4.OK, st, "an empty directory gives way")
	_, _, st = rename(putStep(to), putStep(to), "empty", "full")
	assert.Contains(t, []nfs4.Status{nfs4.ErrExist, nfs4.ErrNotEmpty}, st, "Section 15.2 lists both")
	_, _, st = rename(putStep(fhs["file"]), putStep(to), "d", "e")
	assert.Equal(t, nfs4.ErrNotDir, st)
	_, _, st = rename(putStep(to), putStep(fhs["link"]), "empty", "e")
	assert.Equal(t, nfs4.ErrNotDir, st)
	_, _, st = rename(putStep(to), lookupStep("y"), "empty", "e")
	assert.Equal(t, nfs4.ErrXDev, st)
	_, _, st = rename(putStep(fhs["dir"]), putStep(to), "to", "loop")
	assert.Equal(t, nfs4.ErrInval, st, "R8881-18.26.4-2")
}

// TestRemove checks the directory's change_info4 in REMOVE, and that a file which is
// open can be read on (R8881-18.25.3-1, R8881-18.25.4-1).
func TestRemove(t *testing.T) {
	exclusive := free
	exclusive.Exclusive = true
	g := newTestServer(t, newMemoryExport("/x", exclusive)).connectClient().becomeRoot()
	fhs := g.makeObjects()
	var dir nfs4.HandleRes
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpGetFH, &void, &dir})
	require.Equal(t, nfs4.OK, st)
	x := append(nfs4.FH(nil), dir.Object...)
	for _, name := range []string{"file", "link", "fifo", "dir"} {
		var res nfs4.ChangeRes
		before := g.getAttrs(x, nfs4.BitmapOf(nfs4.AttrChange)).Change
		st, _ := g.sendSteps(putStep(x), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, &res}, step{nfs4.OpGetFH, &void, &dir})
		assert.Equal(t, nfs4.OK, st, name)
		assert.Equal(t, x, dir.Object)
		assert.Equal(t, nfs4.ChangeInfo{Atomic: true, Before: before, After: g.getAttrs(x, nfs4.BitmapOf(nfs4.AttrChange)).Change}, res.Dir)
	}
	for fh, want := range map[string]nfs4.Status{string(x): nfs4.ErrNoEnt, string(fhs["file"]): nfs4.ErrStale} {
		st, _ := g.sendSteps(putStep(nfs4.FH(fh)), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("none")}, new(nfs4.ChangeRes)})
		assert.Equal(t, want, st)
	}
	file := g.makeFile("f", "")
	for _, s := range []step{{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("n")}, new(nfs4.ChangeRes)}} {
		st, _ := g.sendSteps(putStep(file), s)
		assert.Equal(t, nfs4.ErrNotDir, st)
	}
}

// TestNamesOfOpens checks that a name goes while its file is open, but not if an
// open denies others to write (R8881-18.25.4-1).
func TestNamesOfOpens(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	remove := func() nfs4.Status {
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		return st
	}
	replace := func() nfs4.Status {
		g.makeFile("other", "")
		save := step{nfs4.OpSaveFH, &void, newStatusRes()}
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), save, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("other"), New: []byte("f")}, new(nfs4.RenameRes)})
		return st
	}
	for deny, want := range map[uint32]nfs4.Status{
		0: nfs4.OK, nfs4.ShareRead: nfs4.OK, nfs4.ShareWrite: nfs4.ErrFileOpen, nfs4.ShareBoth: nfs4.ErrFileOpen,
	} {
		for _, act := range []func() nfs4.Status{remove, replace} {
			fh := g.makeFile("f", "content")
			res, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, deny, nfs4.NoCreate))
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, want, act(), deny)
			if want != nfs4.OK {
				require.Equal(t, nfs4.OK, g.closeFile(fh, res.StateID))
				assert.Equal(t, nfs4.OK, act())
			}
		}
	}
}

// TestRenameOfSameObject checks that RENAME of a name to itself, and to another link of
// its file, does nothing and succeeds: the directory has not changed, opens that deny
// others to write are not in the way, and no client returns a delegation
// (R8881-18.26.3-3).
//
// R8881-18.26.3-3.
func TestRenameOfSameObject(t *testing.T) {
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	onEachFS(t, func(t *testing.T, g *testServer, _ *fakeCountingFS) {
		_, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, nfs4.ShareBoth, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		st, _ = g.sendSteps(putStep(fh), save, putRootStep(), lookupStep("x"), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("g")}, new(nfs4.ChangeRes)})
		require.Equal(t, nfs4.OK, st)
		other := g.newOtherClient()
		for _, name := range []string{"f", "g"} {
			change := g.getAttrs(g.lookupPath("x"), nfs4.BitmapOf(nfs4.AttrChange)).Change
			var res nfs4.RenameRes
			st, _ = other.sendSteps(putRootStep(), lookupStep("x"), save, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte(name)}, &res})
			require.Equal(t, nfs4.OK, st, name)
			for _, dir := range []nfs4.ChangeInfo{res.Source, res.Target} {
				assert.Equal(t, [2]uint64{change, change}, [2]uint64{dir.Before, dir.After}, name)
			}
			assert.Equal(t, change, g.getAttrs(g.lookupPath("x"), nfs4.BitmapOf(nfs4.AttrChange)).Change)
			assert.Equal(t, fh, g.lookupPath("x", "f"))
			assert.Equal(t, fh, g.lookupPath("x", "g"))
		}
	})
	t.Run("delegated", func(t *testing.T) {
		g, back := newDelegServer(t)
		g.makeFileStep("f")
		g.openDelegated("f")
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		st, _ := o.sendSteps(putRootStep(), lookupStep("x"), save, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("f")}, new(nfs4.RenameRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Zero(t, back.callCount())
		assert.Equal(t, 1, g.s.exports.Holders().Len())
	})
}

// TestRenameOverDenied checks that a RENAME which fails for another reason says so,
// although an open of the object that it would replace denies others to write: that
// the objects are incompatible, or that there is none to rename.
func TestRenameOverDenied(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	g.makeObjects()
	_, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	for name, want := range map[string]nfs4.Status{"dir": nfs4.ErrExist, "none": nfs4.ErrNoEnt, "file": nfs4.ErrFileOpen, "link": nfs4.ErrFileOpen} {
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(name), New: []byte("f")}, new(nfs4.RenameRes)})
		assert.Equal(t, want, st, name)
	}
}

// TestLinkOfRemovedFile checks that an open file without a name gets none again: LINK in
// NFSv4.1 has no NFS4ERR_NOENT (RFC 8881, Section 15.2).
func TestLinkOfRemovedFile(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, _ *fakeCountingFS) {
		_, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		require.Equal(t, nfs4.OK, st)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSaveFH, &void, newStatusRes()}, putRootStep(), lookupStep("x"), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("g")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.ErrStale, st)
	})
}

// TestConcurrentCreators checks that the change attributes which creators see
// chain without a gap if they are said to be atomic (R8881-10.8.1-1).
func TestConcurrentCreators(t *testing.T) {
	e := newMemoryExport("/x", exports.Options{Insecure: true, NoRootSquash: true, Exclusive: true})
	g := newTestServer(t, e).connectClient().becomeRoot()
	var seen []nfs4.ChangeInfo
	infos := make(chan nfs4.ChangeInfo, 40)
	done := make(chan bool)
	for c := range 4 {
		own := *g
		own.seq = 0
		own.connectAs("creator" + string('0'+rune(c)))
		go func() {
			for i := range 10 {
				res, _, _ := own.createObject(nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte{'a' + byte(c), 'a' + byte(i)}})
				infos <- res.Dir
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
	close(infos)
	next := map[uint64]nfs4.ChangeInfo{}
	for info := range infos {
		assert.True(t, info.Atomic)
		next[info.Before] = info
		seen = append(seen, info)
	}
	assert.Len(t, next, len(seen), "each change begins where no other does")
	ends := 0
	for _, info := range seen {
		if _, ok := next[info.After]; !ok {
			ends++
		}
	}
	assert.Equal(t, 1, ends, "one chain")
}

// TestAtomicOnDisk checks which name changes are reported as atomic, based on the last reported
// change attribute, in a directory that host processes may change too (R8881-3.3.8-1).
func TestAtomicOnDisk(t *testing.T) {
	g, path := newDiskServer(t)
	dir := g.lookupPath("x")
	known := uint64(0)
	keeps := func(c *nfs4.ChangeInfo) bool { // a client what it knows of the directory
		same := c.Atomic && c.Before == known
		known = c.After
		return same
	}
	open := func(name string) bool {
		t.Helper()
		res, _, st := g.openName(openArgs("o", name, nfs4.ShareBoth, 0, nfs4.Guarded))
		require.Equal(t, nfs4.OK, st)
		return keeps(&res.Dir)
	}
	remove := func(name string) bool {
		t.Helper()
		var res nfs4.ChangeRes
		st, _ := g.sendSteps(putStep(dir), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, &res})
		require.Equal(t, nfs4.OK, st)
		return keeps(&res.Dir)
	}
	assert.False(t, open("a"), "the server has not observed the directory before")
	assert.True(t, open("b"))
	require.NoError(t, os.WriteFile(filepath.Join(path, "c"), nil, 0o600))
	assert.False(t, remove("a"))
	assert.True(t, open("f"))
	fh := g.lookupPath("x", "f")
	assert.True(t, remove("b"))
	var made nfs4.CreateRes
	st, _ := g.sendSteps(putStep(dir), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d")}, &made})
	require.Equal(t, nfs4.OK, st)
	assert.True(t, keeps(&made.Dir))
	var renamed nfs4.RenameRes
	st, _ = g.sendSteps(putStep(dir), step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("d"), New: []byte("e")}, &renamed})
	require.Equal(t, nfs4.OK, st)
	assert.True(t, renamed.Target.Atomic && keeps(&renamed.Source))
	require.NoError(t, os.Remove(filepath.Join(path, "c")))
	var linked nfs4.ChangeRes
	link := func(name string) bool {
		t.Helper()
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dir), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte(name)}, &linked})
		require.Equal(t, nfs4.OK, st)
		return keeps(&linked.Dir)
	}
	assert.False(t, link("l"))
	assert.True(t, link("m"))
}
