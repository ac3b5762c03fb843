package nfsserver

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeCountingFS counts the calls to GetAttr.
type fakeCountingFS struct {
	*memFS
	asked int
}

func (f *fakeCountingFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	f.asked++
	return f.memFS.GetAttr(ctx, c, h)
}

// TestForgedHandles checks that among a million handles, truncated, changed, random, or another
// server's, none reaches a file system.
func TestForgedHandles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fs := &fakeCountingFS{memFS: newMemFS()}
	g := newTestServer(t, fs)
	good := g.handleOf(memRoot)
	foreign, err := exportset.New(Config{Key: [32]byte{1}})
	require.NoError(t, err)
	forge := handleForger{rnd: rnd, good: good, foreign: foreign}
	program := nfsProgram{g.server}
	call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Peer: g.peer, MaxReply: 4096}
	var rep oncrpc.Reply
	var args, head []byte
	seen := make(map[nfs3.Status]int)
	ctx := t.Context()
	for range 1_000_000 { // without testify, which would take most of the time
		a := nfs3.HandleArgs{Object: forge.nextHandle()}
		args = a.AppendTo(args[:0])
		call.Args, rep.Head = xdr.NewReader(args), head[:0]
		if err := program.ServeRPC(ctx, &call, &rep); err != nil || len(rep.Head) != 4 {
			require.Fail(t, "neither BADHANDLE nor STALE alone", "%x: %v", a.Object, err)
		}
		head = rep.Head
		r := xdr.NewReader(head)
		seen[nfs3.Status(r.Uint32())]++
	}
	assert.Zero(t, fs.asked)
	assert.Len(t, seen, 2)
	assert.Greater(t, seen[nfs3.ErrBadHandle], 100_000)
	assert.Greater(t, seen[nfs3.ErrStale], 100_000)

	var res nfs3.GetAttrRes
	g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: good}, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, 1, fs.asked)
}

// A handleForger makes handles that no server gave out, from a valid one.
type handleForger struct {
	rnd     *rand.Rand
	good    nfs3.FH
	foreign *exportset.Set
	fh, b   [nfs3.FHSize]byte
}

// randomBytes returns n bytes, valid until the next call.
func (f *handleForger) randomBytes(n int) []byte {
	for i := range n {
		f.b[i] = byte(f.rnd.Uint32())
	}
	return f.b[:n]
}

func (f *handleForger) nextHandle() nfs3.FH {
	switch f.rnd.IntN(5) {
	case 0: // truncated
		return f.good[:f.rnd.IntN(len(f.good))]
	case 1: // one bit
		fh := append(f.fh[:0], f.good...)
		fh[f.rnd.IntN(len(fh))] ^= 1 << f.rnd.IntN(8)
		return fh
	case 2: // longer
		return append(append(f.fh[:0], f.good...), f.randomBytes(1+f.rnd.IntN(nfs3.FHSize-len(f.good)))...)
	case 3: // another object, another server
		h, _ := vfs.NewHandle(f.randomBytes(8))
		return f.foreign.AppendHandle(f.fh[:0], &exportset.Exported{ID: f.rnd.Uint32()}, &h)
	default: // random, with the known bytes
		fh := f.randomBytes(f.rnd.IntN(nfs3.FHSize + 1))
		copy(fh, f.good[:f.rnd.IntN(handleHead+1)])
		return fh
	}
}

// sealHandle returns a file handle with this server's seal.
func (g *testServer) sealHandle(export uint32, inner []byte) nfs3.FH {
	h, ok := vfs.NewHandle(inner)
	require.True(g.t, ok)
	return g.server.exports.AppendHandle(nil, &exportset.Exported{ID: export}, &h)
}
