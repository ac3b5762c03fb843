package nfsserver

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestReadLent checks that a READ is served from the file's mapping, over a transport that
// sends data without a copy. If the file is truncated concurrently, the reply has the shorter
// count and reports the end.
func TestReadLent(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), data, 0o600))
	g := newPosixServer(t, dir, posix.Options{StateDir: t.TempDir()})
	fh := g.lookupName(g.callMnt("/x").Handle, "f")

	read := func(off uint64, count uint32, mappable bool) (*oncrpc.Reply, nfs3.ReadRes) {
		t.Helper()
		args := nfs3.ReadArgs{File: fh, Offset: off, Count: count}
		req := oncrpc.Request{Msg: args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, nfs3.ProcRead)), Peer: g.peer, MaxReply: g.maxReply}
		rep := &oncrpc.Reply{Mappable: mappable}
		require.True(t, g.mux.Serve(t.Context(), &req, rep))
		return rep, g.readResults(rep)
	}
	rep, res := read(4096, 512<<10, true)
	require.NotNil(t, rep.Cut, "lent")
	assert.Equal(t, data[4096:4096+512<<10], res.Data)
	assert.False(t, res.EOF)
	assert.EqualValues(t, 512<<10, res.Count)

	whole := bytes.Clone(rep.Head)
	for _, why := range []error{unix.EIO, nil} {
		rep.Head = rep.Cut(rep.Head, 1234, why)
		rep.Item.B = rep.Item.B[:1234]
		res = g.readResults(rep)
		assert.EqualValues(t, 1234, res.Count)
		assert.Equal(t, why == nil, res.EOF)
		assert.Equal(t, data[4096:4096+1234], res.Data)
	}
	rep.Head = rep.Cut(rep.Head, 0, nil)
	rep.Item.B = rep.Item.B[:0]
	res = g.readResults(rep)
	assert.Zero(t, res.Count)
	assert.True(t, res.EOF)
	rep.Head = rep.Cut(whole, 0, unix.EIO)
	_, results := g.parseAccepted(rep.Head)
	g.decodeResults(results, nil, &res)
	assert.Equal(t, nfs3.ErrIO, res.Status)
	assert.EqualValues(t, len(data), res.Attr.Attr.Size)
	rep.DropItem()
	assert.Nil(t, rep.Cut)

	rep, res = read(1<<20-100<<10, 200<<10, true)
	require.NotNil(t, rep.Cut)
	assert.True(t, res.EOF)
	assert.Equal(t, data[1<<20-100<<10:], res.Data)
	rep.DropItem()

	for _, c := range []struct {
		count    uint32
		mappable bool
	}{{512 << 10, false}, {4096, true}} {
		rep, res = read(0, c.count, c.mappable)
		assert.Nil(t, rep.Cut)
		assert.Equal(t, data[:c.count], res.Data)
		rep.DropItem()
	}
}

// readResults decodes a reply to READ.
func (g *testServer) readResults(rep *oncrpc.Reply) (res nfs3.ReadRes) {
	g.t.Helper()
	stat, results := g.parseAccepted(rep.Head)
	require.Zero(g.t, stat)
	g.decodeResults(results, rep.Item.B, &res)
	require.Equal(g.t, nfs3.OK, res.Status)
	return res
}
