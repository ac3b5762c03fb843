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

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestHandles checks over renames, removals and new objects that no handle ever
// means two objects (R8881-4.2.1-1), that an object keeps its handle
// (R8881-4.2.1-2, R8881-4.2.2-1), and that the handle of one that is gone is
// stale, even if another has its inode (R8881-4.2.2-2).
func TestHandles(t *testing.T) {
	g, _ := onDisk(t)
	r := rand.New(rand.NewPCG(1, 2))
	handles := map[string]nfs4.FH{} // by name
	seen := map[string]bool{}
	op := func(s ...step) {
		t.Helper()
		st, _ := g.do(append([]step{root(), look("x")}, s...)...)
		require.Equal(t, nfs4.OK, st)
	}
	remove := func(name string) { op(step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes)}) }
	for range 400 {
		name := strconv.Itoa(r.IntN(4))
		switch fh := handles[name]; {
		case fh == nil:
			res, fh, st := g.open(openArgs("o", name, nfs4.ShareBoth, 0, nfs4.Guarded))
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OK, g.close(fh, res.StateID))
			require.False(t, seen[string(fh)], "a handle of an earlier object")
			seen[string(fh)], handles[name] = true, fh
		case r.IntN(2) == 0:
			remove(name)
			delete(handles, name)
			st := nfs4.ErrDelay
			for st == nfs4.ErrDelay { // the kernel says ENOMEM while another process makes an object with the inode
				st, _ = g.do(put(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)})
			}
			require.Equal(t, nfs4.ErrStale, st)
		default:
			to := strconv.Itoa(r.IntN(4))
			op(step{nfs4.OpSaveFH, &void, status()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(name), New: []byte(to)}, new(nfs4.RenameRes)})
			delete(handles, name)
			handles[to] = fh
		}
		for name, fh := range handles {
			require.Equal(t, fh, g.lookup("x", name))
			require.Equal(t, fh, g.attrs(fh, nfs4.BitmapOf(nfs4.AttrFileHandle)).FileHandle)
		}
	}
}

// TestHandlesAfterRestart checks that handles and file systems stay the
// same over a restart of the server (R8881-4.2.2-1, R8881-5.8.1.9-1,
// R8881-7.5-1), and that those of an export that is gone are stale
// (R8881-4.2.2-3).
func TestHandlesAfterRestart(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
	serve := func() *rig {
		fs, err := posix.Open(dir, posix.Options{StateDir: state})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, fs.Close()) })
		r, err := realm.New(realm.Config{Key: [32]byte{5}, Exports: []realm.Export{{Path: "/srv/x", FS: fs, Clients: exports.Everyone(free)}}})
		require.NoError(t, err)
		g := newRig(t)
		g.s = New(Config{Realm: r, State: g.s.state, Lease: g.s.lease})
		return g.asRoot().connect()
	}
	g := serve()
	paths := [][]string{{}, {"srv"}, {"srv", "x"}, {"srv", "x", "f"}}
	type object struct {
		fh   nfs4.FH
		fsid nfs4.FSID
	}
	var before []object
	for _, path := range paths {
		fh := g.lookup(path...)
		before = append(before, object{fh, g.attrs(fh, nfs4.BitmapOf(nfs4.AttrFSID)).FSID})
	}
	assert.Equal(t, before[0].fsid, before[1].fsid)
	assert.NotEqual(t, before[1].fsid, before[2].fsid, "R8881-7.7-1: another file system")
	assert.Equal(t, before[2].fsid, before[3].fsid)
	require.NoError(t, g.s.realm.SetExports(nil))
	for _, o := range before[1:] {
		st, _ := g.do(put(o.fh))
		assert.Equal(t, nfs4.ErrStale, st)
	}
	// The first server has its table no longer.
	again := serve()
	for i, o := range before {
		assert.Equal(t, o.fsid, again.attrs(o.fh, nfs4.BitmapOf(nfs4.AttrFSID)).FSID, paths[i])
		assert.Equal(t, o.fh, again.lookup(paths[i]...), paths[i])
	}
}

// TestPublic checks that PUTPUBFH leads to the root (R8881-4.1.2-1,
// R8881-18.20.3-1), from which a client starts without the MOUNT protocol
// (R8881-4.1.1-1, R8881-18.21.3-1).
func TestPublic(t *testing.T) {
	g := newRig(t).connect()
	var public nfs4.HandleRes
	st, _ := g.do(step{nfs4.OpPutPubFH, &void, status()}, step{nfs4.OpGetFH, &void, &public})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, g.lookup(), append(nfs4.FH(nil), public.Object...))
}

// TestMountedOn checks mounted_on_fileid at the roots of exports
// (R8881-5.8.2.23-1): it is that of the entry in the directory above.
//
// R8881-18.23.3-8.
func TestMountedOn(t *testing.T) {
	g := newRig(t, memory("/srv/a", free), memory("/srv/a/b", free)).asRoot().connect()
	st, _ := g.do(root(), look("srv"), look("a"), mkdir("dir"))
	require.Equal(t, nfs4.OK, st)
	ids := nfs4.BitmapOf(nfs4.AttrFileID, nfs4.AttrMountedOnFileID)
	for _, path := range [][]string{{"srv", "a"}, {"srv", "a", "b"}, {"srv"}, {"srv", "a", "dir"}} {
		a := g.attrs(g.lookup(path...), ids)
		isExport := path[len(path)-1] == "a" || path[len(path)-1] == "b"
		assert.Equal(t, isExport, a.FileID != a.MountedOnFileID, path)
	}
	for _, above := range [][]string{{}, {"srv"}, {"srv", "a"}} {
		var list listing
		st, _ = g.do(put(g.lookup(above...)), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000, Request: ids}, &list})
		require.Equal(t, nfs4.OK, st)
		for name, a := range list.attrs {
			assert.Equal(t, g.attrs(g.lookup(append(above, name)...), ids), a, name)
		}
	}
}

// TestExclusiveAttributes checks that an exclusive create sets the
// attributes that suppattr_exclcreat names, and no others (R8881-5.8.1.14-1).
func TestExclusiveAttributes(t *testing.T) {
	g := newRig(t, memory("/x", free)).asRoot().connect()
	have := g.attrs(g.lookup("x"), nfs4.BitmapOf(nfs4.AttrSuppattrExclCreat)).SuppattrExclCreat
	for id := range nfs4.AttrID(96) {
		a := openArgs("o", "new"+strconv.Itoa(int(id)), nfs4.ShareBoth, 0, nfs4.Exclusive1)
		a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(id), Type: nfs4.TypeReg, Owner: []byte("0"), OwnerGroup: []byte("0")}
		res, _, st := g.open(a)
		switch {
		case have.Has(id):
			assert.Equal(t, nfs4.OK, st, id)
			assert.True(t, res.AttrSet.Has(id), id)
		case supported2.Has(id):
			assert.Equal(t, nfs4.ErrInval, st, id)
		default:
			assert.Equal(t, nfs4.ErrAttrNotSupp, st, id)
		}
	}
	assert.False(t, have.Has(nfs4.AttrTimeModifySet), "the verifier is kept there")
}

// A partFS is a file system that lists names alone, and cannot look one up.
type partFS struct{ *mem.FS }

func (f partFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	return f.FS.ReadDir(ctx, c, dir, cookie, verifier, plus, func(e *vfs.Entry) bool {
		e.HasHandle, e.Attr.OK = false, false
		return fn(e)
	})
}

func (f partFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.Handle, vfs.MaybeAttr, vfs.MaybeAttr, error) {
	if name == "bad" {
		return vfs.Handle{}, vfs.MaybeAttr{}, vfs.MaybeAttr{}, syscall.EIO
	}
	return f.FS.Lookup(ctx, c, dir, name)
}

// TestRdattrError checks a listing in which the attributes of an object cannot
// be had: rdattr_error has the status, if the client asks for it
// (R8881-5.8.1.12-1).
//
// R8881-18.23.3-6.
func TestRdattrError(t *testing.T) {
	g := newRig(t, realm.Export{Path: "/x", FS: partFS{mem.New(mem.Options{Size: 1 << 20})}, Clients: exports.Everyone(free)}).asRoot().connect()
	for _, name := range []string{"bad", "good"} {
		st, _ := g.do(root(), look("x"), mkdir(name))
		require.Equal(t, nfs4.OK, st)
	}
	list := func(request ...nfs4.AttrID) (map[string]nfs4.Attrs, nfs4.Status) {
		var l listing
		st, _ := g.do(root(), look("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000, Request: nfs4.BitmapOf(request...)}, &l})
		return l.attrs, st
	}
	_, st := list(nfs4.AttrType)
	assert.Equal(t, nfs4.ErrIO, st)
	got, st := list(nfs4.AttrType, nfs4.AttrRdattrError)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrRdattrError), RdattrError: nfs4.ErrIO}, got["bad"])
	assert.Equal(t, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrRdattrError), Type: nfs4.TypeDir}, got["good"])
}
