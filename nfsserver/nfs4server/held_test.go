package nfs4server

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakePathFS waits for storage before it finds a path.
type fakePathFS struct {
	*mem.FS
	answer chan struct{}
}

func newFakePathFS() *fakePathFS {
	return &fakePathFS{mem.New(mem.Options{Size: 1 << 30, Mode: 0o777}), make(chan struct{})}
}

func (fs *fakePathFS) export(path string) exportset.Export {
	return exportset.Export{Path: path, FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}
}

func (fs *fakePathFS) HostPath(h vfs.Handle) (string, bool, error) {
	if h == fs.Root() {
		return "/srv", false, nil
	}
	<-fs.answer
	return "/srv/f", true, nil
}

// TestHeldFilesHung checks that lists of held files wait for hung storage only for a bounded time, in
// few goroutines, while clients' calls go on, and that they have paths again when the storage
// responds.
func TestHeldFilesHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakePathFS()
		g := newTestServer(t, fs.export("/x")).connectClient()
		_, _, st := g.openName(openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		list := func() HeldFile {
			p, st := g.s.HeldFiles(t.Context(), 0, "", 10)
			assert.Equal(t, nfs4.OK, st)
			assert.Len(t, p.Files, 1)
			return p.Files[0]
		}
		began := time.Now()
		var lists sync.WaitGroup
		for range maxLocating {
			lists.Go(func() {
				f := list()
				assert.Equal(t, exportset.Location{Export: "/x"}, f.Location)
				assert.Len(t, f.Opens, 1)
			})
		}
		synctest.Wait()
		_, _, st = g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.Unchecked))
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, "/x", list().Export)
		assert.Zero(t, time.Since(began), "with as many waiting lists as may be, a list does not wait")
		lists.Wait()
		assert.Equal(t, locateTime, time.Since(began))
		close(fs.answer)
		synctest.Wait()
		sample := g.s.SampleHeldFiles(t.Context(), 10)
		require.Len(t, sample.Files, 1)
		assert.Equal(t, [2]any{"/srv/f", 0}, [2]any{sample.Files[0].Path, sample.Rest})
		f := list()
		assert.Equal(t, []any{"/x", "/srv/f", true}, []any{f.Export, f.Path, f.Removed})
		assert.True(t, g.s.HasHostPath("/srv/f"))
		assert.False(t, g.s.HasHostPath("/srvf"))
	})
}

// TestHeldFilesHungExport checks that hung storage of one export hides no paths of another, however
// many lists wait for it.
func TestHeldFilesHungExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, healthy := newFakePathFS(), newFakePathFS()
		close(healthy.answer)
		g := newTestServer(t, hung.export("/x"), healthy.export("/y")).connectClient()
		for _, export := range []string{"x", "y"} {
			var res nfs4.OpenRes
			st, _ := g.sendSteps(putRootStep(), lookupStep(export), step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.Unchecked), &res})
			require.Equal(t, nfs4.OK, st)
		}
		for range maxLocating + 1 {
			p, _ := g.s.HeldFiles(t.Context(), 0, "", 10)
			paths := make(map[string]string)
			for _, f := range p.Files {
				paths[f.Export] = f.Path
			}
			assert.Equal(t, map[string]string{"/x": "", "/y": "/srv/f"}, paths)
		}
		close(hung.answer)
	})
}

// TestHeldFilesCounters checks that mounts with delegation counters count as entries of a list, and
// are not among what another client holds.
func TestHeldFilesCounters(t *testing.T) {
	g := newTestServer(t, newFakePathFS().export("/x")).connectClient()
	holders := recall.New(recall.Config{Now: func() time.Duration { return 0 }})
	fs := newFakePathFS()
	close(fs.answer)
	set, err := exportset.New(exportset.Config{Exports: []exportset.Export{fs.export("/x")}, Holders: holders})
	require.NoError(t, err)
	g.s.exports = set
	_, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	_, _, st = g.openName(openArgs("o", "g", nfs4.ShareRead, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	keys, _, _ := g.s.state.HeldKeys(0, "", 2)
	require.Len(t, keys, 2)
	for range 3 * heldPerFile {
		h := &recall.Holder{Conn: new(oncrpc.Peer), Recall: func(recall.Changer) {}}
		require.True(t, holders.Hold(h, []byte(keys[0][1:])))
		require.True(t, h.Confirm())
	}
	p, _ := g.s.HeldFiles(t.Context(), 0, "", 2)
	require.Len(t, p.Files, 1)
	assert.Len(t, p.Files[0].Counters, 2*heldPerFile)
	assert.True(t, p.Files[0].Omitted)
	assert.Equal(t, []any{1, keys[0]}, []any{p.Rest, p.Next})
	id := p.Files[0].Opens[0].ID
	own, _ := g.s.HeldFiles(t.Context(), id, "", 2)
	require.Len(t, own.Files, 2)
	assert.Empty(t, own.Files[0].Counters)
	assert.Empty(t, own.Files[1].Counters)
}
