package nfsclient

import (
	"context"
	"io/fs"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// omitHandles makes the server omit created objects' handles and attributes, as
// RFC 1813 allows.
func (w *fakeConn) omitHandles() {
	w.after = func(x *oncrpc.Exchange, results []byte) []byte {
		if x.Prog != nfs3.Program || x.Proc != nfs3.ProcCreate && x.Proc != nfs3.ProcMkdir {
			return results
		}
		var res nfs3.MakeRes
		r := xdr.NewReader(results)
		res.Decode(&r)
		res.Object, res.Attr = nil, nfs3.PostOpAttr{}
		return res.AppendTo(nil)
	}
}

func TestCreate(t *testing.T) {
	for _, without := range []bool{false, true} {
		onBoth(t, small, func(t *testing.T, g *testServer) {
			ctx := t.Context()
			g.createTree(walkTree...)
			if without {
				g.omitHandles()
			}
			f, err := g.fs.Create(ctx, "rel/new", 0o640)
			require.NoError(t, err)
			a, err := f.Stat(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, 0o640, a.Mode)
			assert.Equal(t, g.handleOf(ctx, "a/b/new"), f.Handle())

			for _, path := range []string{"abs", "a/b/f"} { // an existing file is emptied, and keeps its mode
				_, err = f.WriteAt(ctx, []byte("x"), 0)
				require.NoError(t, err)
				f, err = g.fs.Create(ctx, path, 0o600)
				require.NoError(t, err)
				assert.Equal(t, g.handleOf(ctx, "a/b/f"), f.Handle())
				a, err = f.Stat(ctx)
				require.NoError(t, err)
				assert.Zero(t, a.Size)
				assert.EqualValues(t, 0o644, a.Mode)
			}
			_, err = g.fs.Create(ctx, "dangling", 0o600)
			assert.NoError(t, err)
			_, err = g.fs.Stat(ctx, "a/none")
			assert.NoError(t, err, "a dangling link leads to the new file")

			for path, want := range map[string]error{
				"a": nfs3.ErrIsDir, "": nfs3.ErrIsDir, "new/": nfs3.ErrIsDir, "f/": nfs3.ErrNotDir, "f/g": nfs3.ErrNotDir,
				"no/f": nfs3.ErrNoEnt, "loop": syscall.ELOOP, "escape": errOutside,
			} {
				_, err = g.fs.Create(ctx, path, 0o600)
				assert.ErrorIs(t, err, want, path)
			}
		})
	}
}

func TestCreateNew(t *testing.T) {
	for _, without := range []bool{false, true} {
		g := newTestServer(t, small, true)
		ctx := t.Context()
		g.createTree(walkTree...)
		if without {
			g.omitHandles()
		}
		f, err := g.fs.CreateNew(ctx, "rel/new", 0o640)
		require.NoError(t, err)
		a, err := f.Stat(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 0o640, a.Mode)
		for _, path := range []string{"rel/new", "abs", "dangling", "a"} {
			_, err = g.fs.CreateNew(ctx, path, 0o640)
			assert.ErrorIs(t, err, fs.ErrExist, path)
		}
		_, err = g.fs.CreateNew(ctx, "none/f", 0o640)
		assert.ErrorIs(t, err, nfs3.ErrNoEnt)
		_, err = g.fs.CreateNew(ctx, "a/", 0o640)
		assert.ErrorIs(t, err, fs.ErrExist)
	}
}

// TestCreateNewTwice checks that a call transmitted twice creates one file, and
// that another call fails.
func TestCreateNewTwice(t *testing.T) {
	g := newTestServer(t, small, true)
	verfs := make(map[uint64]bool)
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Proc == nfs3.ProcSetAttr { // the times may have held the verifier
			var a nfs3.SetAttrArgs
			r := xdr.NewReader(x.Args)
			a.Decode(&r)
			assert.Equal(t, nfs3.SetTime{How: nfs3.SetToServerTime}, a.Attr.Atime)
			assert.Equal(t, nfs3.SetTime{How: nfs3.SetToServerTime}, a.Attr.Mtime)
		}
		if x.Proc != nfs3.ProcCreate || x.Prog != nfs3.Program {
			return nil, nil
		}
		var a nfs3.CreateArgs
		r := xdr.NewReader(x.Args)
		a.Decode(&r)
		assert.Equal(t, nfs3.Exclusive, a.Mode)
		verfs[a.Verf] = true
		first := *x
		err := g.serveCall(ctx, 77, &first) // its reply is lost
		first.Release()
		return nil, err
	}
	_, err := g.fs.CreateNew(t.Context(), "f", 0o600)
	assert.NoError(t, err)
	_, err = g.fs.CreateNew(t.Context(), "f", 0o600)
	assert.ErrorIs(t, err, nfs3.ErrExist)
	assert.Len(t, verfs, 2, "a verifier each")
}

// TestCreateNewUnsupported checks that a server without EXCLUSIVE gets GUARDED.
func TestCreateNewUnsupported(t *testing.T) {
	g := newTestServer(t, small, true)
	g.failProc(nfs3.ProcCreate, nfs3.ErrNotSupp, 1)
	f, err := g.fs.CreateNew(t.Context(), "f", 0o600)
	require.NoError(t, err)
	a, err := f.Stat(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, a.Mode)
	g.failProc(nfs3.ProcCreate, nfs3.ErrNotSupp, 1)
	_, err = g.fs.CreateNew(t.Context(), "f", 0o600)
	assert.ErrorIs(t, err, fs.ErrExist)
	g.failProc(nfs3.ProcSetAttr, nfs3.ErrPerm, 1)
	_, err = g.fs.CreateNew(t.Context(), "g", 0o600)
	assert.ErrorIs(t, err, nfs3.ErrPerm)
}

// TestCreateNewAt checks creation by handle, with any attributes, and that the
// results hold the final attributes.
func TestCreateNewAt(t *testing.T) {
	for _, tt := range []struct {
		name             string
		without, guarded bool
	}{{"exclusive", false, false}, {"handle left out", true, false}, {"guarded", false, true}, {"guarded, handle left out", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			g := newTestServer(t, small, true)
			if tt.without {
				g.omitHandles()
			}
			if tt.guarded {
				g.failProc(nfs3.ProcCreate, nfs3.ErrNotSupp, 1)
			}
			mtime := nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Sec: 12}}
			res, err := g.c.CreateNew(t.Context(), dirOpArgs(g.root, "f"), nfs3.SetAttr{
				Mode: nfs3.OptUint32{Set: true, Value: 0o604}, UID: nfs3.OptUint32{Set: true, Value: 77}, Mtime: mtime,
			})
			require.NoError(t, err)
			assert.Equal(t, g.handleOf(t.Context(), "f"), res.Object)
			a, err := g.c.GetAttr(t.Context(), res.Object)
			require.NoError(t, err)
			assert.Equal(t, nfs3.PostOpAttr{OK: true, Attr: a}, res.Attr)
			assert.EqualValues(t, 0o604, a.Mode)
			assert.EqualValues(t, 77, a.UID)
			assert.Equal(t, mtime.Time, a.Mtime)
			assert.Equal(t, tt.guarded, g.callCount(nfs3.ProcSetAttr) == 0, "GUARDED needs no SETATTR")
			_, err = g.c.CreateNew(t.Context(), dirOpArgs(g.root, "f"), nfs3.SetAttr{})
			assert.ErrorIs(t, err, nfs3.ErrExist)
		})
	}
}

func TestOpen(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree(walkTree...)
	_, err := g.c.Mknod(t.Context(), &nfs3.MknodArgs{Where: dirOpArgs(g.root, "fifo"), Type: nfs3.TypeFIFO})
	require.NoError(t, err)
	f, err := g.fs.Open(t.Context(), "chain")
	require.NoError(t, err)
	p := make([]byte, 5)
	_, err = f.ReadAt(t.Context(), p, 0)
	assert.NoError(t, err)
	assert.Equal(t, "a/b/f", string(p))
	for path, want := range map[string]error{
		"a": nfs3.ErrIsDir, "none": fs.ErrNotExist, "fifo": nfs3.ErrInval, "f/": nfs3.ErrNotDir, "dangling": fs.ErrNotExist,
	} {
		_, err := g.fs.Open(t.Context(), path)
		assert.ErrorIs(t, err, want, path)
	}
}

func TestMkdirAll(t *testing.T) {
	for _, without := range []bool{false, true} {
		g := newTestServer(t, small, true)
		ctx := t.Context()
		g.createTree(walkTree...)
		if without {
			g.omitHandles()
		}
		for _, path := range []string{"p/q/r/", "p/q/r", "/p/q/../s/t", "rel/new/er", "absdir", "", "dangling"} {
			require.NoError(t, g.fs.MkdirAll(ctx, path, 0o750), path)
			n, err := g.fs.Stat(ctx, path)
			require.NoError(t, err, path)
			assert.Equal(t, nfs3.TypeDir, n.Attr.Type)
		}
		n, err := g.fs.Stat(ctx, "a/b/new/er")
		assert.NoError(t, err)
		assert.EqualValues(t, 0o750, n.Attr.Mode)
		for path, want := range map[string]error{"f": nfs3.ErrNotDir, "f/d": nfs3.ErrNotDir, "loop/d": syscall.ELOOP, "../d": errOutside} {
			assert.ErrorIs(t, g.fs.MkdirAll(ctx, path, 0o755), want, path)
		}
		g.failProc(nfs3.ProcMkdir, nfs3.ErrROFS, 1)
		assert.ErrorIs(t, g.fs.MkdirAll(ctx, "z/y", 0o755), syscall.EROFS)
	}
}

// TestMkdirAllTogether checks concurrent creation of the same directories.
func TestMkdirAllTogether(t *testing.T) {
	g := newTestServer(t, small, true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			assert.NoError(t, g.fs.MkdirAll(t.Context(), "1/2/3/4/5/6/7/8", 0o755))
		})
	}
	wg.Wait()
}
