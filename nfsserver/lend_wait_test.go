package nfsserver

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeReadFS calls seen in each Read.
type fakeReadFS struct {
	*memFS
	seen func()
}

func (f *fakeReadFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	f.seen()
	return f.memFS.Read(ctx, c, h, p, off)
}

// readMapped sends a READ over a transport that sends mappings, which calls waits during each
// wait for reply memory. The caller must release the reply's item.
func (g *testServer) readMapped(ctx context.Context, fh nfs3.FH, count uint32, waits func()) (*oncrpc.Reply, nfs3.ReadRes) {
	g.t.Helper()
	args := nfs3.ReadArgs{File: fh, Count: count}
	msg := args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, nfs3.ProcRead))
	rep := &oncrpc.Reply{Mappable: true, Lend: func(n int) *buf.Buf {
		waits()
		return buf.Default.Get(n)
	}}
	require.True(g.t, g.mux.Serve(ctx, &oncrpc.Request{Msg: msg, Peer: g.peer, MaxReply: g.maxReply}, rep))
	stat, results := g.parseAccepted(rep.Head)
	require.Zero(g.t, stat)
	var res nfs3.ReadRes
	var item []byte
	if rep.Item != nil {
		item = rep.Item.B
	}
	g.decodeResults(results, item, &res)
	return rep, res
}

// TestReadAfterMemory checks a READ that waits for memory because its data cannot be mapped: it
// has no permit in the meantime, and if another client gets the right to change the file in its
// cache during the wait, that right is recalled before the data is read. Other calls can have
// the memory during the recall.
func TestReadAfterMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakeReadFS{memFS: newMemFS()}
		g := newTestServer(t, fs, withHolders)
		data := bytes.Repeat([]byte("0123456"), 4000)
		fh := g.makeFile("f", data)
		h := memHandle(g.objectID(fs.memFS, fh))
		reads, waits := 0, 0
		fs.seen = func() {
			reads++
			assert.False(t, g.server.exports.Holders().HasWriters(), "a client may have newer data")
			assert.Equal(t, 1, g.countPermits())
		}
		start := time.Now()
		rep, res := g.readMapped(t.Context(), fh, uint32(len(data)), func() {
			assert.Zero(t, g.countPermits())
			if waits++; waits < 3 {
				w := holdForWriting(t, g.server.exports, h, fs)
				w.holder.Recall = func(recall.Changer) {
					assert.Zero(t, buf.Default.Out(), "memory of the reply")
					time.AfterFunc(300*time.Millisecond, w.holder.Return)
				}
			}
		})
		require.Equal(t, nfs3.OK, res.Status)
		assert.Equal(t, data, res.Data)
		assert.Equal(t, []int{1, 3}, []int{reads, waits})
		assert.Equal(t, 600*time.Millisecond, time.Since(start))
		rep.DropItem()
		assert.Zero(t, g.countPermits())
		g.checkIdle()
	})
}

// TestReadGivesUp checks that a READ which gets no permit after its wait for memory leaves
// nothing behind.
func TestReadGivesUp(t *testing.T) {
	g := newTestServer(t, newMemFS())
	fh := g.makeFile("f", make([]byte, 20_000))
	ctx, cancel := context.WithCancel(t.Context())
	taken, free, freed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	rep, res := g.readMapped(ctx, fh, 20_000, func() {
		cancel() // the READ waits for nothing
		go func() {
			defer close(freed)
			var take func()
			take = func() {
				if g.server.exports.RunWithPermit(ctx, g.peer, g.exportAt(0), take) != nil {
					close(taken)
					<-free
				}
			}
			take()
		}()
		<-taken
	})
	close(free)
	<-freed
	assert.Equal(t, nfs3.ErrJukebox, res.Status)
	assert.True(t, rep.NoReplay)
	assert.Nil(t, rep.Item)
	assert.Zero(t, buf.Default.Out())
	assert.Zero(t, g.countPermits())
	g.checkIdle()
}

// TestReadOutlivesExport checks that an export which is removed while a READ waits for
// memory is released after that READ, and not before it.
func TestReadOutlivesExport(t *testing.T) {
	g := newTestServer(t, newMemFS())
	data := bytes.Repeat([]byte("0123456"), 4000)
	fh := g.makeFile("f", data)
	list := g.server.Exports()
	released := false
	list[0].Released = func() { released = true }
	require.NoError(t, g.server.exports.SetExports(list))
	rep, res := g.readMapped(t.Context(), fh, uint32(len(data)), func() {
		require.NoError(t, g.server.exports.SetExports(nil))
		assert.False(t, released)
	})
	require.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, data, res.Data)
	assert.True(t, released)
	rep.DropItem()
	_, res = g.readMapped(t.Context(), fh, uint32(len(data)), func() { t.Error("memory for a READ of no export") })
	assert.Equal(t, nfs3.ErrStale, res.Status)
}
