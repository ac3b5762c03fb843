package nfs4server

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

func newMemoryExport(path string, o exports.Options, nets ...string) exportset.Export {
	e := exportset.Export{Path: path, FS: mem.New(mem.Options{Size: 1 << 20}), Clients: exports.Everyone(o)}
	if len(nets) > 0 {
		e.Clients = nil
		for _, n := range nets {
			e.Clients = append(e.Clients, exports.Client{Host: exports.NetworkHost(netip.MustParsePrefix(n)), Options: o})
		}
	}
	return e
}

// listNames lists the directory at a path.
func (g *testServer) listNames(path ...string) []string {
	g.t.Helper()
	steps := []step{putRootStep()}
	for _, p := range path {
		steps = append(steps, lookupStep(p))
	}
	var list dirListing
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFSID, nfs4.AttrMountedOnFileID)
	st, _ := g.sendSteps(append(steps, step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: request}, &list})...)
	require.Equal(g.t, nfs4.OK, st)
	return list.names
}

// getFSID returns the file system at a path.
func (g *testServer) getFSID(path ...string) (nfs4.FSID, nfs4.Status) {
	g.t.Helper()
	steps := []step{putRootStep()}
	for _, p := range path {
		steps = append(steps, lookupStep(p))
	}
	var res nfs4.GetAttrRes
	st, _ := g.sendSteps(append(steps, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSID)}, &res})...)
	return res.Attrs.FSID, st
}

// TestTree checks the pseudo file system: only the directories that lead to exports that the
// client may use are there (R8881-7.3-1), also through directories that are not exported
// (R8881-7.6-1), and each export and the pseudo file system have their own fsid (R8881-7.3-2,
// R8881-5.8.1.9-1).
//
// R8881-18.14.3-1.
func TestTree(t *testing.T) {
	open := exports.Options{Insecure: true, NoRootSquash: true}
	g := newTestServer(t, newMemoryExport("/srv/a", open), newMemoryExport("/srv/deep/b", open), newMemoryExport("/secret/c", open, "10.0.0.0/8"), newMemoryExport("/srv/mine", open, "192.0.2.0/24")).connectClient().becomeRoot()
	assert.ElementsMatch(t, []string{"srv"}, g.listNames())
	var attrs nfs4.GetAttrRes
	st, _ := g.sendSteps(putRootStep(), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrNumLinks)}, &attrs})
	assert.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 2+1, attrs.Attrs.NumLinks, "as of a directory with one other")
	assert.ElementsMatch(t, []string{"a", "deep", "mine"}, g.listNames("srv"))
	assert.Empty(t, g.listNames("srv", "a"))
	_, st = g.getFSID("secret")
	assert.Equal(t, nfs4.ErrNoEnt, st)
	_, st = g.getFSID("secret", "c")
	assert.Equal(t, nfs4.ErrNoEnt, st)
	seen := map[nfs4.FSID]string{}
	for _, path := range [][]string{{}, {"srv", "a"}, {"srv", "deep", "b"}, {"srv", "mine"}} {
		id, st := g.getFSID(path...)
		assert.Equal(t, nfs4.OK, st, path)
		assert.Empty(t, seen[id], path)
		seen[id] = "seen"
	}
	up := func(path ...string) nfs4.FSID {
		steps := []step{putRootStep()}
		for _, p := range path {
			steps = append(steps, lookupStep(p))
		}
		var res nfs4.GetAttrRes
		st, _ := g.sendSteps(append(steps, step{nfs4.OpLookupP, &void, newStatusRes()}, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSID)}, &res})...)
		require.Equal(t, nfs4.OK, st)
		return res.Attrs.FSID
	}
	assert.Equal(t, nfs4.FSID{}, up("srv", "a"), "LOOKUPP leads out of an export")
	assert.Equal(t, nfs4.FSID{}, up("srv"))
	st, _ = g.sendSteps(putRootStep(), step{nfs4.OpLookupP, &void, newStatusRes()})
	assert.Equal(t, nfs4.ErrNoEnt, st)

	// Pseudo node handles last as long as the exports lead there (R8881-7.5-1).
	var fh nfs4.HandleRes
	st, _ = g.sendSteps(putRootStep(), lookupStep("srv"), step{nfs4.OpGetFH, &void, &fh})
	require.Equal(t, nfs4.OK, st)
	srv := append(nfs4.FH(nil), fh.Object...)
	st, _ = g.sendSteps(putStep(srv), lookupStep("a"))
	assert.Equal(t, nfs4.OK, st)
	for i := range srv {
		bad := append(nfs4.FH(nil), srv...)
		bad[i] ^= 0x10
		st, _ = g.sendSteps(putStep(bad))
		assert.Contains(t, []nfs4.Status{nfs4.ErrBadHandle, nfs4.ErrStale}, st, i)
	}
	st, _ = g.sendSteps(putStep(nil))
	assert.Equal(t, nfs4.ErrBadHandle, st)
	require.NoError(t, g.s.exports.SetExports([]exportset.Export{newMemoryExport("/other", open)}))
	st, _ = g.sendSteps(putStep(srv))
	assert.Equal(t, nfs4.ErrStale, st)
	assert.Equal(t, []string{"other"}, g.listNames())

	// Nothing in the pseudo file system changes (R8881-7.3-3).
	for op, s := range map[string]step{
		"remove": {nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("other")}, new(nfs4.ChangeRes)},
		"create": {nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("new")}, new(nfs4.CreateRes)},
		"set":    {nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode)}}, new(nfs4.SetAttrRes)},
	} {
		st, _ := g.sendSteps(putRootStep(), s)
		assert.Equal(t, nfs4.ErrROFS, st, op)
	}
}

// TestSameNames checks two exports whose paths lead to one name, as the root takes its path
// away from those below it: the export below the root has the name, whatever the order.
func TestSameNames(t *testing.T) {
	top := free
	top.FSID, _ = exports.ParseFSID("root")
	inner, outer := newMemoryExport("/srv/a", free), newMemoryExport("/a", free)
	for _, order := range [][]exportset.Export{{newMemoryExport("/srv", top), inner, outer}, {outer, newMemoryExport("/srv", top), inner}} {
		g := newTestServer(t, order...).connectClient().becomeRoot()
		id, st := g.getFSID("a")
		assert.Equal(t, nfs4.OK, st)
		i := slices.IndexFunc(g.s.exports.Snapshot().List(), func(e *exportset.Exported) bool { return e.Path == "/srv/a" })
		assert.EqualValues(t, g.s.exports.Snapshot().List()[i].ID, id.Minor)
	}
}

// TestRootExport checks an export that is the root, and exports below others:
// LOOKUP leads to their roots, not to the directories that the exports
// cover (R8881-7.7-1).
//
// R8881-18.13.3-2, R8881-18.14.3-1.
func TestRootExport(t *testing.T) {
	open := exports.Options{Insecure: true, NoRootSquash: true}
	top := open
	top.FSID, _ = exports.ParseFSID("root")
	g := newTestServer(t, newMemoryExport("/srv", top), newMemoryExport("/srv/a", open), newMemoryExport("/srv/d/e", open)).connectClient().becomeRoot()
	assert.Empty(t, g.listNames(), "where the host has no such name, READDIR shows none")
	_, st := g.getFSID("a")
	assert.Equal(t, nfs4.OK, st, "LOOKUP finds an export below another all the same")
	made := new(nfs4.CreateRes)
	mkdir := func(name string) step {
		return step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte(name)}, made}
	}
	st, _ = g.sendSteps(putRootStep(), mkdir("d"))
	require.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putRootStep(), mkdir("a"))
	assert.Equal(t, nfs4.ErrExist, st)
	root0, _ := g.getFSID()
	d, st := g.getFSID("d")
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, root0, d)
	e, st := g.getFSID("d", "e")
	assert.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, root0, e)
	var res nfs4.GetAttrRes
	fsid := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSID)}, &res}
	st, _ = g.sendSteps(putRootStep(), lookupStep("d"), lookupStep("e"), step{nfs4.OpLookupP, &void, newStatusRes()}, fsid)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, root0, res.Attrs.FSID)
	st, _ = g.sendSteps(putRootStep(), lookupStep("d"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("e")}, new(nfs4.ChangeRes)})
	assert.Equal(t, nfs4.ErrNotEmpty, st)
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	st, _ = g.sendSteps(putRootStep(), save, lookupStep("a"), step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("d"), New: []byte("d")}, new(nfs4.RenameRes)})
	assert.Equal(t, nfs4.ErrXDev, st)
}

// TestSecInfo checks the flavors, which do not include RPCSEC_GSS with secret state verifiers
// (R8881-2.10.9-1), and that SECINFO consumes the handle (R8881-2.6.3.1.1.8-1,
// R8881-18.45.3-1).
//
// R8881-18.29.3-1, R8881-18.29.3-2.
func TestSecInfo(t *testing.T) {
	g := newTestServer(t).connectClient()
	for _, s := range []step{
		{nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte("x")}, new(nfs4.SecInfoRes)},
		{nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{}, new(nfs4.SecInfoRes)},
	} {
		st, _ := g.sendSteps(putRootStep(), s)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, []nfs4.SecInfo{{Flavor: 1}}, s.res.(*nfs4.SecInfoRes).Flavors)
		st, n := g.sendSteps(putRootStep(), s, step{nfs4.OpGetFH, &void, new(nfs4.HandleRes)})
		assert.Equal(t, nfs4.ErrNoFileHandle, st)
		assert.Equal(t, 3, n)
	}
	parent := step{nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{Style: nfs4.SecInfoParent}, new(nfs4.SecInfoRes)}
	st, _ := g.sendSteps(putRootStep(), parent)
	assert.Equal(t, nfs4.ErrNoEnt, st)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), parent)
	assert.Equal(t, nfs4.OK, st)
	fhs := g.becomeRoot().makeObjects()
	for _, name := range []string{"link", "file", "fifo"} {
		st, _ = g.sendSteps(putStep(fhs[name]), parent)
		assert.Equal(t, nfs4.ErrNotDir, st, "%s: Section 15.2 has no other status", name)
		st, _ = g.sendSteps(putStep(fhs[name]), step{nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte("name")}, new(nfs4.SecInfoRes)})
		assert.Equal(t, nfs4.ErrNotDir, st, name)
	}
	st, _ = g.sendSteps(putRootStep(), step{nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte("none")}, new(nfs4.SecInfoRes)})
	assert.Equal(t, nfs4.ErrNoEnt, st)
}

// TestNoFileHandle checks each operation that needs a filehandle
// (R8881-15.1.2.5-1).
func TestNoFileHandle(t *testing.T) {
	g := newTestServer(t).connectClient()
	for op := range operations {
		o := operations[op]
		if _, last, _ := nfs4.Op(op).Minors(); o.flags&(needsCurrent|needsSaved) == 0 || last == nfs4.Minor0 {
			continue
		}
		st, n := g.sendSteps(step{nfs4.Op(op), &void, newStatusRes()})
		assert.Equal(t, nfs4.ErrNoFileHandle, st, nfs4.Op(op))
		assert.Equal(t, 1, n)
		if o.flags&needsSaved != 0 {
			st, _ = g.sendSteps(putRootStep(), step{nfs4.Op(op), &void, newStatusRes()})
			assert.Equal(t, nfs4.ErrNoFileHandle, st, nfs4.Op(op))
		}
	}
}

// TestTruncated cuts every operation's arguments at each byte: the server executes
// the operations before, and the rest is NFS4ERR_BADXDR.
//
// R8881-15.1.1.1-1, R8881-16.2.3-4.
func TestTruncated(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	for _, s := range []step{
		{nfs4.OpOpen, openArgs("o", "name", 3, 0, nfs4.Unchecked), nil},
		{nfs4.OpRead, &nfs4.ReadArgs{}, nil},
		{nfs4.OpReadDir, &nfs4.ReadDirArgs{Request: nfs4.Known}, nil},
		{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode)}}, nil},
		{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeLnk, LinkData: []byte("to"), Name: []byte("n")}, nil},
		{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("a"), New: []byte("b")}, nil},
		{nfs4.OpTestStateID, cutStateIDList{}, nil},
		{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("owner")}, nil},
		{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{Fore: channel, SecParms: nfs4.SecParms{Sys: true}}, nil},
	} {
		whole := s.args.AppendTo(nil)
		for n := range whole {
			st, done := g.sendSteps(putRootStep(), step{nfs4.OpSaveFH, &void, newStatusRes()}, step{s.op, cutArgs(whole[:n]), newStatusRes()})
			assert.Equal(t, nfs4.ErrBadXDR, st, "%s of %d bytes", s.op, n)
			assert.Equal(t, 3, done)
		}
	}
}

// A cutArgs is arguments in any form, or the beginning of arguments.
type cutArgs []byte

func (c cutArgs) AppendTo(b []byte) []byte { return append(b, c...) }
func (cutArgs) Decode(*xdr.Reader)         {}

// cutStateIDList is TEST_STATEID's list with one element.
type cutStateIDList struct{}

func (cutStateIDList) AppendTo(b []byte) []byte {
	return append(b, append([]byte{0, 0, 0, 1}, make([]byte, 16)...)...)
}
func (cutStateIDList) Decode(*xdr.Reader) {}

// A fakeDownNames is a name service that does not respond.
type fakeDownNames struct{}

var errNoNames = errors.New("no answer")

func (fakeDownNames) NamesOf(context.Context, netip.Addr) ([]string, error) { return nil, errNoNames }

func (fakeDownNames) AddrsOf(context.Context, string) ([]netip.Addr, error) { return nil, errNoNames }

// TestUnknownNames4 checks that a client that an export may list is told to try again while
// names are unknown, and does not learn that there is no such export.
func TestUnknownNames4(t *testing.T) {
	f, err := exports.Parse("exports", []byte("/srv/a host.example(insecure)\n/srv/b 192.0.2.1(insecure)\n/far/c host.example(insecure)\n/not/d 192.0.2.9"))
	require.NoError(t, err)
	var list []exportset.Export
	for _, e := range f.Exports {
		list = append(list, exportset.Export{Path: e.Path, FS: mem.New(mem.Options{Size: 1 << 20}), Clients: e.Clients})
	}
	r, err := exportset.New(exportset.Config{Exports: list, Names: fakeDownNames{}})
	require.NoError(t, err)
	g := newTestServer(t)
	g.s = New(Config{Exports: r, State: g.s.state, Lease: 40 * time.Second})
	g.connectClient()
	for path, want := range map[string]nfs4.Status{
		"srv": nfs4.OK, "srv/a": nfs4.ErrDelay, "srv/b": nfs4.OK, "far": nfs4.ErrDelay, "not": nfs4.ErrNoEnt, "none": nfs4.ErrNoEnt,
	} {
		steps := []step{putRootStep()}
		for name := range strings.SplitSeq(path, "/") {
			steps = append(steps, lookupStep(name))
		}
		st, _ := g.sendSteps(steps...)
		assert.Equal(t, want, st, path)
	}
}

// TestSubmount checks a file system that is mounted below an export: clients with crossmnt see it in
// the place of the directory beneath, with that directory's mounted-on fileid, and LOOKUPP leads
// back. Others see the directory beneath.
//
// R8881-5.8.2.23-1.
func TestSubmount(t *testing.T) {
	cross := free
	cross.CrossMnt = true
	for _, crosses := range []bool{true, false} {
		upper := newMemoryExport("/srv", free)
		if crosses {
			upper.Clients = exports.Everyone(cross)
		}
		made, err := upper.FS.Mkdir(t.Context(), &vfs.Cred{}, upper.FS.Root(), "disk", vfs.SetAttr{})
		require.NoError(t, err)
		lower := newMemoryExport("/srv/disk", free)
		lower.Clients, lower.Submount, lower.MountedOn = upper.Clients, true, made.Attr.FileID
		g := newTestServer(t, upper, lower).connectClient().becomeRoot()
		top, st := g.getFSID("srv")
		require.Equal(t, nfs4.OK, st)
		below, st := g.getFSID("srv", "disk")
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, crosses, top != below)

		var list dirListing
		request := nfs4.BitmapOf(nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrMountedOnFileID)
		st, _ = g.sendSteps(putRootStep(), lookupStep("srv"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: request}, &list})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, made.Attr.FileID, list.attrs["disk"].MountedOnFileID)
		assert.Equal(t, below, list.attrs["disk"].FSID)
		assert.Equal(t, !crosses, list.attrs["disk"].FileID == made.Attr.FileID)

		var res nfs4.GetAttrRes
		st, _ = g.sendSteps(putRootStep(), lookupStep("srv"), lookupStep("disk"), step{nfs4.OpLookupP, &void, newStatusRes()}, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, &res})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, top, res.Attrs.FSID)
	}
}
