package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A procedure sends one successful call to a procedure, in the order of the
// table procedures, and checks its results.
type procedure struct {
	proc uint32
	call func(ctx context.Context, g *testServer) (results any, err error)
	want func(t *testing.T, g *testServer, results any)
}

func dirOpArgs(dir nfs3.FH, name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}
}

// handleOf returns the handle for a path on the test server.
func (g *testServer) handleOf(ctx context.Context, path string) nfs3.FH {
	n, err := g.fs.Lstat(ctx, path)
	require.NoError(g.t, err)
	return n.Handle
}

func modeAttr(m uint32) nfs3.SetAttr { return nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: m}} }

var procedures = []procedure{
	{nfs3.ProcNull, func(ctx context.Context, g *testServer) (any, error) {
		return nil, g.c.Null(ctx)
	}, nil},
	{nfs3.ProcGetAttr, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.GetAttr(ctx, g.root)
	}, func(t *testing.T, _ *testServer, r any) {
		assert.EqualValues(t, memRoot, r.(nfs3.Attr).FileID)
	}},
	{nfs3.ProcMkdir, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Mkdir(ctx, &nfs3.MkdirArgs{Where: dirOpArgs(g.root, "d\xff"), Attr: modeAttr(0o711)})
	}, func(t *testing.T, _ *testServer, r any) {
		m := r.(nfs3.MakeRes)
		assert.Equal(t, nfs3.TypeDir, m.Attr.Attr.Type)
		assert.EqualValues(t, 0o711, m.Attr.Attr.Mode)
		assert.True(t, m.Dir.After.OK)
	}},
	{nfs3.ProcLookup, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Lookup(ctx, g.root, "d\xff")
	}, func(t *testing.T, g *testServer, r any) {
		l := r.(nfs3.LookupRes)
		assert.Equal(t, nfs3.TypeDir, l.ObjAttr.Attr.Type)
		assert.EqualValues(t, memRoot, l.DirAttr.Attr.FileID)
		a, err := g.c.GetAttr(t.Context(), l.Object)
		assert.NoError(t, err)
		assert.Equal(t, l.ObjAttr.Attr, a)
	}},
	{nfs3.ProcCreate, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Create(ctx, &nfs3.CreateArgs{Where: dirOpArgs(g.root, "f"), Mode: nfs3.Guarded, Attr: modeAttr(0o600)})
	}, func(t *testing.T, _ *testServer, r any) {
		assert.Equal(t, nfs3.TypeReg, r.(nfs3.MakeRes).Attr.Attr.Type)
	}},
	{nfs3.ProcSetAttr, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: g.handleOf(ctx, "f"), Attr: modeAttr(0o640)})
	}, func(t *testing.T, _ *testServer, r any) {
		assert.EqualValues(t, 0o640, r.(nfs3.WccData).After.Attr.Mode)
	}},
	{nfs3.ProcAccess, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Access(ctx, g.root, nfs3.AccessRead|nfs3.AccessDelete)
	}, func(t *testing.T, _ *testServer, r any) {
		assert.Equal(t, nfs3.AccessRead, r.(nfs3.AccessRes).Access)
	}},
	{nfs3.ProcWrite, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Write(ctx, g.handleOf(ctx, "f"), 3, []byte("data."), nfs3.DataSync)
	}, func(t *testing.T, g *testServer, r any) {
		w := r.(nfs3.WriteRes)
		assert.EqualValues(t, 5, w.Count)
		assert.Equal(t, nfs3.DataSync, w.Committed)
		assert.Equal(t, g.mem.verf, w.Verf)
		assert.EqualValues(t, 8, w.Wcc.After.Attr.Size)
	}},
	{nfs3.ProcRead, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Read(ctx, g.handleOf(ctx, "f"), 2, make([]byte, 9))
	}, func(t *testing.T, _ *testServer, r any) {
		res := r.(nfs3.ReadRes)
		assert.Equal(t, "\x00data.", string(res.Data))
		assert.EqualValues(t, 6, res.Count)
		assert.True(t, res.EOF)
		assert.True(t, res.Attr.OK)
	}},
	{nfs3.ProcCommit, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Commit(ctx, g.handleOf(ctx, "f"), 0, 5)
	}, func(t *testing.T, g *testServer, r any) {
		assert.Equal(t, g.mem.verf, r.(nfs3.CommitRes).Verf)
	}},
	{nfs3.ProcSymlink, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Symlink(ctx, &nfs3.SymlinkArgs{Where: dirOpArgs(g.root, "l"), Path: []byte("tar\xffget")})
	}, func(t *testing.T, _ *testServer, r any) {
		assert.Equal(t, nfs3.TypeLnk, r.(nfs3.MakeRes).Attr.Attr.Type)
	}},
	{nfs3.ProcReadLink, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.ReadLink(ctx, g.handleOf(ctx, "l"))
	}, func(t *testing.T, _ *testServer, r any) {
		assert.Equal(t, "tar\xffget", string(r.(nfs3.ReadLinkRes).Path))
	}},
	{nfs3.ProcMknod, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Mknod(ctx, &nfs3.MknodArgs{Where: dirOpArgs(g.root, "null"), Type: nfs3.TypeChr, Spec: nfs3.SpecData{Major: 1, Minor: 3}})
	}, func(t *testing.T, _ *testServer, r any) {
		assert.Equal(t, nfs3.SpecData{Major: 1, Minor: 3}, r.(nfs3.MakeRes).Attr.Attr.Rdev)
	}},
	{nfs3.ProcLink, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Link(ctx, &nfs3.LinkArgs{File: g.handleOf(ctx, "f"), Link: dirOpArgs(g.root, "f2")})
	}, func(t *testing.T, _ *testServer, r any) {
		assert.EqualValues(t, 2, r.(nfs3.LinkRes).Attr.Attr.Nlink)
	}},
	{nfs3.ProcRename, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Rename(ctx, &nfs3.RenameArgs{From: dirOpArgs(g.root, "f2"), To: dirOpArgs(g.handleOf(ctx, "d\xff"), "g")})
	}, func(t *testing.T, g *testServer, r any) {
		assert.Equal(t, nfs3.TypeDir, r.(nfs3.RenameRes).ToDir.After.Attr.Type)
		assert.Equal(t, g.handleOf(t.Context(), "f"), g.handleOf(t.Context(), "d\xff/g"))
	}},
	{nfs3.ProcReadDir, func(ctx context.Context, g *testServer) (any, error) {
		return g.listRoot(ctx, false)
	}, requireNames},
	{nfs3.ProcReadDirPlus, func(ctx context.Context, g *testServer) (any, error) {
		return g.listRoot(ctx, true)
	}, requireNames},
	{nfs3.ProcRemove, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Remove(ctx, g.handleOf(ctx, "d\xff"), "g")
	}, func(t *testing.T, _ *testServer, r any) {
		assert.Equal(t, nfs3.TypeDir, r.(nfs3.WccData).After.Attr.Type)
	}},
	{nfs3.ProcRmdir, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.Rmdir(ctx, g.root, "d\xff")
	}, func(t *testing.T, g *testServer, _ any) {
		_, err := g.fs.Stat(t.Context(), "d\xff")
		assert.ErrorIs(t, err, fs.ErrNotExist)
	}},
	{nfs3.ProcFSStat, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.FSStat(ctx, g.root)
	}, func(t *testing.T, _ *testServer, r any) {
		s := r.(nfs3.FSStatRes)
		assert.EqualValues(t, 6, s.TotalBytes)
		assert.EqualValues(t, 1, s.AvailFiles)
	}},
	{nfs3.ProcFSInfo, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.FSInfo(ctx, g.root)
	}, func(t *testing.T, _ *testServer, r any) {
		assert.EqualValues(t, 1<<20, r.(nfs3.FSInfoRes).RTMax)
	}},
	{nfs3.ProcPathConf, func(ctx context.Context, g *testServer) (any, error) {
		return g.c.PathConf(ctx, g.root)
	}, func(t *testing.T, _ *testServer, r any) {
		assert.EqualValues(t, 32000, r.(nfs3.PathConfRes).LinkMax)
	}},
}

// listRoot lists the root with one call.
func (g *testServer) listRoot(ctx context.Context, plus bool) (names []string, err error) {
	each := func(e *nfs3.Entry) {
		names = append(names, string(e.Name))
		assert.Equal(g.t, plus, e.Handle != nil && e.Attr.OK)
	}
	var res nfs3.DirRes
	var eof bool
	if plus {
		res, eof, err = g.c.ReadDirPlus(ctx, &nfs3.ReadDirPlusArgs{Dir: g.root, DirCount: 8192, MaxCount: 8192}, each)
	} else {
		res, eof, err = g.c.ReadDir(ctx, &nfs3.ReadDirArgs{Dir: g.root, Count: 1024}, each)
	}
	if err == nil {
		assert.True(g.t, eof)
		assert.NotZero(g.t, res.Verf)
	}
	return names, err
}

func requireNames(t *testing.T, _ *testServer, r any) {
	assert.Equal(t, []string{".", "..", "d\xff", "f", "l", "null"}, r)
}

// TestProcedures sends each call to the server.
func TestProcedures(t *testing.T) {
	assert.Len(t, procedures, int(nfs3.NumProc))
	onBoth(t, Config{}, func(t *testing.T, g *testServer) {
		for _, p := range procedures {
			before := g.callCount(p.proc)
			results, err := p.call(t.Context(), g)
			require.NoError(t, err, nfs3.ProcName(p.proc))
			assert.Greater(t, g.callCount(p.proc), before, "the wrong procedure was called for %s", nfs3.ProcName(p.proc))
			if p.want != nil {
				p.want(t, g, results)
			}
		}
	})
}

var statuses = map[nfs3.Status]syscall.Errno{
	nfs3.ErrPerm: syscall.EPERM, nfs3.ErrNoEnt: syscall.ENOENT, nfs3.ErrIO: syscall.EIO, nfs3.ErrNXIO: syscall.ENXIO,
	nfs3.ErrAcces: syscall.EACCES, nfs3.ErrExist: syscall.EEXIST, nfs3.ErrXDev: syscall.EXDEV, nfs3.ErrNoDev: syscall.ENODEV,
	nfs3.ErrNotDir: syscall.ENOTDIR, nfs3.ErrIsDir: syscall.EISDIR, nfs3.ErrInval: syscall.EINVAL, nfs3.ErrFBig: syscall.EFBIG,
	nfs3.ErrNoSpc: syscall.ENOSPC, nfs3.ErrROFS: syscall.EROFS, nfs3.ErrMLink: syscall.EMLINK,
	nfs3.ErrNameTooLong: syscall.ENAMETOOLONG, nfs3.ErrNotEmpty: syscall.ENOTEMPTY, nfs3.ErrDQuot: syscall.EDQUOT,
	nfs3.ErrStale: syscall.ESTALE, nfs3.ErrRemote: syscall.EREMOTE, nfs3.ErrBadHandle: syscall.ESTALE,
	nfs3.ErrNotSync: syscall.EAGAIN, nfs3.ErrBadCookie: syscall.EAGAIN, nfs3.ErrNotSupp: syscall.EOPNOTSUPP,
	nfs3.ErrTooSmall: syscall.EINVAL, nfs3.ErrServerFault: syscall.EREMOTEIO, nfs3.ErrBadType: syscall.EINVAL,
	nfs3.ErrJukebox: syscall.EAGAIN, 4711: syscall.EIO,
}

// TestStatuses checks that every error status from every procedure becomes an
// Error.
func TestStatuses(t *testing.T) {
	g := newTestServer(t, Config{Patience: -1}, true)
	ctx := t.Context()
	for _, p := range procedures {
		if p.proc == nfs3.ProcNull {
			continue
		}
		for status, errno := range statuses {
			g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
				if x.Proc == p.proc {
					return failingCaller(p.proc, status), nil
				}
				return nil, nil
			}
			_, err := p.callDirectly(ctx, g)
			var e *Error
			require.ErrorAs(t, err, &e, "%s %v", nfs3.ProcName(p.proc), status)
			assert.Equal(t, Error{Proc: p.proc, Status: status}, *e)
			assert.ErrorIs(t, err, status)
			assert.ErrorIs(t, err, errno)
			assert.NotErrorIs(t, err, nfs3.OK)
			assert.Contains(t, err.Error(), nfs3.ProcName(p.proc))
			assert.Contains(t, err.Error(), status.String())
			assert.Equal(t, errno == syscall.ENOENT, errors.Is(err, fs.ErrNotExist))
			assert.Equal(t, errno == syscall.EEXIST || errno == syscall.ENOTEMPTY, errors.Is(err, fs.ErrExist))
			assert.Equal(t, errno == syscall.EACCES || errno == syscall.EPERM, errors.Is(err, fs.ErrPermission))
		}
	}
}

// callDirectly sends a call with handles that need no earlier call.
func (p *procedure) callDirectly(ctx context.Context, g *testServer) (any, error) {
	h := g.root
	switch p.proc {
	case nfs3.ProcSetAttr:
		return g.c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: h, Attr: modeAttr(0)})
	case nfs3.ProcReadLink:
		return g.c.ReadLink(ctx, h)
	case nfs3.ProcRead:
		return g.c.Read(ctx, h, 0, make([]byte, 40))
	case nfs3.ProcWrite:
		return g.c.Write(ctx, h, 0, make([]byte, 40), nfs3.FileSync)
	case nfs3.ProcCommit:
		return g.c.Commit(ctx, h, 0, 0)
	case nfs3.ProcLink:
		return g.c.Link(ctx, &nfs3.LinkArgs{File: h, Link: dirOpArgs(h, "x")})
	case nfs3.ProcRename:
		return g.c.Rename(ctx, &nfs3.RenameArgs{From: dirOpArgs(h, "x"), To: dirOpArgs(h, "y")})
	case nfs3.ProcRemove:
		return g.c.Remove(ctx, h, "x")
	}
	return p.call(ctx, g)
}

// TestRefusalWithAttributes checks that results carry the attributes that an
// error reply contains.
func TestRefusalWithAttributes(t *testing.T) {
	g := newTestServer(t, Config{}, true)
	res, err := g.c.Lookup(t.Context(), g.root, "none")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
	assert.EqualValues(t, memRoot, res.DirAttr.Attr.FileID)
	made, err := g.c.Mkdir(t.Context(), &nfs3.MkdirArgs{Where: dirOpArgs(g.root, "d")})
	require.NoError(t, err)
	again, err := g.c.Mkdir(t.Context(), &nfs3.MkdirArgs{Where: dirOpArgs(g.root, "d")})
	assert.ErrorIs(t, err, nfs3.ErrExist)
	assert.Equal(t, made.Dir.After, again.Dir.After)
}

// TestMalformed truncates every procedure's results at every byte.
func TestMalformed(t *testing.T) {
	g := newTestServer(t, Config{}, false)
	good := make(map[uint32][]byte)
	g.after = func(x *oncrpc.Exchange, results []byte) []byte {
		good[x.Proc] = bytes.Clone(results)
		return results
	}
	for _, p := range procedures {
		_, err := p.call(t.Context(), g)
		require.NoError(t, err)
	}
	for _, p := range procedures {
		wire := good[p.proc]
		for n := range wire {
			g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) { return wire[:n:n], nil }
			_, err := p.callDirectly(t.Context(), g)
			require.ErrorIs(t, err, ErrReply, "%s, %d bytes of %d", nfs3.ProcName(p.proc), n, len(wire))
		}
	}
}

func TestTooMuch(t *testing.T) {
	g := newTestServer(t, Config{}, false)
	results := func(b []byte) {
		g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) { return b, nil }
	}
	p := []byte("1234")
	results(xdr.AppendFixed((&nfs3.ReadRes{Count: 5}).AppendTo(nil), make([]byte, 5)))
	res, err := g.c.Read(t.Context(), g.root, 0, p)
	assert.ErrorIs(t, err, ErrReply)
	assert.ErrorIs(t, err, xdr.ErrValue)
	assert.Empty(t, res.Data)
	assert.Equal(t, "1234", string(p))
	results((&nfs3.WriteRes{Count: 5}).AppendTo(nil))
	_, err = g.c.Write(t.Context(), g.root, 0, p, nfs3.Unstable)
	assert.ErrorIs(t, err, ErrReply)
	results(xdr.AppendUint32((&nfs3.WriteRes{Count: 4}).AppendTo(nil), 1))
	_, err = g.c.Write(t.Context(), g.root, 0, p, nfs3.Unstable)
	assert.NoError(t, err, "bytes after the results are ignored")
}

func TestReadEmpty(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, g *testServer) {
		f := g.putFile("f", nil)
		res, err := g.c.Read(t.Context(), f.Handle(), 0, nil)
		assert.NoError(t, err)
		assert.True(t, res.EOF)
		w, err := g.c.Write(t.Context(), f.Handle(), 0, nil, nfs3.FileSync)
		assert.NoError(t, err)
		assert.Zero(t, w.Count)
	})
}

func TestTransportError(t *testing.T) {
	g := newTestServer(t, Config{}, true)
	broken := errors.New("cable cut")
	g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) { return nil, broken }
	for _, p := range procedures {
		_, err := p.callDirectly(t.Context(), g)
		assert.ErrorIs(t, err, broken)
		assert.ErrorContains(t, err, nfs3.ProcName(p.proc))
	}
}

func TestJukebox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t, Config{}, true)
		for _, p := range procedures {
			if p.proc == nfs3.ProcNull {
				continue
			}
			g.failProc(p.proc, nfs3.ErrJukebox, 3)
			start := time.Now()
			_, err := p.call(t.Context(), g)
			assert.NoError(t, err, nfs3.ProcName(p.proc))
			assert.Equal(t, (50+100+200)*time.Millisecond, time.Since(start))
		}
	})
}

func TestJukeboxForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t, Config{Patience: 20 * time.Second}, true)
		g.failProc(nfs3.ProcGetAttr, nfs3.ErrJukebox, -1)
		start := time.Now()
		_, err := g.c.GetAttr(t.Context(), g.root)
		assert.ErrorIs(t, err, nfs3.ErrJukebox)
		// 0.05 + 0.1 + … + 3.2, then 5 s each
		assert.Equal(t, 16350*time.Millisecond, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = g.c.GetAttr(ctx, g.root)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "postponed the call")
	})
}

func TestPatience(t *testing.T) {
	g := newTestServer(t, Config{Patience: -1}, true)
	g.failProc(nfs3.ProcGetAttr, nfs3.ErrJukebox, 1)
	_, err := g.c.GetAttr(t.Context(), g.root)
	assert.ErrorIs(t, err, nfs3.ErrJukebox)
}

func TestConfig(t *testing.T) {
	var c Config
	c.setDefaults()
	cred := ProcessCred()
	assert.Equal(t, Config{
		Cred: &cred, ReadSize: 1 << 20, WriteSize: 1 << 20, Depth: 16, Window: 64 << 20, Patience: time.Minute,
	}, c)
	c = Config{ReadSize: -1, WriteSize: -1, Depth: 1e6, Window: -1, Patience: -1}
	c.setDefaults()
	assert.Equal(t, Config{Cred: &cred, ReadSize: 1, WriteSize: 1, Depth: 1024, Window: 1, Patience: -1}, c)
}

func TestProcessCred(t *testing.T) {
	c := ProcessCred()
	assert.Equal(t, rpcmsg.AuthSys, c.Flavor)
	assert.EqualValues(t, os.Geteuid(), c.UID)
	assert.EqualValues(t, os.Getegid(), c.GID)
	assert.NotContains(t, c.GIDs, c.GID)
}

// TestCred checks that calls carry the credential, except NULL.
func TestCred(t *testing.T) {
	cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 7, GID: 8, GIDs: []uint32{9}}
	g := newTestServer(t, Config{Cred: &cred}, true)
	for _, p := range procedures {
		g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
			want := cred
			if x.Proc == nfs3.ProcNull {
				want = rpcmsg.Cred{}
			}
			assert.Equal(t, want, x.Cred)
			return nil, errors.New("enough")
		}
		_, err := p.callDirectly(t.Context(), g)
		assert.Error(t, err)
	}
}

// fakeCannedCaller replies to every call with the same results, and allocates
// nothing.
type fakeCannedCaller struct{ results, item []byte }

func (c *fakeCannedCaller) Call(_ context.Context, x *oncrpc.Exchange) error {
	x.Results = xdr.NewReader(c.results)
	if c.item != nil {
		x.Results.SetMoved(x.Sink[:copy(x.Sink, c.item)])
	}
	return nil
}

func TestAllocations(t *testing.T) {
	ctx, fh, p := t.Context(), nfs3.FH(strings.Repeat("h", 32)), make([]byte, 8192)
	for name, tt := range map[string]struct {
		results []byte
		item    []byte
		call    func(c *Client) error
	}{
		"NULL": {nil, nil, func(c *Client) error { return c.Null(ctx) }},
		"GETATTR": {(&nfs3.GetAttrRes{Attr: nfs3.Attr{Type: nfs3.TypeReg}}).AppendTo(nil), nil, func(c *Client) error {
			_, err := c.GetAttr(ctx, fh)
			return err
		}},
		"READ": {(&nfs3.ReadRes{Count: 8192}).AppendTo(nil), p, func(c *Client) error {
			_, err := c.Read(ctx, fh, 0, p)
			return err
		}},
		"WRITE": {(&nfs3.WriteRes{Count: 8192}).AppendTo(nil), nil, func(c *Client) error {
			_, err := c.Write(ctx, fh, 0, p, nfs3.Unstable)
			return err
		}},
	} {
		c := New(&fakeCannedCaller{tt.results, tt.item}, Config{})
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			if err := tt.call(c); err != nil {
				t.Fatal(err)
			}
		}), racetest.PoolLosses(2), name)
	}
}
