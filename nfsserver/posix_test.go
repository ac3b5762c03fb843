package nfsserver

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// posixRig serves dir, after applying change. Each call is made as this
// process's user.
func posixRig(t testing.TB, dir string, o posix.Options, change ...func(*Config)) *rig {
	t.Helper()
	fs, err := posix.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	g := newRig(t, fs, append([]func(*Config){options(exports.Options{NoRootSquash: true})}, change...)...)
	g.uid, g.gid, g.gids = uint32(os.Geteuid()), uint32(os.Getegid()), nil
	return g
}

// lookup returns the handle of a name.
func (g *rig) lookup(dir nfs3.FH, name string) nfs3.FH {
	g.t.Helper()
	a, res := in(dir, name), nfs3.LookupRes{}
	g.call(nfs3.ProcLookup, &a, &res)
	require.Equal(g.t, nfs3.OK, res.Status, name)
	return append(nfs3.FH{}, res.Object...)
}

// readAll reads a file in pieces of n bytes.
func (g *rig) readAll(fh nfs3.FH, n uint32) (data []byte) {
	g.t.Helper()
	for res := (nfs3.ReadRes{}); !res.EOF; {
		g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Offset: uint64(len(data)), Count: n}, &res)
		require.Equal(g.t, nfs3.OK, res.Status)
		data = append(data, res.Data...)
	}
	return data
}

// make creates a file with mode bits.
func (g *rig) make(dir nfs3.FH, name string) nfs3.FH {
	g.t.Helper()
	var made nfs3.MakeRes
	set := nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o640}}
	g.call(nfs3.ProcCreate, &nfs3.CreateArgs{Where: in(dir, name), Mode: nfs3.Guarded, Attr: set}, &made)
	require.Equal(g.t, nfs3.OK, made.Status)
	return append(nfs3.FH{}, made.Object...)
}

// TestPOSIX works in a real directory, through both kinds of handle, and
// continues after a restart.
func TestPOSIX(t *testing.T) {
	for _, table := range []bool{false, true} {
		t.Run(fmt.Sprintf("table=%v", table), func(t *testing.T) {
			dir, o := t.TempDir(), posix.Options{StateDir: t.TempDir(), TableHandles: table}
			var before posixSession
			t.Run("work", func(t *testing.T) { before = posixWork(t, posixRig(t, dir, o), dir) })
			t.Run("restart", func(t *testing.T) { posixAgain(t, posixRig(t, dir, o), before) })
		})
	}
}

// A posixSession is the state that a client keeps across a restart of the
// server.
type posixSession struct {
	root, file, gone nfs3.FH
	sum              [32]byte
	verf             uint64
}

func posixWork(t *testing.T, g *rig, dir string) posixSession {
	root := nfs3.FH(g.mnt("/x").Handle)
	require.NotEmpty(t, root)
	file, data := g.make(root, "f\xff"), pattern(300_001)
	var write nfs3.WriteRes
	for off := 0; off < len(data); off += 70_003 {
		part := data[off:min(off+70_003, len(data))]
		g.call(nfs3.ProcWrite, &nfs3.WriteArgs{File: file, Offset: uint64(off), Data: part}, &write)
		require.Equal(t, nfs3.OK, write.Status)
		require.EqualValues(t, len(part), write.Count)
	}
	var commit nfs3.CommitRes
	g.call(nfs3.ProcCommit, &nfs3.CommitArgs{File: file}, &commit)
	assert.Equal(t, nfs3.OK, commit.Status)
	assert.Equal(t, write.Verf, commit.Verf)
	assert.Equal(t, data, g.readAll(file, 65_537))

	var made nfs3.MakeRes
	g.call(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: in(root, "d"), Attr: nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o750}}}, &made)
	require.Equal(t, nfs3.OK, made.Status)
	sub := append(nfs3.FH{}, made.Object...)
	gone := g.make(sub, "moved")
	var rename nfs3.RenameRes
	g.call(nfs3.ProcRename, &nfs3.RenameArgs{From: in(root, "f\xff"), To: in(sub, "moved")}, &rename)
	assert.Equal(t, nfs3.OK, rename.Status)
	assert.True(t, rename.FromDir.Before.OK && rename.ToDir.After.OK)
	assert.Equal(t, file, g.lookup(sub, "moved"), "a rename preserves the handle")
	assert.Equal(t, sub, g.lookup(root, "d"))

	g.call(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: in(root, "l"), Path: []byte("d/moved")}, &made)
	require.Equal(t, nfs3.OK, made.Status)
	var target nfs3.ReadLinkRes
	g.call(nfs3.ProcReadLink, &nfs3.HandleArgs{Object: append(nfs3.FH{}, made.Object...)}, &target)
	assert.Equal(t, "d/moved", string(target.Path))
	assert.Equal(t, mount3.ErrNotDir, g.mnt("/x/l").Status)
	assert.Equal(t, string(sub), string(g.mnt("/x/d").Handle))
	onHost, err := os.ReadFile(filepath.Join(dir, "d", "moved"))
	require.NoError(t, err)
	assert.Equal(t, data, onHost)
	posixList(t, g, root)
	return posixSession{root: root, file: file, gone: gone, sum: sha256.Sum256(data), verf: write.Verf}
}

// posixList lists the root of posixWork, with and without attributes.
func posixList(t *testing.T, g *rig, root nfs3.FH) {
	for _, plus := range []bool{false, true} {
		res := &listing{plus: plus}
		proc, args := dirArgs(root, plus, 0, 0, 4096)
		g.call(proc, args, res)
		require.Equal(t, nfs3.OK, res.Status)
		var names []string
		for _, e := range res.Entries {
			names = append(names, string(e.Name))
			if plus && e.Name[0] != '.' {
				assert.Equal(t, g.lookup(root, string(e.Name)), e.Handle)
				assert.True(t, e.Attr.OK)
			}
		}
		assert.ElementsMatch(t, []string{".", "..", "d", "l"}, names)
		assert.True(t, res.EOF)
	}
}

func posixAgain(t *testing.T, g *rig, s posixSession) {
	assert.Equal(t, s.sum, sha256.Sum256(g.readAll(s.file, 1<<20)), "the handle still means the file")
	var get nfs3.GetAttrRes
	g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: s.gone}, &get)
	assert.Equal(t, nfs3.ErrStale, get.Status)
	var commit nfs3.CommitRes
	g.call(nfs3.ProcCommit, &nfs3.CommitArgs{File: s.file}, &commit)
	assert.Equal(t, nfs3.OK, commit.Status)
	assert.NotEqual(t, s.verf, commit.Verf, "data may have been lost")

	var set nfs3.WccRes
	g.call(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: s.file, Attr: nfs3.SetAttr{Size: nfs3.OptUint64{Set: true, Value: 5}}}, &set)
	assert.Equal(t, nfs3.OK, set.Status)
	assert.Equal(t, pattern(5), g.readAll(s.file, 100))
	sub := g.lookup(s.root, "d")
	a := in(s.root, "d")
	g.call(nfs3.ProcRmdir, &a, &set)
	assert.Equal(t, nfs3.ErrNotEmpty, set.Status)
	b := in(sub, "moved")
	g.call(nfs3.ProcRemove, &b, &set)
	assert.Equal(t, nfs3.OK, set.Status)
	g.call(nfs3.ProcRmdir, &a, &set)
	assert.Equal(t, nfs3.OK, set.Status)
	g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: s.file}, &get)
	assert.Equal(t, nfs3.ErrStale, get.Status)
}
