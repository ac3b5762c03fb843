package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/willscott/go-nfs"
)

// A gonfsPeer is go-nfs behind a listener, and a client of it.
type gonfsPeer struct {
	t    *testing.T
	call oncrpc.Caller
	c    *nfsclient.Client
	m    *nfsclient.Mount
	root nfs3.FH
}

// connectPeer starts go-nfs and a client, and checks that nothing is left of them
// at the end.
func connectPeer(t *testing.T, cfg rpcrdma.ClientConnConfig) *gonfsPeer {
	t.Helper()
	nfs.Log.SetLevel(nfs.PanicLevel)
	over, err := iwarp.Open(iwarp.Config{}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := streamListener(over)
	h, err := memoryHandler()
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- nfs.Serve(l, h) }()
	call, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), l.Addr().String(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, call.Close())
		assert.NoError(t, l.Server.Shutdown(context.Background()))
		assert.ErrorIs(t, <-served, net.ErrClosed)
		assert.Zero(t, buf.Default.Out(), "unreturned buffers")
	})
	anyone := &rpcmsg.Cred{Flavor: rpcmsg.AuthNone} // required by go-nfs's handler
	p := &gonfsPeer{t: t, call: call, c: nfsclient.New(call, nfsclient.Config{Cred: anyone}), m: nfsclient.NewMount(call, anyone)}
	p.root, err = p.m.Mnt(t.Context(), "/")
	require.NoError(t, err)
	return p
}

// forms are the ways to transfer large messages.
var forms = map[string]rpcrdma.ClientConnConfig{
	"thresholds of 4096 bytes":   {},
	"thresholds of 1024 bytes":   {NoPrivateData: true},
	"thresholds of 262144 bytes": {Inline: 256 << 10},
}

func sampleBytes(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(p)
	return p
}

func (p *gonfsPeer) dirOp(name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: p.root, Name: []byte(name)}
}

// createFile makes a file of go-nfs's own mode.
func (p *gonfsPeer) createFile(name string) nfs3.FH {
	p.t.Helper()
	res, err := p.c.Create(p.t.Context(), &nfs3.CreateArgs{Where: p.dirOp(name), Mode: nfs3.Guarded})
	require.NoError(p.t, err)
	return slices.Clone(res.Object)
}

// TestData writes and reads data of many sizes, at several offsets, inline and
// by chunks.
func TestData(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			p := connectPeer(t, cfg)
			ctx := t.Context()
			var sizes []int
			for _, n := range []int{1, 512, 640, 768, 900, 1024, 3800, 4096, 65536, 262144} {
				sizes = append(sizes, n-1, n, n+1, n+2)
			}
			sizes = append(sizes, 1<<20-1, 1<<20)
			for _, n := range sizes {
				file := p.createFile(fmt.Sprint("file", n))
				data := sampleBytes(n)
				for _, off := range []uint64{0, 5}[:min(n+1, 2)] {
					w, err := p.c.Write(ctx, file, off, data, nfs3.FileSync)
					require.NoError(t, err)
					require.EqualValues(t, n, w.Count)
				}
				var want []byte
				if n > 0 {
					want = make([]byte, 5+n)
					copy(want, data)
					copy(want[5:], data)
				}
				a, err := p.c.GetAttr(ctx, file)
				require.NoError(t, err)
				require.EqualValues(t, len(want), a.Size)
				got := make([]byte, min(len(want)+10, 1<<20))
				r, err := p.c.Read(ctx, file, 0, got)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want[:r.Count], got[:r.Count]), "%d bytes", n)
				require.EqualValues(t, min(len(want), 1<<20), r.Count)
				require.Equal(t, len(want) <= 1<<20, r.EOF)
				r, err = p.c.Read(ctx, file, 3, got[:min(len(got), 4)])
				require.NoError(t, err)
				if len(want) > 3 {
					require.Equal(t, want[3:min(7, len(want))], got[:r.Count])
				}
				_, err = p.c.Commit(ctx, file, 0, 0)
				require.NoError(t, err)
			}
		})
	}
}

// TestTransfer copies more than one call carries, with many calls in flight.
func TestTransfer(t *testing.T) {
	p := connectPeer(t, rpcrdma.ClientConnConfig{})
	ctx := t.Context()
	fs, err := p.c.FS(ctx, p.root, "")
	require.NoError(t, err)
	f, err := fs.Create(ctx, "large", 0o666)
	require.NoError(t, err)
	data := sampleBytes(9<<20 + 3)
	n, err := f.CopyFrom(ctx, bytes.NewReader(data), 0)
	require.NoError(t, err)
	assert.EqualValues(t, len(data), n)
	var got bytes.Buffer
	_, err = f.CopyTo(ctx, &got, 0)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got.Bytes()))
}

// TestProcedures uses all other procedures of go-nfs.
func TestProcedures(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			p := connectPeer(t, cfg)
			p.testObjects()
			p.testNames()
			p.testLinks()
			p.testListings()
			p.fileSystem()
			p.testMount()
		})
	}
}

func (p *gonfsPeer) testObjects() {
	t, ctx := p.t, p.t.Context()
	require.NoError(t, p.c.Null(ctx))
	file := p.createFile("objects")
	size := nfs3.OptUint64{Set: true, Value: 100}
	_, err := p.c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: file, Attr: nfs3.SetAttr{Size: size}})
	require.NoError(t, err)
	a, err := p.c.GetAttr(ctx, file)
	require.NoError(t, err)
	assert.EqualValues(t, 100, a.Size)
	assert.Equal(t, nfs3.TypeReg, a.Type)
	l, err := p.c.Lookup(ctx, p.root, "objects")
	require.NoError(t, err)
	assert.Equal(t, file, l.Object)
	access, err := p.c.Access(ctx, file, nfs3.AccessRead|nfs3.AccessModify)
	require.NoError(t, err)
	assert.NotZero(t, access.Access&nfs3.AccessRead)

	_, err = p.c.Lookup(ctx, p.root, "none")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
	stale := nfs3.FH(make([]byte, 16))
	_, err = p.c.GetAttr(ctx, stale)
	assert.ErrorIs(t, err, nfs3.ErrStale)
	_, err = p.c.Read(ctx, stale, 0, make([]byte, 64<<10))
	assert.ErrorIs(t, err, nfs3.ErrStale)
	_, err = p.c.Write(ctx, stale, 0, make([]byte, 64<<10), nfs3.FileSync)
	assert.ErrorIs(t, err, nfs3.ErrStale)
	_, err = p.c.ReadLink(ctx, stale)
	assert.ErrorIs(t, err, nfs3.ErrStale)
	_, err = p.c.Create(ctx, &nfs3.CreateArgs{Where: p.dirOp("objects"), Mode: nfs3.Guarded})
	assert.ErrorIs(t, err, nfs3.ErrExist)
	_, err = p.c.Mknod(ctx, &nfs3.MknodArgs{Where: p.dirOp("fifo"), Type: nfs3.TypeFIFO})
	assert.ErrorIs(t, err, nfs3.ErrAcces)
	_, err = p.c.Link(ctx, &nfs3.LinkArgs{File: file, Link: p.dirOp("link")})
	assert.Error(t, err, "go-nfs reads other arguments than RFC 1813 has")
}

func (p *gonfsPeer) testNames() {
	t, ctx := p.t, p.t.Context()
	d, err := p.c.Mkdir(ctx, &nfs3.MkdirArgs{Where: p.dirOp("dir")})
	require.NoError(t, err)
	dir := slices.Clone(d.Object)
	p.createFile("before")
	_, err = p.c.Rename(ctx, &nfs3.RenameArgs{From: p.dirOp("before"), To: nfs3.DirOpArgs{Dir: dir, Name: []byte("after")}})
	require.NoError(t, err)
	_, err = p.c.Lookup(ctx, p.root, "before")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
	_, err = p.c.Lookup(ctx, dir, "after")
	require.NoError(t, err)
	_, err = p.c.Remove(ctx, dir, "after")
	require.NoError(t, err)
	_, err = p.c.Rmdir(ctx, p.root, "dir")
	require.NoError(t, err)
	_, err = p.c.Remove(ctx, p.root, "dir")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
}

// testLinks makes symbolic links with paths of many lengths. go-nfs loses the end
// of a path beyond its read buffer of 4096 bytes, over TCP too.
func (p *gonfsPeer) testLinks() {
	t, ctx := p.t, p.t.Context()
	for _, n := range []int{1, 3, 4, 700, 701, 800, 1021, 3900} {
		path := bytes.Repeat([]byte("p"), n)
		name := fmt.Sprint("link", n)
		_, err := p.c.Symlink(ctx, &nfs3.SymlinkArgs{Where: p.dirOp(name), Path: path})
		require.NoError(t, err)
		l, err := p.c.Lookup(ctx, p.root, name)
		require.NoError(t, err)
		res, err := p.c.ReadLink(ctx, slices.Clone(l.Object))
		require.NoError(t, err)
		assert.Equal(t, string(path), string(res.Path))
	}
	_, err := p.c.ReadLink(ctx, p.root)
	assert.Error(t, err)
}

// testListings lists a directory with calls of several sizes.
func (p *gonfsPeer) testListings() {
	t, ctx := p.t, p.t.Context()
	d, err := p.c.Mkdir(ctx, &nfs3.MkdirArgs{Where: p.dirOp("many")})
	require.NoError(t, err)
	dir := slices.Clone(d.Object)
	want := []string{".", ".."}
	for i := range 200 {
		name := fmt.Sprintf("%s%03d", bytes.Repeat([]byte("n"), i), i)
		_, err := p.c.Create(ctx, &nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}})
		require.NoError(t, err)
		want = append(want, name)
	}
	slices.Sort(want)
	for _, count := range []uint32{4096, 32 << 10, 1 << 20} { // go-nfs requires no less
		for _, plus := range []bool{false, true} {
			got := p.listDir(dir, count, plus)
			slices.Sort(got)
			assert.Equal(t, want, got, "%d bytes, READDIRPLUS %v", count, plus)
		}
	}
}

func (p *gonfsPeer) listDir(dir nfs3.FH, count uint32, plus bool) (names []string) {
	t, ctx := p.t, p.t.Context()
	var cookie, verf uint64
	each := func(e *nfs3.Entry) {
		names = append(names, string(e.Name))
		cookie = e.Cookie
	}
	for eof := false; !eof; {
		var res nfs3.DirRes
		var err error
		before := len(names)
		if plus {
			res, eof, err = p.c.ReadDirPlus(ctx, &nfs3.ReadDirPlusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: count, MaxCount: count}, each)
		} else {
			res, eof, err = p.c.ReadDir(ctx, &nfs3.ReadDirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: count}, each)
		}
		require.NoError(t, err)
		require.True(t, eof || len(names) > before, "the listing goes on")
		verf = res.Verf
	}
	return names
}

func (p *gonfsPeer) fileSystem() {
	t, ctx := p.t, p.t.Context()
	_, err := p.c.FSStat(ctx, p.root)
	require.NoError(t, err)
	info, err := p.c.FSInfo(ctx, p.root)
	require.NoError(t, err)
	assert.NotZero(t, info.RTMax)
	conf, err := p.c.PathConf(ctx, p.root)
	require.NoError(t, err)
	assert.NotZero(t, conf.NameMax)
}

func (p *gonfsPeer) testMount() {
	t, ctx := p.t, p.t.Context()
	require.NoError(t, p.m.Null(ctx))
	require.NoError(t, p.m.Umnt(ctx, "/"))
	_, err := p.m.Exports(ctx)
	assert.Error(t, err, "go-nfs does not have it")
	require.NoError(t, p.c.Null(ctx), "the connection is as good as before")
}

// TestPrograms checks that the replies follow the standard, even if go-nfs
// itself would answer differently.
func TestPrograms(t *testing.T) {
	p := connectPeer(t, rpcrdma.ClientConnConfig{})
	for _, vers := range []uint32{0, 2, 4} {
		err := p.call.Call(t.Context(), &oncrpc.Exchange{Prog: nfs3.Program, Vers: vers})
		assert.Equal(t, &oncrpc.ReplyError{Stat: 2, Low: 3, High: 3}, err)
	}
	err := p.call.Call(t.Context(), &oncrpc.Exchange{Prog: mount3.Program, Vers: 1})
	assert.Equal(t, &oncrpc.ReplyError{Stat: 2, Low: 3, High: 3}, err)
	err = p.call.Call(t.Context(), &oncrpc.Exchange{Prog: 100021, Vers: 4})
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
}

// TestRun starts the command in the way of the tests.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0"}))
	assert.Error(t, run(ctx, nil))
	assert.Error(t, run(ctx, []string{"serve", "--listen", "192.0.2.1:1"}))
}
