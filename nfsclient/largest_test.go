package nfsclient

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	rpcwire "github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeLargestServer replies to every call with the longest results that its
// procedure can have.
type fakeLargestServer struct{ t *testing.T }

func (l fakeLargestServer) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	args := c.Args
	fh := make(nfs3.FH, nfs3.FHSize)
	attr := nfs3.PostOpAttr{OK: true, Attr: nfs3.Attr{Type: nfs3.TypeReg}}
	wcc := nfs3.WccData{Before: nfs3.PreOpAttr{OK: true}, After: attr}
	before := len(r.Head)
	count := uint32(0)
	switch c.Proc {
	case nfs3.ProcGetAttr:
		r.Head = (&nfs3.GetAttrRes{Attr: attr.Attr}).AppendTo(r.Head)
	case nfs3.ProcSetAttr, nfs3.ProcRemove, nfs3.ProcRmdir:
		r.Head = (&nfs3.WccRes{Wcc: wcc}).AppendTo(r.Head)
	case nfs3.ProcLookup:
		r.Head = (&nfs3.LookupRes{Object: fh, ObjAttr: attr, DirAttr: attr}).AppendTo(r.Head)
	case nfs3.ProcAccess:
		r.Head = (&nfs3.AccessRes{Attr: attr}).AppendTo(r.Head)
	case nfs3.ProcReadLink:
		count = nfs3.MaxPath
		r.Head = (&nfs3.ReadLinkRes{Attr: attr, Path: make([]byte, count)}).AppendTo(r.Head)
		copy(r.NewItem(int(count)), sampleData(int(count)))
	case nfs3.ProcRead:
		var a nfs3.ReadArgs
		a.Decode(&args)
		count = a.Count
		r.Head = (&nfs3.ReadRes{Attr: attr, Count: count}).AppendTo(r.Head)
		copy(r.NewItem(int(count)), sampleData(int(count)))
	case nfs3.ProcWrite:
		r.Head = (&nfs3.WriteRes{Wcc: wcc}).AppendTo(r.Head)
	case nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod:
		r.Head = (&nfs3.MakeRes{Object: fh, Attr: attr, Dir: wcc}).AppendTo(r.Head)
	case nfs3.ProcRename:
		r.Head = (&nfs3.RenameRes{FromDir: wcc, ToDir: wcc}).AppendTo(r.Head)
	case nfs3.ProcLink:
		r.Head = (&nfs3.LinkRes{Attr: attr, Dir: wcc}).AppendTo(r.Head)
	case nfs3.ProcReadDir:
		var a nfs3.ReadDirArgs
		a.Decode(&args)
		count = a.Count
		w := nfs3.NewDirWriter(r.Head, false, count, 0)
		require.True(l.t, w.Add(&nfs3.Entry{Name: make([]byte, count-128)})) // all but the name
		r.Head = w.Finish(&attr, 0, true)
	case nfs3.ProcReadDirPlus:
		var a nfs3.ReadDirPlusArgs
		a.Decode(&args)
		count = a.MaxCount
		w := nfs3.NewDirWriter(r.Head, true, count, a.DirCount)
		require.True(l.t, w.Add(&nfs3.Entry{Name: make([]byte, count-288), Attr: attr, Handle: fh}))
		r.Head = w.Finish(&attr, 0, true)
	case nfs3.ProcFSStat:
		r.Head = (&nfs3.FSStatRes{Attr: attr}).AppendTo(r.Head)
	case nfs3.ProcFSInfo:
		r.Head = (&nfs3.FSInfoRes{Attr: attr}).AppendTo(r.Head)
	case nfs3.ProcPathConf:
		r.Head = (&nfs3.PathConfRes{Attr: attr}).AppendTo(r.Head)
	case nfs3.ProcCommit:
		r.Head = (&nfs3.CommitRes{Wcc: wcc}).AppendTo(r.Head)
	}
	n := len(r.Head) - before
	if r.Item != nil {
		n += len(r.Item.B) + xdr.Pad(len(r.Item.B))
	}
	assert.Equal(l.t, nfs3.MaxResult(c.Proc, count), n, "%s: not the longest", nfs3.ProcName(c.Proc))
	return nil
}

// everyProcedure sends one call to each procedure.
func everyProcedure(ctx context.Context, c *Client) map[uint32]error {
	fh := make(nfs3.FH, 8)
	where := nfs3.DirOpArgs{Dir: fh, Name: []byte("name")}
	errs := make(map[uint32]error)
	errs[nfs3.ProcNull] = c.Null(ctx)
	_, errs[nfs3.ProcGetAttr] = c.GetAttr(ctx, fh)
	_, errs[nfs3.ProcSetAttr] = c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: fh})
	_, errs[nfs3.ProcLookup] = c.Lookup(ctx, fh, "name")
	_, errs[nfs3.ProcAccess] = c.Access(ctx, fh, 0)
	_, errs[nfs3.ProcReadLink] = c.ReadLink(ctx, fh)
	_, errs[nfs3.ProcRead] = c.Read(ctx, fh, 0, make([]byte, 100001))
	_, errs[nfs3.ProcWrite] = c.Write(ctx, fh, 0, nil, nfs3.Unstable)
	_, errs[nfs3.ProcCreate] = c.Create(ctx, &nfs3.CreateArgs{Where: where})
	_, errs[nfs3.ProcMkdir] = c.Mkdir(ctx, &nfs3.MkdirArgs{Where: where})
	_, errs[nfs3.ProcSymlink] = c.Symlink(ctx, &nfs3.SymlinkArgs{Where: where, Path: []byte("path")})
	_, errs[nfs3.ProcMknod] = c.Mknod(ctx, &nfs3.MknodArgs{Where: where, Type: nfs3.TypeFIFO})
	_, errs[nfs3.ProcRemove] = c.Remove(ctx, fh, "name")
	_, errs[nfs3.ProcRmdir] = c.Rmdir(ctx, fh, "name")
	_, errs[nfs3.ProcRename] = c.Rename(ctx, &nfs3.RenameArgs{From: where, To: where})
	_, errs[nfs3.ProcLink] = c.Link(ctx, &nfs3.LinkArgs{File: fh, Link: where})
	each := func(*nfs3.Entry) {}
	_, _, errs[nfs3.ProcReadDir] = c.ReadDir(ctx, &nfs3.ReadDirArgs{Dir: fh, Count: 8192}, each)
	_, _, errs[nfs3.ProcReadDirPlus] = c.ReadDirPlus(ctx, &nfs3.ReadDirPlusArgs{Dir: fh, DirCount: 8192, MaxCount: 8192}, each)
	_, errs[nfs3.ProcFSStat] = c.FSStat(ctx, fh)
	_, errs[nfs3.ProcFSInfo] = c.FSInfo(ctx, fh)
	_, errs[nfs3.ProcPathConf] = c.PathConf(ctx, fh)
	_, errs[nfs3.ProcCommit] = c.Commit(ctx, fh, 0, 0)
	return errs
}

// TestLargestResults: R8267-3-1, R8267-3-2, R8267-4.1-1. It checks that, for
// any thresholds, the client provides memory for each procedure's longest
// results, in full.
func TestLargestResults(t *testing.T) {
	for name, cfg := range map[string]rpcrdma.ClientConnConfig{
		"1024 bytes": {NoPrivateData: true}, "4096 bytes": {}, "262144 bytes": {Inline: 256 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { assert.Zero(t, buf.Default.Out(), "unreturned buffers") })
			mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
			mux.Register(nfs3.Program, nfs3.Version, fakeLargestServer{t})
			c := New(overRDMA(t, mux, cfg), Config{})
			errs := everyProcedure(t.Context(), c)
			assert.Len(t, errs, int(nfs3.NumProc))
			for proc, err := range errs {
				assert.NoError(t, err, nfs3.ProcName(proc))
			}
			path, err := c.ReadLink(t.Context(), make(nfs3.FH, 8))
			require.NoError(t, err)
			assert.True(t, bytes.Equal(sampleData(nfs3.MaxPath), path.Path))
		})
	}
}

// TestNoRetry: R8267-3.1-2, R8267-3.1-3, R8267-4.1-1. It checks that a
// transport error ends each procedure, without a second call with more memory
// for the reply.
func TestNoRetry(t *testing.T) {
	refused := &rpcrdma.RemoteError{Code: rpcwire.ErrChunk}
	g := newTestServer(t, Config{}, true)
	calls := make(map[uint32]int)
	g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		calls[x.Proc]++
		return nil, refused
	}
	for proc, err := range everyProcedure(t.Context(), g.c) {
		assert.ErrorIs(t, err, refused, nfs3.ProcName(proc))
		assert.Equal(t, 1, calls[proc], nfs3.ProcName(proc))
	}
}
