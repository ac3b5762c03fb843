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
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeWriter is a client of version 4 that changes a file by itself.
type fakeWriter struct {
	holder recall.Holder
	report realm.Report // without Done
	silent bool
	asked  int
	told   []vfs.Attr
}

func (w *fakeWriter) Ask() *realm.Report {
	w.asked++
	r := w.report
	r.Done = make(chan struct{})
	if !w.silent {
		time.AfterFunc(100*time.Millisecond, func() { close(r.Done) })
	}
	return &r
}

func (w *fakeWriter) Told(a *vfs.Attr) bool {
	w.told = append(w.told, *a)
	return true
}

var _ realm.Writer = (*fakeWriter)(nil)

// write makes a fakeWriter of a file, which returns the file 300 ms after a recall.
func fakeWrite(t *testing.T, r *realm.Realm, h vfs.Handle, fs vfs.Identifier) *fakeWriter {
	w := &fakeWriter{report: realm.Report{OK: true}}
	w.holder.Owner, w.holder.Mild, w.holder.Writer = 7, true, w
	w.holder.Recall = func() { time.AfterFunc(300*time.Millisecond, w.holder.Return) }
	key, err := fs.AppendKey(nil, h)
	require.NoError(t, err)
	require.True(t, r.Holders().Hold(&w.holder, key))
	require.True(t, w.holder.Confirm())
	return w
}

// id returns the number of a file of a memFS.
func (g *rig) id(fs *memFS, fh nfs3.FH) uint64 {
	for id := range fs.nodes {
		if bytes.Equal(g.fh(id), fh) {
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

// TestWritten checks that version 3 recalls a file that a client of version 4 changes by
// itself before a READ, asks that client for GETATTR, and otherwise gives no attributes
// of the file.
func TestWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		g := newRig(t, fs, withHolders)
		fh := g.put("f", []byte("hello"))
		id := g.id(fs, fh)
		w := fakeWrite(t, g.server.realm, memHandle(id), fs)
		w.report.Changed, w.report.Size = true, 1000
		var before, attr nfs3.GetAttrRes
		g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &before)
		g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &attr)
		require.Equal(t, nfs3.OK, attr.Status)
		assert.EqualValues(t, 1000, attr.Attr.Size)
		assert.NotEqual(t, before.Attr.Ctime, attr.Attr.Ctime, "the file has changed once more")
		assert.NotEqual(t, before.Attr.Mtime, attr.Attr.Mtime)
		assert.Equal(t, 2, w.asked)
		require.Len(t, w.told, 2)
		assert.EqualValues(t, 5, fs.nodes[id].attr.Size)
		w.report.Changed, w.report.Size = false, 5
		before = attr
		g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &attr)
		assert.Equal(t, before.Attr.Ctime, attr.Attr.Ctime)
		assert.EqualValues(t, 5, attr.Attr.Size)

		var found nfs3.LookupRes
		g.call(nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: g.fh(memRoot), Name: []byte("f")}, &found)
		assert.Equal(t, []bool{false, true}, []bool{found.ObjAttr.OK, found.DirAttr.OK})
		var access nfs3.AccessRes
		g.call(nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh, Access: 1}, &access)
		assert.Equal(t, nfs3.AccessRes{Access: 1}, access)
		var commit nfs3.CommitRes
		g.call(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh}, &commit)
		assert.False(t, commit.Wcc.After.OK)
		var info nfs3.FSInfoRes
		g.call(nfs3.ProcFSInfo, &nfs3.HandleArgs{Object: fh}, &info)
		assert.False(t, info.Attr.OK)

		start := time.Now()
		var read nfs3.ReadRes
		g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
		require.Equal(t, nfs3.OK, read.Status)
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.Equal(t, "hello", string(read.Data))
		assert.True(t, read.Attr.OK)
		assert.False(t, g.server.realm.Holders().Written())
		g.call(nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: g.fh(memRoot), Name: []byte("f")}, &found)
		assert.True(t, found.ObjAttr.OK)
		g.idle()
	})
}

// A lookedAtFS is a file system in which something happens between a look at attributes and
// its answer.
type lookedAtFS struct {
	*memFS
	looked func() // once; may be nil
}

func (f *lookedAtFS) meanwhile() {
	if do := f.looked; do != nil {
		f.looked = nil
		do()
	}
}

func (f *lookedAtFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	defer f.meanwhile()
	return f.memFS.GetAttr(ctx, c, h)
}

func (f *lookedAtFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.Handle, vfs.MaybeAttr, vfs.MaybeAttr, error) {
	defer f.meanwhile()
	return f.memFS.Lookup(ctx, c, dir, name)
}

// TestWrittenBack checks that nobody gets attributes from before a client of version 4
// has written back, if that client returns the file after the look at them.
func TestWrittenBack(t *testing.T) {
	for _, proc := range []uint32{nfs3.ProcGetAttr, nfs3.ProcLookup} {
		t.Run(nfs3.ProcName(proc), func(t *testing.T) {
			fs := &lookedAtFS{memFS: newMemFS()}
			g := newRig(t, fs, withHolders)
			fh := g.put("f", []byte("hello"))
			id := g.id(fs.memFS, fh)
			w := fakeWrite(t, g.server.realm, memHandle(id), fs)
			fs.looked = func() {
				_, _, _, err := fs.Write(t.Context(), &vfs.Cred{}, memHandle(id), []byte("hello, world"), 0, vfs.Unstable)
				assert.NoError(t, err)
				w.holder.Return()
			}
			if proc == nfs3.ProcGetAttr {
				var attr nfs3.GetAttrRes
				g.call(proc, &nfs3.HandleArgs{Object: fh}, &attr)
				require.Equal(t, nfs3.OK, attr.Status)
				assert.EqualValues(t, 12, attr.Attr.Size)
			} else {
				var found nfs3.LookupRes
				g.call(proc, &nfs3.DirOpArgs{Dir: g.fh(memRoot), Name: []byte("f")}, &found)
				require.Equal(t, nfs3.OK, found.Status)
				assert.False(t, found.ObjAttr.OK)
			}
			require.Nil(t, fs.looked)
			assert.Zero(t, w.asked)
		})
	}
}

// A namesOnly is a file system whose listings have attributes, but no handles.
type namesOnly struct{ *memFS }

func (f namesOnly) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	return f.memFS.ReadDir(ctx, c, dir, cookie, verf, plus, func(e *vfs.Entry) bool {
		bare := *e
		bare.Handle, bare.HasHandle = vfs.Handle{}, false
		return fn(&bare)
	})
}

// TestWrittenWithoutHandle checks that READDIRPLUS gives no attributes of an entry without
// a handle: a client of version 4 may change the object by itself.
func TestWrittenWithoutHandle(t *testing.T) {
	fs := namesOnly{newMemFS()}
	g := newRig(t, fs, withHolders)
	fakeWrite(t, g.server.realm, memHandle(g.id(fs.memFS, g.put("f", []byte("hello")))), fs)
	list := listing{plus: true}
	g.call(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: g.fh(memRoot), DirCount: 1 << 10, MaxCount: 1 << 12}, &list)
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
// the client may take for an answer is not for the call to judge.
func TestWrittenSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		g := newRig(t, fs, withHolders)
		fh := g.put("f", []byte("hello"))
		id := g.id(fs, fh)
		w := fakeWrite(t, g.server.realm, memHandle(id), fs)
		recalls := 0
		w.holder.Recall = func() { recalls++ }
		w.silent = true
		var read nfs3.ReadRes
		for recalled, call := range []func() nfs3.Status{
			func() nfs3.Status {
				var res nfs3.GetAttrRes
				g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &res)
				return res.Status
			},
			func() nfs3.Status {
				g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
				return read.Status
			},
		} {
			start := time.Now()
			assert.Equal(t, nfs3.ErrJukebox, call())
			assert.Equal(t, recall.Patience, time.Since(start))
			assert.Equal(t, recalled, recalls)
			assert.Zero(t, g.permits())
		}
		w.holder.Return()
	})
}

// TestFencedReads checks that version 3 reads nothing while clients may have files in
// their caches that they have changed before a restart of the server.
func TestFencedReads(t *testing.T) {
	writing := true
	g := newRig(t, newMemFS(), func(c *Config) {
		c.Holders = recall.New(recall.Config{Now: func() time.Duration { return 0 }, Writing: func() bool { return writing }})
	})
	fh := g.put("f", []byte("hello"))
	var read nfs3.ReadRes
	g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
	assert.Equal(t, nfs3.ErrJukebox, read.Status)
	var attr nfs3.GetAttrRes
	g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &attr)
	assert.Equal(t, nfs3.OK, attr.Status)
	writing = false
	g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &read)
	assert.Equal(t, nfs3.OK, read.Status)
}

// TestAcquireWritten checks that a delegation by counters recalls the file from a client
// of version 4 that changes the file by itself, and is not granted meanwhile, and that a
// caller who may not read the file recalls nothing.
func TestAcquireWritten(t *testing.T) {
	withGrants(t, withHolders, func(t *testing.T, g *grantRig) {
		p := g.play()
		defer p.leave()
		w := fakeWrite(t, g.s.realm, g.hosts["f"], g.fs.(vfs.Identifier))
		recalls := 0
		w.holder.Recall = func() { recalls++ }
		mode := uint32(0o600)
		_, err := g.fs.SetAttr(t.Context(), &vfs.Cred{}, g.hosts["f"], vfs.SetAttr{Mode: &mode}, nil)
		require.NoError(t, err)
		assert.Equal(t, nfs3.ErrAcces, p.callAs(5, nfs3.Program, nfs3.ProcRead, &nfs3.ReadArgs{File: g.fh["f"], Count: 1}))
		assert.Zero(t, recalls)
		assert.Equal(t, delegation.ReasonContended, p.refused("f"))
		assert.Equal(t, 1, recalls)
		p.hold("g")
		w.holder.Return()
		time.Sleep(time.Minute)
		p.hold("f")
	})
}

// A busyFS is a file system in which something happens while attributes are set.
type busyFS struct {
	*mem.FS
	setting func() // once; may be nil
}

func (f *busyFS) SetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle, a vfs.SetAttr, ctime *vfs.Time) (vfs.WCC, error) {
	if do := f.setting; do != nil {
		f.setting = nil
		do()
	}
	return f.FS.SetAttr(ctx, c, h, a, ctime)
}

// TestAcquireInReport checks that no client gets a delegation by counters while GETATTR
// sets the times of a file that a client of version 4 had: the new holder would not learn
// of these times.
func TestAcquireInReport(t *testing.T) {
	fs := &busyFS{FS: mem.New(mem.Options{})}
	withGrants(t, func(c *Config) { withHolders(c); c.Exports[0].FS = fs }, func(t *testing.T, g *grantRig) {
		p, other := g.play(), g.play()
		defer p.leave()
		defer other.leave()
		w := fakeWrite(t, g.s.realm, g.hosts["f"], fs)
		w.report.Changed, w.report.Size = true, 1000
		fs.setting = func() {
			w.holder.Return()
			res, err := other.ask(g.fh["f"], allTypes)
			assert.NoError(t, err)
			assert.Equal(t, delegation.StatusRefused, res.Status)
		}
		assert.Equal(t, nfs3.OK, p.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.fh["f"]}))
		assert.Nil(t, fs.setting)
	})
}
