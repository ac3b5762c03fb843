package nfs4server

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestCreationFindsWriter checks that an exclusive OPEN for reading, which finds the file
// that it has made before, recalls that file from a client that writes it since:
// otherwise each retry would be deferred.
func TestCreationFindsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newWriteDelegServer(t)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		a := openArgs("o", "f", nfs4.ShareRead|nfs4.WantNoDeleg, 0, nfs4.Exclusive1)
		opened, fh, st := o.openName(a)
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.OK, o.closeFile(fh, opened.StateID))
		writing := nfs4.OpenArgs{ShareAccess: nfs4.ShareBoth, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimFH}
		var written nfs4.OpenRes
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpOpen, &writing, &written})
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.DelegateWrite, written.Delegation.Type)
		require.Equal(t, nfs4.OK, g.closeFile(fh, written.StateID))
		own := g.anotherSession("client")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, own.returnDelegation(putStep(fh), written.Delegation.StateID))
		}
		_, again, st := o.openName(a)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, fh, again)
		assert.Equal(t, 1, back.callCount())
	})
}

// TestReclaimByReadOpen checks that a client that has the file open only for reading after
// a restart gets its write delegation back: the delegation needs no open, and the
// client may have changes in its cache.
//
// R8881-10.2.1-2.
func TestReclaimByReadOpen(t *testing.T) {
	g, _ := newWriteDelegServer(t)
	state := t.TempDir()
	g.restartServer(state, 8)
	g.newCallableClient("client", "192.0.2.1:700")
	opened, put := g.openForWriting("f")
	require.Equal(t, nfs4.OK, g.closeFile(handleInStep(put), opened.StateID))
	g.restartServer(state, 9)
	g.noReclaims = true
	g.newCallableClient("client", "192.0.2.1:700")
	again, st := g.reclaimOpen(handleInStep(put), nfs4.ShareRead, 0, nfs4.DelegateWrite)
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.DelegateWrite, again.Delegation.Type)
	assert.Equal(t, nfs4.OK, g.writeAtStart(put, again.Delegation.StateID, "cached"))
	assert.Equal(t, nfs4.ErrOpenMode, g.writeAtStart(put, again.StateID, "x"))
	assert.Equal(t, nfs4.OK, g.closeFile(handleInStep(put), again.StateID))
	assert.Equal(t, nfs4.OK, g.returnDelegation(put, again.Delegation.StateID))
}

// A fakeNamesOnlyFS is a file system whose listings have no handles.
type fakeNamesOnlyFS struct{ *mem.FS }

func (f fakeNamesOnlyFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	return f.FS.ReadDir(ctx, c, dir, cookie, verifier, plus, func(e *vfs.Entry) bool {
		bare := *e
		bare.Handle, bare.HasHandle = vfs.Handle{}, false
		return fn(&bare)
	})
}

// TestWriterWithoutHandle checks that READDIR asks the client that writes a file also if
// the file system's listing has no handles.
//
// R8881-10.4.3-1.
func TestWriterWithoutHandle(t *testing.T) {
	g, back := newDelegServerFor(t, fakeNamesOnlyFS{mem.New(mem.Options{Size: 1 << 20})}, true)
	g.s.writeDelegations = true
	g.makeFileStep("f")
	g.openForWriting("f")
	h := fakeHolder{}
	h.size.Store(1000)
	back.getattr = h.answerGetAttr
	o, _ := g.newClientAt("other", "192.0.2.2:700")
	var list dirListing
	st, _ := o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000, Request: nfs4.BitmapOf(nfs4.AttrSize)}, &list})
	require.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 1000, list.attrs["f"].Size)
}
