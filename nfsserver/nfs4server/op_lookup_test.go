package nfs4server

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestHandles checks over renames, removals and new objects that no handle ever
// means two objects (R8881-4.2.1-1), that an object keeps its handle
// (R8881-4.2.1-2, R8881-4.2.2-1), and that the handle of one that is gone is
// stale, even if another has its inode (R8881-4.2.2-2).
func TestHandles(t *testing.T) {
	g, _ := newDiskServer(t)
	r := rand.New(rand.NewPCG(1, 2))
	handles := map[string]nfs4.FH{} // by name
	seen := map[string]bool{}
	op := func(s ...step) {
		t.Helper()
		st, _ := g.sendSteps(append([]step{putRootStep(), lookupStep("x")}, s...)...)
		require.Equal(t, nfs4.OK, st)
	}
	remove := func(name string) { op(step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes)}) }
	for range 400 {
		name := strconv.Itoa(r.IntN(4))
		switch fh := handles[name]; {
		case fh == nil:
			res, fh, st := g.openName(openArgs("o", name, nfs4.ShareBoth, 0, nfs4.Guarded))
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OK, g.closeFile(fh, res.StateID))
			require.False(t, seen[string(fh)], "a handle of an earlier object")
			seen[string(fh)], handles[name] = true, fh
		case r.IntN(2) == 0:
			remove(name)
			delete(handles, name)
			st := nfs4.ErrDelay
			for st == nfs4.ErrDelay { // the kernel says ENOMEM while another process makes an object with the inode
				st, _ = g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)})
			}
			require.Equal(t, nfs4.ErrStale, st)
		default:
			to := strconv.Itoa(r.IntN(4))
			op(step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(name), New: []byte(to)}, new(nfs4.RenameRes)})
			delete(handles, name)
			handles[to] = fh
		}
		for name, fh := range handles {
			require.Equal(t, fh, g.lookupPath("x", name))
			require.Equal(t, fh, g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrFileHandle)).FileHandle)
		}
	}
}

// TestHandlesAfterRestart checks that handles and file systems stay the same across a server
// restart (R8881-4.2.2-1, R8881-5.8.1.9-1, R8881-7.5-1), and that those in a removed export are
// stale (R8881-4.2.2-3).
func TestHandlesAfterRestart(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
	serve := func() *testServer {
		fs, err := posix.Open(dir, posix.Options{StateDir: state})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, fs.Close()) })
		r, err := exportset.New(exportset.Config{Key: [32]byte{5}, Exports: []exportset.Export{{Path: "/srv/x", FS: fs, Clients: exports.Everyone(free)}}})
		require.NoError(t, err)
		g := newTestServer(t)
		g.s = New(Config{Exports: r, State: g.s.state, Lease: g.s.lease})
		return g.becomeRoot().connectClient()
	}
	g := serve()
	paths := [][]string{{}, {"srv"}, {"srv", "x"}, {"srv", "x", "f"}}
	type object struct {
		fh   nfs4.FH
		fsid nfs4.FSID
	}
	var before []object
	for _, path := range paths {
		fh := g.lookupPath(path...)
		before = append(before, object{fh, g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrFSID)).FSID})
	}
	assert.Equal(t, before[0].fsid, before[1].fsid)
	assert.NotEqual(t, before[1].fsid, before[2].fsid, "R8881-7.7-1: another file system")
	assert.Equal(t, before[2].fsid, before[3].fsid)
	require.NoError(t, g.s.exports.SetExports(nil))
	for _, o := range before[1:] {
		st, _ := g.sendSteps(putStep(o.fh))
		assert.Equal(t, nfs4.ErrStale, st)
	}
	// The first server has its table no longer.
	again := serve()
	for i, o := range before {
		assert.Equal(t, o.fsid, again.getAttrs(o.fh, nfs4.BitmapOf(nfs4.AttrFSID)).FSID, paths[i])
		assert.Equal(t, o.fh, again.lookupPath(paths[i]...), paths[i])
	}
}

// TestPublic checks that PUTPUBFH leads to the root (R8881-4.1.2-1,
// R8881-18.20.3-1), from which a client starts without the MOUNT protocol
// (R8881-4.1.1-1, R8881-18.21.3-1).
func TestPublic(t *testing.T) {
	g := newTestServer(t).connectClient()
	var public nfs4.HandleRes
	st, _ := g.sendSteps(step{nfs4.OpPutPubFH, &void, newStatusRes()}, step{nfs4.OpGetFH, &void, &public})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, g.lookupPath(), append(nfs4.FH(nil), public.Object...))
}

// TestMountedOn checks mounted_on_fileid at the exports' roots (R8881-5.8.2.23-1): it belongs
// to the entry in the directory above.
//
// R8881-18.23.3-8.
func TestMountedOn(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/srv/a", free), newMemoryExport("/srv/a/b", free)).becomeRoot().connectClient()
	st, _ := g.sendSteps(putRootStep(), lookupStep("srv"), lookupStep("a"), mkdirStep("dir"))
	require.Equal(t, nfs4.OK, st)
	ids := nfs4.BitmapOf(nfs4.AttrFileID, nfs4.AttrMountedOnFileID)
	for _, path := range [][]string{{"srv", "a"}, {"srv", "a", "b"}, {"srv"}, {"srv", "a", "dir"}} {
		a := g.getAttrs(g.lookupPath(path...), ids)
		isExport := path[len(path)-1] == "a" || path[len(path)-1] == "b"
		assert.Equal(t, isExport, a.FileID != a.MountedOnFileID, path)
	}
	for _, above := range [][]string{{}, {"srv"}, {"srv", "a"}} {
		var list dirListing
		st, _ = g.sendSteps(putStep(g.lookupPath(above...)), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000, Request: ids}, &list})
		require.Equal(t, nfs4.OK, st)
		for name, a := range list.attrs {
			assert.Equal(t, g.getAttrs(g.lookupPath(append(above, name)...), ids), a, name)
		}
	}
}

// TestExclusiveAttributes checks that an exclusive create sets the
// attributes that suppattr_exclcreat names, and no others (R8881-5.8.1.14-1).
func TestExclusiveAttributes(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	have := g.getAttrs(g.lookupPath("x"), nfs4.BitmapOf(nfs4.AttrSuppattrExclCreat)).SuppattrExclCreat
	for id := range nfs4.AttrID(96) {
		a := openArgs("o", "new"+strconv.Itoa(int(id)), nfs4.ShareBoth, 0, nfs4.Exclusive1)
		a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(id), Type: nfs4.TypeReg, Owner: []byte("0"), OwnerGroup: []byte("0")}
		res, _, st := g.openName(a)
		switch {
		case have.Has(id):
			assert.Equal(t, nfs4.OK, st, id)
			assert.True(t, res.AttrSet.Has(id), id)
		case supportedMinor2.Has(id):
			assert.Equal(t, nfs4.ErrInval, st, id)
		default:
			assert.Equal(t, nfs4.ErrAttrNotSupp, st, id)
		}
	}
	assert.False(t, have.Has(nfs4.AttrTimeModifySet), "the verifier is kept there")
}

// A fakeNamesFS is a file system that lists names alone, and cannot look one up.
type fakeNamesFS struct{ *mem.FS }

func (f fakeNamesFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	return f.FS.ReadDir(ctx, c, dir, cookie, verifier, plus, func(e *vfs.Entry) bool {
		e.HasHandle, e.Attr.OK = false, false
		return fn(e)
	})
}

func (f fakeNamesFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.Handle, vfs.MaybeAttr, vfs.MaybeAttr, error) {
	if name == "bad" {
		return vfs.Handle{}, vfs.MaybeAttr{}, vfs.MaybeAttr{}, syscall.EIO
	}
	return f.FS.Lookup(ctx, c, dir, name)
}

// TestRdattrError checks a listing in which an object's attributes cannot be read: rdattr_error
// has the status, if the client requests it (R8881-5.8.1.12-1).
//
// R8881-18.23.3-6.
func TestRdattrError(t *testing.T) {
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fakeNamesFS{mem.New(mem.Options{Size: 1 << 20})}, Clients: exports.Everyone(free)}).becomeRoot().connectClient()
	for _, name := range []string{"bad", "good"} {
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), mkdirStep(name))
		require.Equal(t, nfs4.OK, st)
	}
	list := func(request ...nfs4.AttrID) (map[string]nfs4.Attrs, nfs4.Status) {
		var l dirListing
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000, Request: nfs4.BitmapOf(request...)}, &l})
		return l.attrs, st
	}
	_, st := list(nfs4.AttrType)
	assert.Equal(t, nfs4.ErrIO, st)
	got, st := list(nfs4.AttrType, nfs4.AttrRdattrError)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrRdattrError), RdattrError: nfs4.ErrIO}, got["bad"])
	assert.Equal(t, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrRdattrError), Type: nfs4.TypeDir}, got["good"])
}
