package nfsserver

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestDelegatedNames checks that each change by a name recalls an NFSv4 delegation from the
// directory and from the named object, and from no other, and that a caller without the right
// to make the change recalls nothing.
func TestDelegatedNames(t *testing.T) {
	dir := t.TempDir()
	table := recall.New(recall.Config{Now: func() time.Duration { return 0 }})
	g := newPosixServer(t, dir, posix.Options{}, func(c *Config) { c.Holders = table })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	root := append(nfs3.FH{}, g.callMnt("/x").Handle...)
	d := g.lookupName(root, "d")
	var made nfs3.MakeRes
	var wcc nfs3.WccRes
	var moved nfs3.RenameRes
	var linked nfs3.LinkRes
	for _, c := range []struct {
		name    string
		recalls []string // "." is the exported directory
		call    func() nfs3.Status
	}{
		{"REMOVE", []string{".", "old"}, func() nfs3.Status {
			a := dirOpArgs(root, "old")
			g.callNFS(nfs3.ProcRemove, &a, &wcc)
			return wcc.Status
		}},
		{"RENAME", []string{".", "d", "old"}, func() nfs3.Status {
			g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(root, "old"), To: dirOpArgs(d, "old")}, &moved)
			return moved.Status
		}},
		{"RENAME over another", []string{".", "new", "old"}, func() nfs3.Status {
			g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(root, "old"), To: dirOpArgs(root, "new")}, &moved)
			return moved.Status
		}},
		{"LINK", []string{"d", "other"}, func() nfs3.Status {
			g.callNFS(nfs3.ProcLink, &nfs3.LinkArgs{File: g.lookupName(root, "other"), Link: dirOpArgs(d, "linked")}, &linked)
			return linked.Status
		}},
		{"MKDIR", []string{"d"}, func() nfs3.Status {
			g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(d, "made")}, &made)
			return made.Status
		}},
		{"REMOVE of none", []string{}, func() nfs3.Status {
			a := dirOpArgs(root, "none")
			g.callNFS(nfs3.ProcRemove, &a, &wcc)
			assert.Equal(t, nfs3.ErrNoEnt, wcc.Status)
			return nfs3.OK
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := []string{".", "d", "new", "old", "other"}
			for _, held := range [][]string{all, all[:1], all[1:2], all[2:3], all[3:4], all[4:]} {
				for _, name := range []string{"d/old", "d/linked", "d/made", "old", "new", "other"} {
					_ = os.Remove(filepath.Join(dir, name))
				}
				for _, name := range all[2:] {
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
				}
				var mu sync.Mutex
				recalled := []string{}
				var holders []*recall.Holder
				for _, name := range held {
					h := new(recall.Holder)
					h.Recall = func(recall.Changer) {
						mu.Lock()
						defer mu.Unlock()
						recalled = append(recalled, name)
						go h.Return()
					}
					require.True(t, table.Hold(h, objectKey(t, g.exportAt(0).FS, name)) && h.Confirm(), name)
					holders = append(holders, h)
				}
				if len(c.recalls) > 0 && os.Geteuid() == 0 {
					g.uid = 12345
					assert.Contains(t, []nfs3.Status{nfs3.ErrAcces, nfs3.ErrPerm}, c.call()) // the latter by protected_hardlinks
					assert.Empty(t, recalled, "by a stranger")
					g.uid = 0
				}
				assert.Equal(t, nfs3.OK, c.call())
				slices.Sort(recalled)
				assert.Equal(t, slices.DeleteFunc(slices.Clone(c.recalls), func(name string) bool { return !slices.Contains(held, name) }), recalled, "%v held", held)
				for _, h := range holders {
					h.Return()
				}
			}
		})
	}
}

// objectKey returns a name's key in fs's root.
func objectKey(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	h := fs.Root()
	if name != "." {
		var err error
		h, _, _, err = fs.Lookup(t.Context(), &vfs.Cred{}, h, name)
		require.NoError(t, err)
	}
	key, err := fs.(vfs.Identifier).AppendKey(nil, h)
	require.NoError(t, err)
	return key
}
