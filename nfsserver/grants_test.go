package nfsserver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// conflicts are calls with their status and the recalls that they cause from a
// client that holds everything: others if another client makes the call, own if
// the holder does.
var conflicts = []struct {
	name   string
	proc   uint32
	args   func(fh map[string]nfs3.FH) message
	others []string
	own    []string
	status nfs3.Status
}{
	{"WRITE", nfs3.ProcWrite, func(fh map[string]nfs3.FH) message {
		return &nfs3.WriteArgs{File: fh["f"], Data: []byte("data")}
	}, []string{"f"}, nil, nfs3.OK},
	{"WRITE too far", nfs3.ProcWrite, func(fh map[string]nfs3.FH) message {
		return &nfs3.WriteArgs{File: fh["f"], Offset: exportset.MaxFileSize + 1, Data: []byte("data")}
	}, nil, nil, nfs3.ErrFBig},
	{"SETATTR", nfs3.ProcSetAttr, func(fh map[string]nfs3.FH) message {
		return &nfs3.SetAttrArgs{Object: fh["d"]}
	}, []string{"d"}, nil, nfs3.OK},
	{"CREATE", nfs3.ProcCreate, func(fh map[string]nfs3.FH) message {
		return &nfs3.CreateArgs{Where: dirOpArgs(fh["d"], "new")}
	}, []string{"d"}, nil, nfs3.OK},
	{"CREATE that truncates", nfs3.ProcCreate, func(fh map[string]nfs3.FH) message {
		return &nfs3.CreateArgs{Where: dirOpArgs(fh["d"], "f"), Attr: nfs3.SetAttr{Size: nfs3.OptUint64{Set: true}}}
	}, []string{"f"}, []string{"f"}, nfs3.OK},
	{"CREATE that truncates a directory", nfs3.ProcCreate, func(fh map[string]nfs3.FH) message {
		return &nfs3.CreateArgs{Where: dirOpArgs(fh["d"], "sub"), Attr: nfs3.SetAttr{Size: nfs3.OptUint64{Set: true}}}
	}, nil, nil, nfs3.ErrIsDir},
	{"CREATE of an existing file", nfs3.ProcCreate, func(fh map[string]nfs3.FH) message {
		return &nfs3.CreateArgs{Where: dirOpArgs(fh["d"], "f")}
	}, nil, nil, nfs3.OK},
	{"CREATE guarded", nfs3.ProcCreate, func(fh map[string]nfs3.FH) message {
		return &nfs3.CreateArgs{Where: dirOpArgs(fh["d"], "f"), Mode: nfs3.Guarded}
	}, nil, nil, nfs3.ErrExist},
	{"MKDIR", nfs3.ProcMkdir, func(fh map[string]nfs3.FH) message {
		return &nfs3.MkdirArgs{Where: dirOpArgs(fh["d"], "new")}
	}, []string{"d"}, nil, nfs3.OK},
	{"MKDIR of an existing name", nfs3.ProcMkdir, func(fh map[string]nfs3.FH) message {
		return &nfs3.MkdirArgs{Where: dirOpArgs(fh["d"], "sub")}
	}, nil, nil, nfs3.ErrExist},
	{"SYMLINK", nfs3.ProcSymlink, func(fh map[string]nfs3.FH) message {
		return &nfs3.SymlinkArgs{Where: dirOpArgs(fh["d"], "new"), Path: []byte("to")}
	}, []string{"d"}, nil, nfs3.OK},
	{"MKNOD", nfs3.ProcMknod, func(fh map[string]nfs3.FH) message {
		return &nfs3.MknodArgs{Where: dirOpArgs(fh["d"], "new"), Type: nfs3.TypeFIFO}
	}, []string{"d"}, nil, nfs3.OK},
	{"REMOVE", nfs3.ProcRemove, func(fh map[string]nfs3.FH) message {
		args := dirOpArgs(fh["d"], "f")
		return &args
	}, []string{"d", "f"}, []string{"f"}, nfs3.OK},
	{"REMOVE of a missing name", nfs3.ProcRemove, func(fh map[string]nfs3.FH) message {
		args := dirOpArgs(fh["d"], "no")
		return &args
	}, nil, nil, nfs3.ErrNoEnt},
	{"RMDIR", nfs3.ProcRmdir, func(fh map[string]nfs3.FH) message {
		args := dirOpArgs(fh["d"], "sub")
		return &args
	}, []string{"d", "sub"}, []string{"sub"}, nfs3.OK},
	{"RENAME", nfs3.ProcRename, func(fh map[string]nfs3.FH) message {
		return &nfs3.RenameArgs{From: dirOpArgs(fh["d"], "f"), To: dirOpArgs(fh["e"], "new")}
	}, []string{"d", "e", "f"}, []string{"f"}, nfs3.OK},
	{"RENAME over", nfs3.ProcRename, func(fh map[string]nfs3.FH) message {
		return &nfs3.RenameArgs{From: dirOpArgs(fh["d"], "f"), To: dirOpArgs(fh["e"], "g")}
	}, []string{"d", "e", "f", "g"}, []string{"f", "g"}, nfs3.OK},
	{"RENAME to itself", nfs3.ProcRename, func(fh map[string]nfs3.FH) message {
		return &nfs3.RenameArgs{From: dirOpArgs(fh["d"], "f"), To: dirOpArgs(fh["d"], "f")}
	}, nil, nil, nfs3.OK},
	{"RENAME of a missing name", nfs3.ProcRename, func(fh map[string]nfs3.FH) message {
		return &nfs3.RenameArgs{From: dirOpArgs(fh["d"], "no"), To: dirOpArgs(fh["e"], "g")}
	}, nil, nil, nfs3.ErrNoEnt},
	{"LINK", nfs3.ProcLink, func(fh map[string]nfs3.FH) message {
		return &nfs3.LinkArgs{File: fh["f"], Link: dirOpArgs(fh["e"], "new")}
	}, []string{"e", "f"}, nil, nfs3.OK},
	{"LINK to an existing name", nfs3.ProcLink, func(fh map[string]nfs3.FH) message {
		return &nfs3.LinkArgs{File: fh["f"], Link: dirOpArgs(fh["e"], "g")}
	}, nil, nil, nfs3.ErrExist},
	{"READ", nfs3.ProcRead, func(fh map[string]nfs3.FH) message {
		return &nfs3.ReadArgs{File: fh["f"], Count: 1}
	}, nil, nil, nfs3.OK},
	{"LOOKUP", nfs3.ProcLookup, func(fh map[string]nfs3.FH) message {
		args := dirOpArgs(fh["d"], "f")
		return &args
	}, nil, nil, nfs3.OK},
	{"COMMIT", nfs3.ProcCommit, func(fh map[string]nfs3.FH) message { return &nfs3.CommitArgs{File: fh["f"]} }, nil, nil, nfs3.OK},
}

// TestConflicts checks that each procedure recalls exactly the delegations of objects that it
// changes, and makes the change after they are returned.
func TestConflicts(t *testing.T) {
	for _, tt := range conflicts {
		for who, want := range map[string][]string{"others": tt.others, "own": tt.own} {
			t.Run(tt.name+"/"+who, func(t *testing.T) {
				runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
					holder, other := g.connectClient(), g.connectClient()
					holder.acquireAll(g.allNames()...)
					caller := other
					if who == "own" {
						caller = holder
					}
					assert.Equal(t, tt.status, caller.callNFS(tt.proc, tt.args(g.fh)))
					assert.Equal(t, want, holder.takeRecalls())
					assert.Equal(t, len(g.fh)-len(want), g.k.Stats().InForce)
					holder.disconnect()
					other.disconnect()
				})
			})
		}
	}
}

// A fakeListFS accepts access control lists, and drops them.
type fakeListFS struct{ *mem.FS }

func (fakeListFS) HasACLs() bool { return true }

func (fakeListFS) GetACL(context.Context, *vfs.Cred, vfs.Handle) (access, def vfs.ACL, a vfs.MaybeAttr, err error) {
	return nil, nil, a, nil
}

func (fakeListFS) SetACL(context.Context, *vfs.Cred, vfs.Handle, *vfs.ACL, *vfs.ACL) (a vfs.MaybeAttr, err error) {
	return a, nil
}

// TestSetACLRecalls checks that SETACL recalls delegations too.
func TestSetACLRecalls(t *testing.T) {
	lists := func(c *Config) { c.Exports[0].FS = fakeListFS{mem.New(mem.Options{})} }
	runWithGrants(t, lists, func(t *testing.T, g *grantServer) {
		holder, other := g.connectClient(), g.connectClient()
		defer holder.disconnect()
		defer other.disconnect()
		holder.acquireAll("f", "d")
		for _, name := range []string{"f", "d"} {
			args := nfsacl.SetACLArgs{Object: g.fh[name]}
			assert.Equal(t, nfs3.OK, holder.callProgram(nfsacl.Program, nfsacl.ProcSetACL, &args))
			assert.Equal(t, nfs3.ErrPerm, other.callAsUser(1001, nfsacl.Program, nfsacl.ProcSetACL, &args))
			assert.Empty(t, holder.takeRecalls())
			assert.Equal(t, nfs3.OK, other.callProgram(nfsacl.Program, nfsacl.ProcSetACL, &args))
			assert.Equal(t, []string{name}, holder.takeRecalls())
		}
	})
}

// TestBarredRecallNothing checks that a caller without permission to change anything recalls
// nothing, and gets the file system's error. The owner may still write to a file that its mode
// lets no user write to.
func TestBarredRecallNothing(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		holder, other := g.connectClient(), g.connectClient()
		defer other.disconnect()
		defer holder.disconnect()
		mode := uint32(0o555)
		for _, name := range []string{"d", "e", "f"} {
			_, err := g.fs.SetAttr(t.Context(), &vfs.Cred{UID: 1000}, g.hosts[name], vfs.SetAttr{Mode: &mode}, nil)
			require.NoError(t, err)
		}
		all := uint32(0o1777)
		_, err := g.fs.SetAttr(t.Context(), &vfs.Cred{UID: 1000}, g.hosts["sub"], vfs.SetAttr{Mode: &all}, nil)
		require.NoError(t, err)
		_, err = g.fs.Create(t.Context(), &vfs.Cred{UID: 1000}, g.hosts["sub"], "s", vfs.CreateHow{})
		require.NoError(t, err)
		_, err = g.fs.Create(t.Context(), &vfs.Cred{UID: 1001}, g.hosts["sub"], "own", vfs.CreateHow{})
		require.NoError(t, err)
		_, _, err = g.fs.Link(t.Context(), &vfs.Cred{UID: 1000}, g.hosts["f"], g.hosts["/"], "linked")
		require.NoError(t, err)

		set := func(name string, a nfs3.SetAttr) message { return &nfs3.SetAttrArgs{Object: g.fh[name], Attr: a} }
		word, now := nfs3.OptUint32{Set: true, Value: 1001}, nfs3.SetTime{How: nfs3.SetToServerTime}
		then := nfs3.SetTime{How: nfs3.SetToClientTime}
		remove, rmdir, sticky := dirOpArgs(g.fh["d"], "f"), dirOpArgs(g.fh["d"], "sub"), dirOpArgs(g.fh["sub"], "s")
		for round := range 2 { // in the first round there are no delegations, and the file system refuses
			for i, c := range []struct {
				prog, proc uint32
				args       message
				want       nfs3.Status
			}{
				{nfs3.Program, nfs3.ProcWrite, &nfs3.WriteArgs{File: g.fh["f"], Data: []byte("data")}, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcCreate, &nfs3.CreateArgs{Where: dirOpArgs(g.fh["d"], "new")}, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(g.fh["d"], "new")}, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcRemove, &remove, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcRmdir, &rmdir, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(g.fh["d"], "f"), To: dirOpArgs(g.fh["e"], "new")}, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(g.fh["d"], "f"), To: dirOpArgs(g.fh["e"], "g")}, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcLink, &nfs3.LinkArgs{File: g.fh["f"], Link: dirOpArgs(g.fh["e"], "new")}, nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcSetAttr, set("d", nfs3.SetAttr{Mode: word}), nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcSetAttr, set("f", nfs3.SetAttr{UID: word}), nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcSetAttr, set("f", nfs3.SetAttr{GID: word}), nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcSetAttr, set("f", nfs3.SetAttr{Atime: then}), nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcSetAttr, set("f", nfs3.SetAttr{Mtime: then}), nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcSetAttr, set("d", nfs3.SetAttr{Mtime: now}), nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcSetAttr, set("f", nfs3.SetAttr{Size: nfs3.OptUint64{Set: true}}), nfs3.ErrAcces},
				{nfs3.Program, nfs3.ProcRemove, &sticky, nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcRename, &nfs3.RenameArgs{From: sticky, To: dirOpArgs(g.fh["sub"], "new")}, nfs3.ErrPerm},
				{nfs3.Program, nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(g.fh["sub"], "own"), To: sticky}, nfs3.ErrPerm},
			} {
				assert.Equal(t, c.want, other.callAsUser(1001, c.prog, c.proc, c.args), "%d of round %d", i, round)
			}
			if round == 0 {
				holder.acquireAll("d", "e", "f", "g", "sub")
			}
		}
		assert.Equal(t, nfs3.OK, other.callAsUser(1001, nfs3.Program, nfs3.ProcCreate, &nfs3.CreateArgs{Where: dirOpArgs(g.fh["d"], "f")}))
		assert.Empty(t, holder.takeRecalls())
		assert.Equal(t, nfs3.OK, other.callNFS(g.writeCall("f")))
		assert.Equal(t, []string{"f"}, holder.takeRecalls())
		own := dirOpArgs(g.fh["sub"], "own")
		assert.Equal(t, nfs3.OK, other.callAsUser(1001, nfs3.Program, nfs3.ProcRemove, &own), "the user's own file")
		assert.Equal(t, []string{"sub"}, holder.takeRecalls())
	})
}
