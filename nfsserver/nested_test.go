package nfsserver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// The directories that lead from an export to another below it keep their names: otherwise
// the lower export's files would be reached by the upper export alone.
func TestNestedExportKeepsItsPath(t *testing.T) {
	top := t.TempDir()
	for _, d := range []string{"a/hr", "b/hr", "empty", "free"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, d), 0o777))
	}
	lower := func(dir string) Export {
		fs, err := posix.Open(filepath.Join(top, dir), posix.Options{StateDir: t.TempDir()})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, fs.Close()) })
		return Export{Path: "/x/" + dir, FS: fs}
	}
	g := newPosixServer(t, top, posix.Options{StateDir: t.TempDir()}, withOptions(exports.Options{Insecure: true, NoRootSquash: true}), func(c *Config) {
		c.Exports = append(c.Exports, lower("a/hr"), lower("empty"))
	})
	root := g.callMnt("/x").Handle
	a, b := g.lookupName(root, "a"), g.lookupName(root, "b")
	rename := func(from nfs3.FH, old string, to nfs3.FH, name string) nfs3.Status {
		var res nfs3.RenameRes
		g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(from, old), To: dirOpArgs(to, name)}, &res)
		return res.Status
	}
	unlink := func(proc uint32, dir nfs3.FH, name string) nfs3.Status {
		var res nfs3.WccRes
		where := dirOpArgs(dir, name)
		g.callNFS(proc, &where, &res)
		return res.Status
	}
	assert.Equal(t, nfs3.ErrAcces, rename(root, "a", root, "c"), "a directory above an export")
	assert.Equal(t, nfs3.ErrAcces, rename(a, "hr", root, "c"), "an export's directory")
	assert.Equal(t, nfs3.ErrAcces, rename(root, "free", root, "empty"), "over an export's directory")
	assert.Equal(t, nfs3.ErrAcces, unlink(nfs3.ProcRmdir, root, "empty"))
	assert.Equal(t, nfs3.ErrAcces, unlink(nfs3.ProcRemove, root, "empty"))
	assert.Equal(t, nfs3.OK, rename(b, "hr", b, "empty"), "the same names elsewhere")
	assert.Equal(t, nfs3.OK, unlink(nfs3.ProcRmdir, b, "empty"))
	assert.Equal(t, nfs3.OK, rename(root, "b", root, "c"))
	assert.DirExists(t, filepath.Join(top, "a", "hr"))
}

// TestMissingNestedExport checks that clients create nothing where the server looks for the missing
// directory of an export: with a symbolic link there, they would choose what is exported.
func TestMissingNestedExport(t *testing.T) {
	top := t.TempDir()
	for _, d := range []string{"free", "known"} {
		require.NoError(t, os.Mkdir(filepath.Join(top, d), 0o777))
	}
	g := newPosixServer(t, top, posix.Options{StateDir: t.TempDir()}, withOptions(exports.Options{Insecure: true, NoRootSquash: true}), func(c *Config) {
		for _, name := range []string{"gone", "deep/gone", "known/gone"} {
			c.Exports = append(c.Exports, Export{Path: "/x/" + name, FS: exportset.Unavailable{Reason: "missing"}})
		}
	})
	root := g.callMnt("/x").Handle
	known := g.lookupName(root, "known")
	link := func(dir nfs3.FH, name string) nfs3.Status {
		var res nfs3.MakeRes
		g.callNFS(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: dirOpArgs(dir, name), Path: []byte("/etc")}, &res)
		return res.Status
	}
	mkdir := func(dir nfs3.FH, name string) nfs3.Status {
		var res nfs3.MakeRes
		g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(dir, name)}, &res)
		return res.Status
	}
	rename := func(name string, to nfs3.FH, next string) nfs3.Status {
		var res nfs3.RenameRes
		g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(root, name), To: dirOpArgs(to, next)}, &res)
		return res.Status
	}
	require.Equal(t, nfs3.OK, link(root, "link"))
	file := g.lookupName(root, "link")
	hardLink := func(dir nfs3.FH, name string) nfs3.Status {
		var res nfs3.LinkRes
		g.callNFS(nfs3.ProcLink, &nfs3.LinkArgs{File: file, Link: dirOpArgs(dir, name)}, &res)
		return res.Status
	}
	for _, at := range []struct {
		dir  nfs3.FH
		name string
	}{{root, "gone"}, {root, "deep"}, {known, "gone"}} {
		assert.Equal(t, nfs3.ErrAcces, link(at.dir, at.name), at.name)
		assert.Equal(t, nfs3.ErrAcces, mkdir(at.dir, at.name), at.name)
		assert.Equal(t, nfs3.ErrAcces, hardLink(at.dir, at.name), at.name)
		assert.Equal(t, nfs3.ErrAcces, rename("link", at.dir, at.name), at.name)
		assert.Equal(t, nfs3.ErrAcces, rename("free", at.dir, at.name), at.name)
	}
	assert.Equal(t, nfs3.ErrExist, mkdir(root, "known"), "a directory that exists")
	free := g.lookupName(root, "free")
	assert.Equal(t, nfs3.OK, mkdir(free, "gone"), "the same name elsewhere")
	assert.Equal(t, nfs3.OK, hardLink(free, "deep"))
}

// TestCrossing checks which exports an NFSv3 client sees in the one above: a mounted file system if it
// has crossmnt, and another export if that has nohide or the upper one crossmnt. What the client sees
// then is the export's root, and READDIRPLUS does not name another object.
func TestCrossing(t *testing.T) {
	o := exports.Options{Insecure: true}
	crossmnt, nohide := o, o
	crossmnt.CrossMnt, nohide.NoHide = true, true
	for _, tt := range []struct {
		name         string
		upper, lower exports.Options
		submount     bool
		sees         bool
	}{
		{"neither", o, o, false, false},
		{"crossmnt", crossmnt, o, false, true},
		{"nohide", o, nohide, false, true},
		{"a submount", crossmnt, crossmnt, true, true},
		{"a submount for others", o, o, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top, disk := t.TempDir(), t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(top, "deep", "disk", "beneath"), 0o777))
			require.NoError(t, os.MkdirAll(filepath.Join(top, "other", "disk"), 0o777))
			lower, err := posix.Open(disk, posix.Options{StateDir: t.TempDir(), FSIDSeed: "disk"})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, lower.Close()) })
			g := newPosixServer(t, top, posix.Options{StateDir: t.TempDir()}, withOptions(tt.upper), func(c *Config) {
				c.Exports = append(c.Exports, Export{Path: "/x/deep/disk", FS: lower, Clients: exports.Everyone(tt.lower), Submount: tt.submount})
			})
			lookup := func(dir nfs3.FH, name string) (res nfs3.LookupRes) {
				args := dirOpArgs(dir, name)
				g.callNFS(nfs3.ProcLookup, &args, &res)
				require.Equal(t, nfs3.OK, res.Status, name)
				return res
			}
			var listed mount3.ExportRes
			g.callMount(mount3.ProcExport, nil, &listed)
			assert.Equal(t, tt.submount, len(listed.Exports) == 1, "submounts have no line in showmount -e")
			root := g.callMnt("/x").Handle
			deep := g.lookupName(root, "deep")
			at := lookup(deep, "disk")
			assert.Equal(t, tt.sees, at.ObjAttr.Attr.FSID != at.DirAttr.Attr.FSID)
			assert.Equal(t, deep, lookup(at.Object, "..").Object)
			var res nfs3.LookupRes
			args := dirOpArgs(at.Object, "beneath")
			g.callNFS(nfs3.ProcLookup, &args, &res)
			assert.Equal(t, tt.sees, res.Status == nfs3.ErrNoEnt, "the directory beneath")
			list := dirListing{plus: true}
			g.callNFS(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: deep, DirCount: 1 << 10, MaxCount: 1 << 12}, &list)
			i := slices.IndexFunc(list.Entries, func(e nfs3.Entry) bool { return string(e.Name) == "disk" })
			require.GreaterOrEqual(t, i, 0)
			assert.Empty(t, list.Entries[i].Handle, "a listing does not show the directory beneath")
			assert.False(t, list.Entries[i].Attr.OK)
			same := lookup(g.lookupName(root, "other"), "disk")
			assert.Equal(t, same.DirAttr.Attr.FSID, same.ObjAttr.Attr.FSID, "the same name elsewhere")
		})
	}
}

// TestHungSubmount checks that a client waits for a mounted file system that does not respond, and
// for nothing else.
func TestHungSubmount(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(top, "disk"), 0o777))
	g := newPosixServer(t, top, posix.Options{StateDir: t.TempDir()}, withOptions(exports.Options{Insecure: true, CrossMnt: true}), func(c *Config) {
		c.Exports = append(c.Exports, Export{Path: "/x/disk", FS: exportset.Unavailable{Reason: "hung"}, Clients: c.Exports[0].Clients, Submount: true})
	})
	root := g.callMnt("/x").Handle
	var res nfs3.LookupRes
	args := dirOpArgs(root, "disk")
	g.callNFS(nfs3.ProcLookup, &args, &res)
	assert.Equal(t, nfs3.ErrJukebox, res.Status)
	args = dirOpArgs(root, ".")
	g.callNFS(nfs3.ProcLookup, &args, &res)
	assert.Equal(t, nfs3.OK, res.Status)
}
