package nfs4server

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// openOneStateID opens a name with OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION, and requires a
// delegation alone.
func (g *testServer) openOneStateID(name string, access uint32) (nfs4.StateID, step) {
	g.t.Helper()
	opened, put := g.openFile(name, access|nfs4.WantOpenXorDelegation, 0)
	require.NotZero(g.t, opened.Flags&nfs4.OpenNoOpenStateID)
	require.Zero(g.t, opened.StateID, "R9754-4-1")
	require.Contains(g.t, []nfs4.Delegation{nfs4.DelegateRead, nfs4.DelegateWrite}, opened.Delegation.Type)
	return opened.Delegation.StateID, put
}

// TestOneStateID checks what a delegation without an open is good for: READ, also as the current
// stateid, and LOCK, but no operation on opens. R9754-4-1, R9754-4-3.
func TestOneStateID(t *testing.T) {
	g, back := newDelegServer(t)
	put := g.makeFileStep("f")
	fh := put.args.(*nfs4.HandleArgs).Object
	id, _ := g.openOneStateID("f", nfs4.ShareRead)
	data, st := g.readFile(fh, id)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", data)
	assert.Equal(t, nfs4.ErrOpenMode, g.writeAtStart(put, id, "x"))
	assert.Equal(t, nfs4.ErrBadStateID, g.closeFile(fh, id), "there is no open to close")
	locked, st := g.lockFile(fh, lockArgs(id, "l", nfs4.LockRead, 0, 1))
	require.Equal(t, nfs4.OK, st)
	_, st = g.lockFile(fh, lockArgs(id, "l", nfs4.LockWrite, 0, 1))
	assert.Equal(t, nfs4.ErrOpenMode, st)
	g.minor = nfs4.Minor1
	_, st = g.lockFile(fh, lockArgs(id, "m", nfs4.LockRead, 0, 1))
	assert.Equal(t, nfs4.ErrBadStateID, st, "a lock needs an open in minor version 1")
	g.minor = nfs4.Minor2
	data, st = g.readFile(fh, locked.StateID)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", data, "the lock's stateid is good for READ, too")
	list, _ := g.s.Clients(1)
	assert.Zero(t, list[0].Opens)

	claim := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead | nfs4.WantOpenXorDelegation, Owner: nfs4.StateOwner{Owner: []byte("p")}, How: nfs4.NoCreate, Claim: nfs4.ClaimDelegCurFH, StateID: id}
	var own nfs4.OpenRes
	st, _ = g.sendSteps(put, step{nfs4.OpOpen, &claim, &own})
	require.Equal(t, nfs4.OK, st)
	require.Zero(t, own.Flags&nfs4.OpenNoOpenStateID, "the delegation may be about to be returned")
	_, st = g.lockFile(fh, lockArgs(own.StateID, "l", nfs4.LockRead, 0, 1))
	assert.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.OK, g.returnDelegation(put, id))
	assert.Zero(t, back.callCount())

	g.makeFileStep("g")
	a := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead | nfs4.WantOpenXorDelegation, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: nfs4.ClaimNull, Name: []byte("g")}
	var opened nfs4.OpenRes
	var read nfs4.ReadRes
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, &a, &opened}, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.CurrentStateID, Count: 10}, &read})
	require.Equal(t, nfs4.OK, st)
	assert.Zero(t, opened.StateID)
	assert.Equal(t, "hello", string(read.Data))
}

// TestOneStateIDWrites checks that a write delegation without an open has the rights of the OPEN:
// its client may write to a file that it has created with a mode that permits nothing. R9754-4-3.
func TestOneStateIDWrites(t *testing.T) {
	vfstest.NeedRoot(t)
	host := t.TempDir()
	require.NoError(t, os.Chmod(host, 0o777))
	disk, err := posix.Open(host, posix.Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	defer disk.Close()
	for name, fs := range map[string]vfs.FS{"posix": disk, "mem": mem.New(mem.Options{Size: 1 << 30})} {
		t.Run(name, func(t *testing.T) {
			g, _ := newDelegServerFor(t, fs, true)
			g.s.writeDelegations = true
			g.cred.UID, g.cred.GID = 1000, 1000
			a := openArgs("o", "f", nfs4.ShareBoth|nfs4.WantOpenXorDelegation, 0, nfs4.Guarded)
			a.Attrs.Mode = 0
			opened, fh, st := g.openName(a)
			require.Equal(t, nfs4.OK, st)
			require.Equal(t, nfs4.OpenNoOpenStateID, opened.Flags&nfs4.OpenNoOpenStateID)
			id := opened.Delegation.StateID
			put := step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, newStatusRes()}
			require.Equal(t, nfs4.OK, g.writeFile(fh, id, "hello, world"))
			size := nfs4.SetAttrArgs{StateID: id, Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 5}}
			st, _ = g.sendSteps(put, step{nfs4.OpSetAttr, &size, new(nfs4.SetAttrRes)})
			assert.Equal(t, nfs4.OK, st)
			st, _ = g.sendSteps(put, step{nfs4.OpCommit, &nfs4.CommitArgs{}, new(nfs4.CommitRes)})
			assert.Equal(t, nfs4.OK, st)
			data, st := g.readFile(fh, id)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "hello", data)

			g.cred.UID, g.cred.GID = 1001, 1001
			assert.Equal(t, nfs4.ErrAccess, g.writeFile(fh, id, "another user's"))
			g.cred.UID, g.cred.GID = 1000, 1000
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, id))
			assert.Equal(t, nfs4.ErrBadStateID, g.writeFile(fh, id, "late"))
		})
	}
}

// TestBothStateIDs checks when OPEN ignores the hint: without a delegation, if the client has the file
// open already, with a deny mode, which a delegation does not have, and in a reclaim. Minor version 1
// does not have the hint. R9754-4-2, R9754-4-4.
func TestBothStateIDs(t *testing.T) {
	g, _ := newDelegServer(t)
	check := func(name string, access, deny uint32, want nfs4.Delegation, why string) nfs4.OpenRes {
		t.Helper()
		opened, _ := g.openFile(name, access|nfs4.WantOpenXorDelegation, deny)
		assert.Zero(t, opened.Flags&nfs4.OpenNoOpenStateID, why)
		assert.NotZero(t, opened.StateID, why)
		assert.Equal(t, want, opened.Delegation.Type, why)
		return opened
	}
	for _, name := range []string{"none", "open", "denied", "held"} {
		g.makeFileStep(name)
	}
	check("none", nfs4.ShareRead|nfs4.WantNoDeleg, 0, nfs4.DelegateNoneExt, "no delegation")
	check("new", nfs4.ShareBoth, 0, nfs4.DelegateNone, "write delegations are off")
	g.openFile("open", nfs4.ShareRead|nfs4.WantNoDeleg, 0)
	check("open", nfs4.ShareRead, 0, nfs4.DelegateRead, "the same owner has it open")
	opened, _, st := g.openName(openArgs("another", "none", nfs4.ShareRead|nfs4.WantOpenXorDelegation, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	assert.NotZero(t, opened.StateID, "another owner of the client has it open")
	assert.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
	check("denied", nfs4.ShareRead, nfs4.ShareWrite, nfs4.DelegateRead, "a deny mode")
	g.openOneStateID("held", nfs4.ShareRead)
	check("held", nfs4.ShareRead, 0, nfs4.DelegateNone, "there is a delegation")

	g.minor = nfs4.Minor1
	g.connectAs("old")
	_, _, st = g.openName(openArgs("o", "none", nfs4.ShareRead|nfs4.WantOpenXorDelegation, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrInval, st)
}

// TestOneStateIDRecall checks that the delegation represents the open for other clients: their change
// waits for its return, and if the client opens the file by it first, with a deny mode that only it can
// know, the change fails. R9754-4-3.
func TestOneStateIDRecall(t *testing.T) {
	for _, access := range []uint32{nfs4.ShareRead, nfs4.ShareBoth} {
		synctest.Test(t, func(t *testing.T) {
			g, back := newWriteDelegServer(t)
			g.makeFileStep("f")
			id, put := g.openOneStateID("f", access)
			own := g.anotherSession("client")
			var claimed nfs4.OpenRes
			back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
				time.Sleep(300 * time.Millisecond)
				claim := nfs4.OpenArgs{ShareAccess: access, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: nfs4.ClaimDelegCurFH, StateID: id}
				st, _ := own.sendSteps(put.withNewResults(), step{nfs4.OpOpen, &claim, &claimed})
				assert.Equal(t, nfs4.OK, st)
				assert.Equal(t, nfs4.OK, own.returnDelegation(put, id))
			}
			o, _ := g.newClientAt("other", "192.0.2.2:700")
			start := time.Now()
			_, _, st := o.openName(openArgs("o", "f", nfs4.ShareRead, nfs4.ShareRead, nfs4.NoCreate))
			assert.Equal(t, 300*time.Millisecond, time.Since(start))
			assert.Equal(t, nfs4.ErrShareDenied, st, "the client has it open for reading")
			assert.Equal(t, 1, back.callCount())
			data, st := g.readFile(put.args.(*nfs4.HandleArgs).Object, claimed.StateID)
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, "hello", data)
		})
	}
}

// TestOneStateIDRevoked checks that a client that does not return the delegation loses the file with
// it, and that no open keeps other clients away then.
func TestOneStateIDRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		g.makeFileStep("f")
		id, put := g.openOneStateID("f", nfs4.ShareBoth)
		fh := put.args.(*nfs4.HandleArgs).Object
		back.answer = func(int) (seq, op nfs4.Status, err error) { return 0, 0, errors.New("connection reset") }
		g.s.exports.Holders().RecallAll()
		for range 5 {
			time.Sleep(recallLease / 4)
			synctest.Wait()
			st, _ := g.sendSteps()
			require.Equal(t, nfs4.OK, st)
		}
		assert.Equal(t, nfs4.ErrDelegRevoked, g.writeFile(fh, id, "late"))
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		_, _, st := o.openName(openArgs("o", "f", nfs4.ShareBoth, nfs4.ShareBoth, nfs4.NoCreate))
		assert.Equal(t, nfs4.OK, st)
	})
}

// TestOneStateIDReclaim checks that after a restart nobody changes a file that a client has open only by
// its delegation, until the client has reclaimed it: it then gets both stateids.
func TestOneStateIDReclaim(t *testing.T) {
	g, _ := newDelegServer(t)
	state := t.TempDir()
	g.restartServer(state, 8)
	g.newCallableClient("client", "192.0.2.1:700")
	put := g.makeFileStep("f")
	fh := put.args.(*nfs4.HandleArgs).Object
	g.openOneStateID("f", nfs4.ShareRead)

	g.restartServer(state, 9)
	g.noReclaims = true
	g.newCallableClient("client", "192.0.2.1:700")
	o := *g
	o.noReclaims = false
	o.newCallableClient("other", "192.0.2.2:700")
	assert.Equal(t, nfs4.ErrDelay, o.writeFile(fh, nfs4.AnonymousStateID, "x"))
	opened, st := g.reclaimOpen(fh, nfs4.ShareRead|nfs4.WantOpenXorDelegation, 0, nfs4.DelegateRead)
	require.Equal(t, nfs4.OK, st)
	assert.Zero(t, opened.Flags&nfs4.OpenNoOpenStateID)
	assert.Equal(t, nfs4.DelegateRead, opened.Delegation.Type)
	data, st := g.readFile(fh, opened.StateID)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", data)
}

// TestOpenArgumentsAttr checks that open_arguments claims what OPEN does, the same for all objects, and
// the hint only if there are delegations. R9754-3-1, R9754-3-3, R9754-3.1-2.
func TestOpenArgumentsAttr(t *testing.T) {
	g, _ := newDelegServer(t)
	put := g.makeFileStep("f")
	fh := put.args.(*nfs4.HandleArgs).Object
	one := nfs4.BitmapOf(nfs4.AttrOpenArguments)
	a := g.getAttrs(fh, one)
	require.Equal(t, one, a.Mask)
	assert.Equal(t, a, g.getAttrs(g.lookupPath("x"), one))
	assert.Equal(t, a, g.getAttrs(g.lookupPath(), one))
	assert.Equal(t, nfs4.WantOpenXorDelegation|0x38, a.OpenArguments.ShareAccessWant.Words[0])
	for claim := range nfs4.ClaimDelegPrevFH + 1 {
		args := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: claim, Name: []byte("f")}
		st, _ := g.sendSteps(step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh}, newStatusRes()}, step{nfs4.OpOpen, &args, new(nfs4.OpenRes)})
		assert.Equal(t, st != nfs4.ErrNotSupp, a.OpenArguments.OpenClaim.Words[0]>>claim&1 == 1, "claim %d: %v", claim, st)
	}
	assert.Equal(t, nfs4.ErrInval, g.setAttrs(fh, nfs4.Attrs{Mask: one}))

	g.s.readDelegations = false
	assert.EqualValues(t, 0x38, g.getAttrs(fh, one).OpenArguments.ShareAccessWant.Words[0])
	g.minor = nfs4.Minor1
	g.connectAs("old")
	assert.Zero(t, g.getAttrs(fh, one).Mask, "only minor version 2 has the attribute")
}
