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
