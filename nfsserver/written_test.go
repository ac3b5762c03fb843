package nfsserver

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeWriter is an NFSv4 client that changes a file in its cache.
type fakeWriter struct {
	holder recall.Holder
	report exportset.Report // without Done
	silent bool
	asked  int
	told   []vfs.Attr
}

func (w *fakeWriter) Query() *exportset.Report {
	w.asked++
	r := w.report
	r.Done = make(chan struct{})
	if !w.silent {
		time.AfterFunc(100*time.Millisecond, func() { close(r.Done) })
	}
	return &r
}

func (w *fakeWriter) NoteReported(a *vfs.Attr) bool {
	w.told = append(w.told, *a)
	return true
}

var _ exportset.Writer = (*fakeWriter)(nil)

// holdForWriting makes a fakeWriter hold a file, and return it 300 ms after a recall.
func holdForWriting(t *testing.T, r *exportset.Set, h vfs.Handle, fs vfs.Identifier) *fakeWriter {
	w := &fakeWriter{report: exportset.Report{OK: true}}
	w.holder.Owner, w.holder.IgnoreOwner, w.holder.Writer = 7, true, w
	w.holder.Recall = func(recall.Changer) { time.AfterFunc(300*time.Millisecond, w.holder.Return) }
	key, err := fs.AppendKey(nil, h)
	require.NoError(t, err)
	require.True(t, r.Holders().Hold(&w.holder, key))
	require.True(t, w.holder.Confirm())
	return w
}

// objectID returns a file's number in a memFS.
func (g *testServer) objectID(fs *memFS, fh nfs3.FH) uint64 {
	for id := range fs.nodes {
		if bytes.Equal(g.handleOf(id), fh) {
			return id
		}
	}
	g.t.Fatal("no such file")
	return 0
}

func withHolders(c *Config) {
	start := time.Now()
	c.Holders = recall.New(recall.Config{Now: func() time.Duration { return time.Since(start) }})
}

// TestWritten checks that NFSv3 recalls a file that an NFSv4 client changes in its cache before
// a READ, queries that client for GETATTR, and otherwise returns no attributes for the file.
func TestWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		g := newTestServer(t, fs, withHolders)
		fh := g.makeFile("f", []byte("hello"))
		id := g.objectID(fs, fh)
		w := holdForWriting(t, g.server.exports, memHandle(id), fs)
		w.report.Changed, w.report.Size = true, 1000
		var before, attr nfs3.GetAttrRes
		g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &before)
		g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &attr)
		require.Equal(t, nfs3.OK, attr.Status)
		assert.EqualValues(t, 1000, attr.Attr.Size)
		assert.NotEqual(t, before.Attr.Ctime, attr.Attr.Ctime, "the file has changed once more")
		assert.NotEqual(t, before.Attr.Mtime, attr.Attr.Mtime)
		assert.Equal(t, 2, w.asked)
		require.Len(t, w.told, 2)
		assert.EqualValues(t, 5, fs.nodes[id].attr.Size)
		w.report.Changed, w.report.Size = false, 5
		before = attr
		g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &attr)
		assert.Equal(t, before.Attr.Ctime, attr.Attr.Ctime)
		assert.EqualValues(t, 5, attr.Attr.Size)

		var found nfs3.LookupRes
		g.callNFS(nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: g.handleOf(memRoot), Name: []byte("f")}, &found)
		assert.Equal(t, []bool{false, true}, []bool{found.ObjAttr.OK, found.DirAttr.OK})
		var access nfs3.AccessRes
		g.callNFS(nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh, Access: 1}, &access)
		assert.Equal(t, nfs3.AccessRes{Access: 1}, access)
		var commit nfs3.CommitRes
		g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh}, &commit)
		assert.False(t, commit.Wcc.After.OK)
		var info nfs3.FSInfoRes
		g.callNFS(nfs3.ProcFSInfo, &nfs3.HandleArgs{Object: fh}, &info)
		assert.False(t, info.Attr.OK)

		start := time.Now()
		var read nfs3.ReadRes
		g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
		require.Equal(t, nfs3.OK, read.Status)
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.Equal(t, "hello", string(read.Data))
		assert.True(t, read.Attr.OK)
		assert.False(t, g.server.exports.Holders().HasWriters())
		g.callNFS(nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: g.handleOf(memRoot), Name: []byte("f")}, &found)
		assert.True(t, found.ObjAttr.OK)
		g.checkIdle()
	})
}

// A fakeLookedAtFS is a file system in which something happens between a look at attributes and
// its reply.
type fakeLookedAtFS struct {
	*memFS
	looked func() // once; may be nil
}

func (f *fakeLookedAtFS) callOnce() {
	if do := f.looked; do != nil {
		f.looked = nil
		do()
	}
}

func (f *fakeLookedAtFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	defer f.callOnce()
	return f.memFS.GetAttr(ctx, c, h)
}

func (f *fakeLookedAtFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.Handle, vfs.MaybeAttr, vfs.MaybeAttr, error) {
	defer f.callOnce()
	return f.memFS.Lookup(ctx, c, dir, name)
}

// TestWrittenBack checks that no call returns attributes from before an NFSv4 client has
// written back, if that client returns the file after the call has read them.
func TestWrittenBack(t *testing.T) {
	for _, proc := range []uint32{nfs3.ProcGetAttr, nfs3.ProcLookup} {
		t.Run(nfs3.ProcName(proc), func(t *testing.T) {
			fs := &fakeLookedAtFS{memFS: newMemFS()}
			g := newTestServer(t, fs, withHolders)
			fh := g.makeFile("f", []byte("hello"))
			id := g.objectID(fs.memFS, fh)
			w := holdForWriting(t, g.server.exports, memHandle(id), fs)
			fs.looked = func() {
				_, _, _, err := fs.Write(t.Context(), &vfs.Cred{}, memHandle(id), []byte("hello, world"), 0, vfs.Unstable)
				assert.NoError(t, err)
				w.holder.Return()
			}
			if proc == nfs3.ProcGetAttr {
				var attr nfs3.GetAttrRes
				g.callNFS(proc, &nfs3.HandleArgs{Object: fh}, &attr)
				require.Equal(t, nfs3.OK, attr.Status)
				assert.EqualValues(t, 12, attr.Attr.Size)
			} else {
				var found nfs3.LookupRes
				g.callNFS(proc, &nfs3.DirOpArgs{Dir: g.handleOf(memRoot), Name: []byte("f")}, &found)
				require.Equal(t, nfs3.OK, found.Status)
				assert.False(t, found.ObjAttr.OK)
			}
			require.Nil(t, fs.looked)
			assert.Zero(t, w.asked)
		})
	}
}

// A fakeNamesOnlyFS is a file system whose listings have attributes, but no handles.
type fakeNamesOnlyFS struct{ *memFS }

func (f fakeNamesOnlyFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	return f.memFS.ReadDir(ctx, c, dir, cookie, verf, plus, func(e *vfs.Entry) bool {
		bare := *e
		bare.Handle, bare.HasHandle = vfs.Handle{}, false
		return fn(&bare)
	})
}

// TestWrittenWithoutHandle checks that READDIRPLUS returns no attributes for an entry without a
// handle: an NFSv4 client may change the object in its cache.
func TestWrittenWithoutHandle(t *testing.T) {
	fs := fakeNamesOnlyFS{newMemFS()}
	g := newTestServer(t, fs, withHolders)
	holdForWriting(t, g.server.exports, memHandle(g.objectID(fs.memFS, g.makeFile("f", []byte("hello")))), fs)
	list := dirListing{plus: true}
	g.callNFS(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: g.handleOf(memRoot), DirCount: 1 << 10, MaxCount: 1 << 12}, &list)
	require.Equal(t, nfs3.OK, list.Status)
	found := 0
	for _, e := range list.Entries {
		if string(e.Name) == "f" {
			found++
			assert.False(t, e.Attr.OK)
		}
	}
	assert.Equal(t, 1, found)
}

// TestWrittenSilent checks that a call waits for such a client for a bounded time. How long
// the client may take for a reply is not for the call to judge.
func TestWrittenSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		g := newTestServer(t, fs, withHolders)
		fh := g.makeFile("f", []byte("hello"))
		id := g.objectID(fs, fh)
		w := holdForWriting(t, g.server.exports, memHandle(id), fs)
		recalls := 0
		w.holder.Recall = func(recall.Changer) { recalls++ }
		w.silent = true
		var read nfs3.ReadRes
		for recalled, call := range []func() nfs3.Status{
			func() nfs3.Status {
				var res nfs3.GetAttrRes
				g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &res)
				return res.Status
			},
			func() nfs3.Status {
				g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
				return read.Status
			},
		} {
			start := time.Now()
			assert.Equal(t, nfs3.ErrJukebox, call())
			assert.Equal(t, recall.MaxWait, time.Since(start))
			assert.Equal(t, recalled, recalls)
			assert.Zero(t, g.countPermits())
		}
		w.holder.Return()
	})
}

// TestFencedReads checks that NFSv3 reads nothing while clients may have files in their caches
// that they changed before a server restart.
func TestFencedReads(t *testing.T) {
	writing := true
	g := newTestServer(t, newMemFS(), func(c *Config) {
		c.Holders = recall.New(recall.Config{Now: func() time.Duration { return 0 }, Writing: func() bool { return writing }})
	})
	fh := g.makeFile("f", []byte("hello"))
	var read nfs3.ReadRes
	g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
	assert.Equal(t, nfs3.ErrJukebox, read.Status)
	var attr nfs3.GetAttrRes
	g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &attr)
	assert.Equal(t, nfs3.OK, attr.Status)
	writing = false
	g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
	assert.Equal(t, nfs3.OK, read.Status)
}

// TestAcquireWritten checks that a counter delegation recalls the file from an NFSv4 client
// that changes the file in its cache, and is not granted in the meantime, and that a caller who
// may not read the file recalls nothing.
func TestAcquireWritten(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		p := g.connectClient()
		defer p.disconnect()
		w := holdForWriting(t, g.s.exports, g.hosts["f"], g.fs.(vfs.Identifier))
		recalls := 0
		w.holder.Recall = func(recall.Changer) { recalls++ }
		mode := uint32(0o600)
		_, err := g.fs.SetAttr(t.Context(), &vfs.Cred{}, g.hosts["f"], vfs.SetAttr{Mode: &mode}, nil)
		require.NoError(t, err)
		assert.Equal(t, nfs3.ErrAcces, p.callAsUser(5, nfs3.Program, nfs3.ProcRead, &nfs3.ReadArgs{File: g.fh["f"], Count: 1}))
		assert.Zero(t, recalls)
		assert.Equal(t, delegation.ReasonContended, p.refusalReason("f"))
		assert.Equal(t, 1, recalls)
		p.acquireAll("g")
		w.holder.Return()
		time.Sleep(time.Minute)
		p.acquireAll("f")
	})
}

// A fakeBusyFS is a file system in which something happens while attributes are set.
type fakeBusyFS struct {
	*mem.FS
	setting func() // once; may be nil
}

func (f *fakeBusyFS) SetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle, a vfs.SetAttr, ctime *vfs.Time) (vfs.WCC, error) {
	if do := f.setting; do != nil {
		f.setting = nil
		do()
	}
	return f.FS.SetAttr(ctx, c, h, a, ctime)
}

// TestAcquireInReport checks that no client gets a counter delegation while GETATTR sets the
// times of a file that an NFSv4 client had: the new holder would not learn about these times.
func TestAcquireInReport(t *testing.T) {
	fs := &fakeBusyFS{FS: mem.New(mem.Options{})}
	runWithGrants(t, func(c *Config) { c.Exports[0].FS = fs }, func(t *testing.T, g *grantServer) {
		p, other := g.connectClient(), g.connectClient()
		defer p.disconnect()
		defer other.disconnect()
		w := holdForWriting(t, g.s.exports, g.hosts["f"], fs)
		w.report.Changed, w.report.Size = true, 1000
		fs.setting = func() {
			w.holder.Return()
			res, err := other.acquire(g.fh["f"], allTypes)
			assert.NoError(t, err)
			assert.Equal(t, delegation.StatusRefused, res.Status)
		}
		assert.Equal(t, nfs3.OK, p.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.fh["f"]}))
		assert.Nil(t, fs.setting)
	})
}
