package nfsserver

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A readFS calls seen in each Read.
type readFS struct {
	*memFS
	seen func()
}

func (f *readFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	f.seen()
	return f.memFS.Read(ctx, c, h, p, off)
}

// mapped makes a READ over a transport that sends mappings, which calls waits during each
// wait for the memory of a reply. The caller must release the reply's item.
func (g *rig) mapped(ctx context.Context, fh nfs3.FH, count uint32, waits func()) (*oncrpc.Reply, nfs3.ReadRes) {
	g.t.Helper()
	args := nfs3.ReadArgs{File: fh, Count: count}
	msg := args.AppendTo(g.header(nfs3.Program, nfs3.Version, nfs3.ProcRead))
	rep := &oncrpc.Reply{Mappable: true, Lend: func(n int) *buf.Buf {
		waits()
		return buf.Default.Get(n)
	}}
	require.True(g.t, g.mux.Serve(ctx, &oncrpc.Request{Msg: msg, Peer: g.peer, MaxReply: g.maxReply}, rep))
	stat, results := g.accept(rep.Head)
	require.Zero(g.t, stat)
	var res nfs3.ReadRes
	var item []byte
	if rep.Item != nil {
		item = rep.Item.B
	}
	g.decode(results, item, &res)
	return rep, res
}

// TestReadAfterMemory checks a READ that waits for memory because its data cannot be lent:
// it has no permit meanwhile, and if another client gets the right to change the file by
// itself during the wait, that right is recalled before the data are read. Other calls can have
// the memory during the recall.
func TestReadAfterMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &readFS{memFS: newMemFS()}
		g := newRig(t, fs, withHolders)
		data := bytes.Repeat([]byte("0123456"), 4000)
		fh := g.put("f", data)
		h := memHandle(g.id(fs.memFS, fh))
		reads, waits := 0, 0
		fs.seen = func() {
			reads++
			assert.False(t, g.server.realm.Holders().Written(), "a client may have newer data")
			assert.Equal(t, 1, g.permits())
		}
		start := time.Now()
		rep, res := g.mapped(t.Context(), fh, uint32(len(data)), func() {
			assert.Zero(t, g.permits())
			if waits++; waits < 3 {
				w := fakeWrite(t, g.server.realm, h, fs)
				w.holder.Recall = func() {
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
		assert.Zero(t, g.permits())
		g.idle()
	})
}

// TestReadGivesUp checks that a READ which gets no permit after its wait for memory leaves
// nothing behind.
func TestReadGivesUp(t *testing.T) {
	g := newRig(t, newMemFS())
	fh := g.put("f", make([]byte, 20_000))
	ctx, cancel := context.WithCancel(t.Context())
	taken, free, freed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	rep, res := g.mapped(ctx, fh, 20_000, func() {
		cancel() // the READ waits for nothing
		go func() {
			defer close(freed)
			var take func()
			take = func() {
				if g.server.realm.Visit(ctx, g.peer, g.export(0), take) != nil {
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
	assert.Zero(t, g.permits())
	g.idle()
}

// TestReadOutlivesExport checks that an export which is removed while a READ waits for
// memory is released after that READ, and not before it.
func TestReadOutlivesExport(t *testing.T) {
	g := newRig(t, newMemFS())
	data := bytes.Repeat([]byte("0123456"), 4000)
	fh := g.put("f", data)
	list := g.server.Exports()
	released := false
	list[0].Released = func() { released = true }
	require.NoError(t, g.server.SetExports(list))
	rep, res := g.mapped(t.Context(), fh, uint32(len(data)), func() {
		require.NoError(t, g.server.SetExports(nil))
		assert.False(t, released)
	})
	require.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, data, res.Data)
	assert.True(t, released)
	rep.DropItem()
	_, res = g.mapped(t.Context(), fh, uint32(len(data)), func() { t.Error("memory for a READ of no export") })
	assert.Equal(t, nfs3.ErrStale, res.Status)
}
