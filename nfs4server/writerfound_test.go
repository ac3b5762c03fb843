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
// otherwise each retry would be put off.
func TestCreationFindsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := writeRig(t)
		o, _ := g.clientAt("other", "192.0.2.2:700")
		a := openArgs("o", "f", nfs4.ShareRead|nfs4.WantNoDeleg, 0, nfs4.Exclusive1)
		opened, fh, st := o.open(a)
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.OK, o.close(fh, opened.StateID))
		writing := nfs4.OpenArgs{ShareAccess: nfs4.ShareBoth, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimFH}
		var written nfs4.OpenRes
		st, _ = g.do(put(fh), step{nfs4.OpOpen, &writing, &written})
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.DelegateWrite, written.Delegation.Type)
		require.Equal(t, nfs4.OK, g.close(fh, written.StateID))
		own := g.anotherSession("client")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, own.give(put(fh), written.Delegation.StateID))
		}
		_, again, st := o.open(a)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, fh, again)
		assert.Equal(t, 1, back.count())
	})
}

// TestReclaimByReadOpen checks that a client which has the file open only for reading after
// a restart gets its delegation for writing back: the delegation needs no open, and the
// client may have changes in its cache.
//
// R8881-10.2.1-2.
func TestReclaimByReadOpen(t *testing.T) {
	g, _ := writeRig(t)
	state := t.TempDir()
	g.start(state, 8)
	g.callable("client", "192.0.2.1:700")
	opened, put := g.writing("f")
	require.Equal(t, nfs4.OK, g.close(fhOf(put), opened.StateID))
	g.start(state, 9)
	g.noReclaims = true
	g.callable("client", "192.0.2.1:700")
	again, st := g.reclaim(fhOf(put), nfs4.ShareRead, 0, nfs4.DelegateWrite)
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.DelegateWrite, again.Delegation.Type)
	assert.Equal(t, nfs4.OK, g.put(put, again.Delegation.StateID, "cached"))
	assert.Equal(t, nfs4.ErrOpenMode, g.put(put, again.StateID, "x"))
	assert.Equal(t, nfs4.OK, g.close(fhOf(put), again.StateID))
	assert.Equal(t, nfs4.OK, g.give(put, again.Delegation.StateID))
}

// A namesOnly is a file system whose listings have no handles.
type namesOnly struct{ *mem.FS }

func (f namesOnly) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
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
	g, back := delegRigOf(t, namesOnly{mem.New(mem.Options{Size: 1 << 20})}, true)
	g.s.writes = true
	g.file("f")
	g.writing("f")
	h := holder{}
	h.size.Store(1000)
	back.getattr = h.answer
	o, _ := g.clientAt("other", "192.0.2.2:700")
	var list listing
	st, _ := o.do(root(), look("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000, Request: nfs4.BitmapOf(nfs4.AttrSize)}, &list})
	require.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 1000, list.attrs["f"].Size)
}
