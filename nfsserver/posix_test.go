package nfsserver

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// newPosixServer serves dir, after applying change. Each call is made as this
// process's user.
func newPosixServer(t testing.TB, dir string, o posix.Options, change ...func(*Config)) *testServer {
	t.Helper()
	fs, err := posix.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	g := newTestServer(t, fs, append([]func(*Config){withOptions(exports.Options{NoRootSquash: true})}, change...)...)
	g.uid, g.gid, g.gids = uint32(os.Geteuid()), uint32(os.Getegid()), nil
	return g
}

// lookupName returns a name's handle.
func (g *testServer) lookupName(dir nfs3.FH, name string) nfs3.FH {
	g.t.Helper()
	a, res := dirOpArgs(dir, name), nfs3.LookupRes{}
	g.callNFS(nfs3.ProcLookup, &a, &res)
	require.Equal(g.t, nfs3.OK, res.Status, name)
	return append(nfs3.FH{}, res.Object...)
}

// readAll reads a file in pieces with n bytes.
func (g *testServer) readAll(fh nfs3.FH, n uint32) (data []byte) {
	g.t.Helper()
	for res := (nfs3.ReadRes{}); !res.EOF; {
		g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Offset: uint64(len(data)), Count: n}, &res)
		require.Equal(g.t, nfs3.OK, res.Status)
		data = append(data, res.Data...)
	}
	return data
}

// createFile creates a file with mode bits.
func (g *testServer) createFile(dir nfs3.FH, name string) nfs3.FH {
	g.t.Helper()
	var made nfs3.MakeRes
	set := nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o640}}
	g.callNFS(nfs3.ProcCreate, &nfs3.CreateArgs{Where: dirOpArgs(dir, name), Mode: nfs3.Guarded, Attr: set}, &made)
	require.Equal(g.t, nfs3.OK, made.Status)
	return append(nfs3.FH{}, made.Object...)
}

// TestPOSIX works in a real directory, with both kinds of handle, and continues after a
// restart.
func TestPOSIX(t *testing.T) {
	for _, table := range []bool{false, true} {
		t.Run(fmt.Sprintf("table=%v", table), func(t *testing.T) {
			dir, o := t.TempDir(), posix.Options{StateDir: t.TempDir(), TableHandles: table}
			var before posixSession
			t.Run("work", func(t *testing.T) { before = useAllProcedures(t, newPosixServer(t, dir, o), dir) })
			t.Run("restart", func(t *testing.T) { checkAfterRestart(t, newPosixServer(t, dir, o), before) })
		})
	}
}

// A posixSession is the state that a client keeps across a server restart.
type posixSession struct {
	root, file, gone nfs3.FH
	sum              [32]byte
	verf             uint64
}

func useAllProcedures(t *testing.T, g *testServer, dir string) posixSession {
	root := nfs3.FH(g.callMnt("/x").Handle)
	require.NotEmpty(t, root)
	file, data := g.createFile(root, "f\xff"), testPattern(300_001)
	var write nfs3.WriteRes
	for off := 0; off < len(data); off += 70_003 {
		part := data[off:min(off+70_003, len(data))]
		g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: file, Offset: uint64(off), Data: part}, &write)
		require.Equal(t, nfs3.OK, write.Status)
		require.EqualValues(t, len(part), write.Count)
	}
	var commit nfs3.CommitRes
	g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: file}, &commit)
	assert.Equal(t, nfs3.OK, commit.Status)
	assert.Equal(t, write.Verf, commit.Verf)
	assert.Equal(t, data, g.readAll(file, 65_537))

	var made nfs3.MakeRes
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(root, "d"), Attr: nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o750}}}, &made)
	require.Equal(t, nfs3.OK, made.Status)
	sub := append(nfs3.FH{}, made.Object...)
	gone := g.createFile(sub, "moved")
	var rename nfs3.RenameRes
	g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(root, "f\xff"), To: dirOpArgs(sub, "moved")}, &rename)
	assert.Equal(t, nfs3.OK, rename.Status)
	assert.True(t, rename.FromDir.Before.OK && rename.ToDir.After.OK)
	assert.Equal(t, file, g.lookupName(sub, "moved"), "a rename preserves the handle")
	assert.Equal(t, sub, g.lookupName(root, "d"))

	g.callNFS(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: dirOpArgs(root, "l"), Path: []byte("d/moved")}, &made)
	require.Equal(t, nfs3.OK, made.Status)
	var target nfs3.ReadLinkRes
	g.callNFS(nfs3.ProcReadLink, &nfs3.HandleArgs{Object: append(nfs3.FH{}, made.Object...)}, &target)
	assert.Equal(t, "d/moved", string(target.Path))
	assert.Equal(t, mount3.ErrNotDir, g.callMnt("/x/l").Status)
	assert.Equal(t, string(sub), string(g.callMnt("/x/d").Handle))
	onHost, err := os.ReadFile(filepath.Join(dir, "d", "moved"))
	require.NoError(t, err)
	assert.Equal(t, data, onHost)
	listRoot(t, g, root)
	return posixSession{root: root, file: file, gone: gone, sum: sha256.Sum256(data), verf: write.Verf}
}

// listRoot lists useAllProcedures' root, with and without attributes.
func listRoot(t *testing.T, g *testServer, root nfs3.FH) {
	for _, plus := range []bool{false, true} {
		res := &dirListing{plus: plus}
		proc, args := dirArgs(root, plus, 0, 0, 4096)
		g.callNFS(proc, args, res)
		require.Equal(t, nfs3.OK, res.Status)
		var names []string
		for _, e := range res.Entries {
			names = append(names, string(e.Name))
			if plus && e.Name[0] != '.' {
				assert.Equal(t, g.lookupName(root, string(e.Name)), e.Handle)
				assert.True(t, e.Attr.OK)
			}
		}
		assert.ElementsMatch(t, []string{".", "..", "d", "l"}, names)
		assert.True(t, res.EOF)
	}
}

func checkAfterRestart(t *testing.T, g *testServer, s posixSession) {
	assert.Equal(t, s.sum, sha256.Sum256(g.readAll(s.file, 1<<20)), "the handle still means the file")
	var get nfs3.GetAttrRes
	g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: s.gone}, &get)
	assert.Equal(t, nfs3.ErrStale, get.Status)
	var commit nfs3.CommitRes
	g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: s.file}, &commit)
	assert.Equal(t, nfs3.OK, commit.Status)
	assert.NotEqual(t, s.verf, commit.Verf, "data may have been lost")

	var set nfs3.WccRes
	g.callNFS(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: s.file, Attr: nfs3.SetAttr{Size: nfs3.OptUint64{Set: true, Value: 5}}}, &set)
	assert.Equal(t, nfs3.OK, set.Status)
	assert.Equal(t, testPattern(5), g.readAll(s.file, 100))
	sub := g.lookupName(s.root, "d")
	a := dirOpArgs(s.root, "d")
	g.callNFS(nfs3.ProcRmdir, &a, &set)
	assert.Equal(t, nfs3.ErrNotEmpty, set.Status)
	b := dirOpArgs(sub, "moved")
	g.callNFS(nfs3.ProcRemove, &b, &set)
	assert.Equal(t, nfs3.OK, set.Status)
	g.callNFS(nfs3.ProcRmdir, &a, &set)
	assert.Equal(t, nfs3.OK, set.Status)
	g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: s.file}, &get)
	assert.Equal(t, nfs3.ErrStale, get.Status)
}
