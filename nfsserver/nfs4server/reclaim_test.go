package nfs4server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// restartServer makes g's server one with a journal in dir. Called again it is a restart
// after a crash, with the same file systems.
func (g *testServer) restartServer(dir string, epoch uint32) {
	g.t.Helper()
	g.s.Close()
	if g.journal != nil {
		require.NoError(g.t, g.journal.Close())
	}
	j, found, err := journal.Open(dir, "clients", nfs4state.JournalHeader, nil)
	require.NoError(g.t, err)
	g.journal = j
	past, err := nfs4state.ReadPast(found.Records)
	require.NoError(g.t, err)
	begun := time.Now()
	state := nfs4state.New(WithFiles(nfs4state.Config{
		Now: func() time.Duration { return time.Since(begun) }, Epoch: epoch, Lease: 40 * time.Second, Journal: j, Past: past,
	}))
	g.s = New(Config{Exports: g.s.exports, State: state, Lease: 40 * time.Second, WriteDelegations: g.s.writeDelegations})
	g.s.writeBackPause = 0
}

// reclaimOpen is OPEN with CLAIM_PREVIOUS.
func (g *testServer) reclaimOpen(fh nfs4.FH, access, deny uint32, had nfs4.Delegation) (nfs4.OpenRes, nfs4.Status) {
	g.t.Helper()
	a := openArgs("o", "", access, deny, nfs4.NoCreate)
	a.Claim, a.Delegation = nfs4.ClaimPrevious, had
	var res nfs4.OpenRes
	st, _ := g.sendSteps(step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, newStatusRes()}, step{nfs4.OpOpen, a, &res})
	return res, st
}

// R8881-9.11-1, R8881-15.1.9.4-1, R8881-18.10.4-3, R8881-18.16.3-16, R8881-18.16.3-17: after a
// server restart the client opens and locks its file again, even if the file's mode does not
// permit a new open.
func TestReclaim(t *testing.T) {
	vfstest.NeedRoot(t)
	host, state := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(host, 0o777))
	dir, err := posix.Open(host, posix.Options{})
	require.NoError(t, err)
	defer dir.Close()
	for name, export := range map[string]exportset.Export{
		"posix": {Path: "/x", FS: dir}, "mem": {Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20})},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestServer(t, export)
			state := filepath.Join(state, name)
			require.NoError(t, os.Mkdir(state, 0o700))
			g.restartServer(state, 8)
			g.connectClient()
			a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded)
			a.Attrs.Mode = 0o444
			open, fh, st := g.openName(a)
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OK, g.writeFile(fh, open.StateID, "before"))
			_, st = g.lockFile(fh, lockArgs(open.StateID, "l", nfs4.LockWrite, 0, 10))
			require.Equal(t, nfs4.OK, st)

			g.restartServer(state, 9)
			g.sessionAs("client")
			_, st = g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateRead)
			assert.Equal(t, nfs4.ErrReclaimBad, st, "no delegation was granted")
			open, st = g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateNone)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, nfs4.DelegateNone, open.Delegation.Type)
			require.Equal(t, nfs4.OK, g.writeFile(fh, open.StateID, "after!"))
			lock := lockArgs(open.StateID, "l", nfs4.LockWrite, 0, 10)
			_, st = g.lockFile(fh, lock)
			assert.Equal(t, nfs4.ErrGrace, st)
			lock.Reclaim = true
			_, st = g.lockFile(fh, lock)
			require.Equal(t, nfs4.OK, st)
			st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
			require.Equal(t, nfs4.OK, st)
			data, st := g.readFile(fh, open.StateID)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "after!", data)

			// R8881-8.4.2.1.1-1: another user gets no rights by a reclaim.
			g.restartServer(state, 10)
			g.sessionAs("client")
			g.cred.UID, g.cred.GID = 1001, 1001
			_, st = g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateNone)
			assert.Equal(t, nfs4.ErrAccess, st)
		})
	}
}

// TestReclaimCounters checks that a client reclaims an open for writing although changes wait for
// clients with delegation counters, whose lease may be longer than the grace period. Its writes
// wait.
func TestReclaimCounters(t *testing.T) {
	state := t.TempDir()
	g, _ := newDelegServer(t)
	g.restartServer(state, 8)
	g.connectAs("client")
	g.becomeRoot()
	open, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth|nfs4.WantNoDeleg, 0, nfs4.Guarded))
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.writeFile(fh, open.StateID, "before"))
	require.NoError(t, g.journal.Append(nfs4state.AppendCounters(nil, time.Minute)))
	g.restartServer(state, 9)
	g.sessionAs("client")
	open, st = g.reclaimOpen(fh, nfs4.ShareBoth, 0, nfs4.DelegateNone)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrDelay, g.writeFile(fh, open.StateID, "after"))
}

// R8881-8.4.2.1-2, R8881-18.16.3-16: calls must wait for a client that may still reclaim a deny
// mode.
func TestGraceStatuses(t *testing.T) {
	state := t.TempDir()
	g := newTestServer(t)
	g.restartServer(state, 8)
	g.connectClient().becomeRoot()
	res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, nfs4.ShareWrite, nfs4.Guarded))
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "content"))
	g.restartServer(state, 9)
	g.connectAs("another")
	put := step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, newStatusRes()}
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrGrace, st)
	_, _, st = g.openName(openArgs("o", "new", nfs4.ShareBoth, 0, nfs4.Guarded))
	assert.Equal(t, nfs4.ErrGrace, st)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("new"))
	assert.Equal(t, nfs4.ErrNoEnt, st, "nothing was created")
	assert.Equal(t, nfs4.ErrGrace, g.writeFile(fh, nfs4.AnonymousStateID, "x"))
	_, st = g.readFile(fh, nfs4.AnonymousStateID)
	assert.Equal(t, nfs4.ErrGrace, st)
	_, st = g.readFile(fh, nfs4.BypassStateID)
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
	assert.Equal(t, nfs4.ErrGrace, st)
	var attrs nfs4.Attrs
	attrs.Mask.Set(nfs4.AttrSize)
	assert.Equal(t, nfs4.ErrGrace, g.setAttrs(fh, attrs))
	st, _ = g.sendSteps(put, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{}, new(nfs4.GetAttrRes)})
	assert.Equal(t, nfs4.OK, st)
	require.True(t, g.s.EndGrace())
	_, _, st = g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
}
