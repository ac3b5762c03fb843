package nfsserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestSubtreeCheck checks that an object moved out of the export is inaccessible to clients
// with subtree_check, with every procedure that names it, and accessible to others.
func TestSubtreeCheck(t *testing.T) {
	for _, check := range []bool{false, true} {
		home := t.TempDir()
		dir := filepath.Join(home, "export")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
		g := newPosixServer(t, dir, posix.Options{StateDir: t.TempDir(), TableHandles: true}, withOptions(exports.Options{NoRootSquash: true, SubtreeCheck: check}))
		root := nfs3.FH(g.callMnt("/x").Handle)
		d := g.lookupName(root, "d")
		f := g.createFile(d, "f")
		want := nfs3.OK
		getAttr := func(fh nfs3.FH) nfs3.Status {
			var res nfs3.GetAttrRes
			g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &res)
			return res.Status
		}
		assert.Equal(t, want, getAttr(f))
		require.NoError(t, os.Rename(filepath.Join(dir, "d"), filepath.Join(home, "out")))
		if check {
			want = nfs3.ErrStale
		}
		assert.Equal(t, nfs3.OK, getAttr(root))
		assert.Equal(t, want, getAttr(d))
		assert.Equal(t, want, getAttr(f))
		var read nfs3.ReadRes
		g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: f, Count: 1}, &read)
		assert.Equal(t, want, read.Status)
		var made nfs3.MakeRes
		g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(d, "new")}, &made)
		assert.Equal(t, want, made.Status)
		var link nfs3.LinkRes
		g.callNFS(nfs3.ProcLink, &nfs3.LinkArgs{File: f, Link: dirOpArgs(root, "in")}, &link)
		assert.Equal(t, want, link.Status)
		var rename nfs3.RenameRes
		g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(root, "in"), To: dirOpArgs(d, "g")}, &rename)
		assert.Equal(t, want, rename.Status)
		if check {
			assert.NoDirExists(t, filepath.Join(home, "out", "new"))
		}
	}
}
