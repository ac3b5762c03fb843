package nfs4server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/journal"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// start makes g's server one with a journal in dir. Called again it is a restart
// after a crash, with the same file systems.
func (g *rig) start(dir string, epoch uint32) {
	g.t.Helper()
	g.s.Close()
	if g.journal != nil {
		require.NoError(g.t, g.journal.Close())
	}
	j, found, err := journal.Open(dir, "clients", nfs4state.JournalHeader)
	require.NoError(g.t, err)
	g.journal = j
	past, err := nfs4state.ReadPast(found.Records)
	require.NoError(g.t, err)
	begun := time.Now()
	state := nfs4state.New(WithFiles(nfs4state.Config{
		Now: func() time.Duration { return time.Since(begun) }, Epoch: epoch, Lease: 40 * time.Second, Journal: j, Past: past,
	}))
	g.s = New(Config{Realm: g.s.realm, State: state, Lease: 40 * time.Second, WriteDelegations: g.s.writes})
	g.s.quiet = 0
}

// reclaim is OPEN with CLAIM_PREVIOUS.
func (g *rig) reclaim(fh nfs4.FH, access, deny uint32, had nfs4.Delegation) (nfs4.OpenRes, nfs4.Status) {
	g.t.Helper()
	a := openArgs("o", "", access, deny, nfs4.NoCreate)
	a.Claim, a.Delegation = nfs4.ClaimPrevious, had
	var res nfs4.OpenRes
	st, _ := g.do(step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, status()}, step{nfs4.OpOpen, a, &res})
	return res, st
}

// R8881-9.11-1, R8881-15.1.9.4-1, R8881-18.10.4-3, R8881-18.16.3-16, R8881-18.16.3-17:
// after a restart of the server the client opens and locks its file again, also
// if the file's mode does not permit a new open.
func TestReclaim(t *testing.T) {
	vfstest.NeedRoot(t)
	host, state := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(host, 0o777))
	dir, err := posix.Open(host, posix.Options{})
	require.NoError(t, err)
	defer dir.Close()
	for name, export := range map[string]realm.Export{
		"posix": {Path: "/x", FS: dir}, "mem": {Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20})},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, export)
			state := filepath.Join(state, name)
			require.NoError(t, os.Mkdir(state, 0o700))
			g.start(state, 8)
			g.connect()
			a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded)
			a.Attrs.Mode = 0o444
			open, fh, st := g.open(a)
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OK, g.write(fh, open.StateID, "before"))
			_, st = g.lock(fh, newLock(open.StateID, "l", nfs4.LockWrite, 0, 10))
			require.Equal(t, nfs4.OK, st)

			g.start(state, 9)
			g.sessionAs("client")
			_, st = g.reclaim(fh, nfs4.ShareBoth, 0, nfs4.DelegateRead)
			assert.Equal(t, nfs4.ErrReclaimBad, st, "no delegation was granted")
			open, st = g.reclaim(fh, nfs4.ShareBoth, 0, nfs4.DelegateNone)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, nfs4.DelegateNone, open.Delegation.Type)
			require.Equal(t, nfs4.OK, g.write(fh, open.StateID, "after!"))
			lock := newLock(open.StateID, "l", nfs4.LockWrite, 0, 10)
			_, st = g.lock(fh, lock)
			assert.Equal(t, nfs4.ErrGrace, st)
			lock.Reclaim = true
			_, st = g.lock(fh, lock)
			require.Equal(t, nfs4.OK, st)
			st, _ = g.do(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, status()})
			require.Equal(t, nfs4.OK, st)
			data, st := g.read(fh, open.StateID)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "after!", data)

			// R8881-8.4.2.1.1-1: another user gets no rights by a reclaim.
			g.start(state, 10)
			g.sessionAs("client")
			g.cred.UID, g.cred.GID = 1001, 1001
			_, st = g.reclaim(fh, nfs4.ShareBoth, 0, nfs4.DelegateNone)
			assert.Equal(t, nfs4.ErrAccess, st)
		})
	}
}

// R8881-8.4.2.1-2, R8881-18.16.3-16: calls must wait for a client that may still reclaim a deny
// mode.
func TestGraceStatuses(t *testing.T) {
	state := t.TempDir()
	g := newRig(t)
	g.start(state, 8)
	g.connect().asRoot()
	res, fh, st := g.open(openArgs("o", "f", nfs4.ShareBoth, nfs4.ShareWrite, nfs4.Guarded))
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.write(fh, res.StateID, "content"))
	g.start(state, 9)
	g.connectAs("another")
	put := step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, status()}
	_, _, st = g.open(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrGrace, st)
	_, _, st = g.open(openArgs("o", "new", nfs4.ShareBoth, 0, nfs4.Guarded))
	assert.Equal(t, nfs4.ErrGrace, st)
	st, _ = g.do(root(), look("x"), look("new"))
	assert.Equal(t, nfs4.ErrNoEnt, st, "nothing was created")
	assert.Equal(t, nfs4.ErrGrace, g.write(fh, nfs4.AnonymousStateID, "x"))
	_, st = g.read(fh, nfs4.AnonymousStateID)
	assert.Equal(t, nfs4.ErrGrace, st)
	_, st = g.read(fh, nfs4.BypassStateID)
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.do(root(), look("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
	assert.Equal(t, nfs4.ErrGrace, st)
	var attrs nfs4.Attrs
	attrs.Mask.Set(nfs4.AttrSize)
	assert.Equal(t, nfs4.ErrGrace, g.set(fh, attrs))
	st, _ = g.do(put, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{}, new(nfs4.GetAttrRes)})
	assert.Equal(t, nfs4.OK, st)
	require.True(t, g.s.EndGrace())
	_, _, st = g.open(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
}
