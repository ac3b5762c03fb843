package nfsserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// callMount makes one MOUNT call. args and res may be nil.
func (g *testServer) callMount(proc uint32, args, res message) {
	g.t.Helper()
	msg := g.callHeader(mount3.Program, mount3.Version, proc)
	if args != nil {
		msg = args.AppendTo(msg)
	}
	head, item := g.serveCall(msg, nil)
	stat, results := g.parseAccepted(head)
	require.Zero(g.t, stat)
	if res == nil {
		require.Empty(g.t, results)
		return
	}
	r := xdr.NewReader(results)
	res.Decode(&r)
	require.NoError(g.t, r.Done())
	require.Nil(g.t, item)
}

func (g *testServer) callMnt(path string) mount3.MntRes {
	g.t.Helper()
	var res mount3.MntRes
	g.callMount(mount3.ProcMnt, &mount3.PathArgs{Path: []byte(path)}, &res)
	return res
}

func (g *testServer) callDump() (list []string) {
	g.t.Helper()
	var res mount3.DumpRes
	g.callMount(mount3.ProcDump, nil, &res)
	for _, m := range res.Mounts {
		list = append(list, string(m.Host)+" "+string(m.Path))
	}
	return list
}

func (g *testServer) setPeerAddr(addr string) {
	g.peer = &oncrpc.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 700)}
}

// newMountServer exports /x, which has the directory d with the directory e in it,
// /x/d/y, and /z for two networks.
func newMountServer(t *testing.T) (*testServer, map[vfs.Type]nfs3.FH, nfs3.FH) {
	g, _, fh := newScene(t, func(c *Config) {
		c.Exports = append(c.Exports,
			Export{Path: "/x/d/y", FS: newMemFS()},
			Export{Path: "/z", FS: newMemFS(), Clients: clientsOf(exports.Options{}, "10.0.0.0/8", "2001:db8::/32")})
	})
	var made nfs3.MakeRes
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(g.handleOf(sceneDir), "e")}, &made)
	return g, fh, append(nfs3.FH{}, made.Object...)
}

func TestMnt(t *testing.T) {
	g, fh, deep := newMountServer(t)
	long := "/x/" + strings.Repeat("n", 256)
	for path, want := range map[string]struct {
		status mount3.Status
		fh     nfs3.FH
	}{
		"/x":           {0, fh[vfs.TypeDir]},
		"/x/":          {0, fh[vfs.TypeDir]},
		"//x/./":       {0, fh[vfs.TypeDir]},
		"/x/d":         {0, g.handleOf(sceneDir)},
		"/x/d/e":       {0, deep},
		"/x/d/../d/e/": {0, deep},
		"/x/d/y":       {0, g.handleOf(memRoot, 1)}, // the export with the longest path
		"/x/d/y/n":     {mount3.ErrNoEnt, nil},
		"/x/none":      {mount3.ErrNoEnt, nil},
		"/x/d/none/e":  {mount3.ErrNoEnt, nil},
		"/":            {mount3.ErrNoEnt, nil},
		"/xd":          {mount3.ErrNoEnt, nil},
		"/w":           {mount3.ErrNoEnt, nil},
		"/x/../w":      {mount3.ErrNoEnt, nil},
		"x":            {mount3.ErrNoEnt, nil},
		"":             {mount3.ErrNoEnt, nil},
		"/x/f":         {mount3.ErrNotDir, nil},
		"/x/f/g":       {mount3.ErrNotDir, nil},
		"/x/l":         {mount3.ErrNotDir, nil}, // symbolic links are not followed
		"/x/l/g":       {mount3.ErrNotDir, nil},
		"/x/a\x00b":    {mount3.ErrAcces, nil},
		long:           {mount3.ErrNameTooLong, nil},
		"/z":           {mount3.ErrAcces, nil},
		"/z/n":         {mount3.ErrAcces, nil},
	} {
		res := g.callMnt(path)
		assert.Equal(t, want.status, res.Status, "%.20q", path)
		assert.Equal(t, string(want.fh), string(res.Handle), "%.20q", path)
		if want.status == mount3.OK {
			assert.Equal(t, []uint32{1}, res.Flavors, "AUTH_SYS")
		}
	}
	g.setPeerAddr("10.9.8.7")
	assert.Equal(t, mount3.OK, g.callMnt("/z").Status)
	g.authNone = true
	assert.Equal(t, mount3.OK, g.callMnt("/z").Status)
}

func TestMntRootExport(t *testing.T) {
	g, _, _ := newScene(t, func(c *Config) { c.Exports[0].Path = "/" })
	assert.Equal(t, string(g.handleOf(sceneDir)), string(g.callMnt("/d").Handle))
	assert.Equal(t, string(g.handleOf(memRoot)), string(g.callMnt("/").Handle))
}

func TestMntNestedExports(t *testing.T) {
	g, _, _ := newScene(t, func(c *Config) {
		c.Exports[0].Path = "/a/b"
		c.Exports = append(c.Exports, Export{Path: "/a", FS: newMemFS()})
	})
	assert.Equal(t, string(g.handleOf(memRoot)), string(g.callMnt("/a/b").Handle))
	assert.Equal(t, string(g.handleOf(memRoot, 1)), string(g.callMnt("/a").Handle))
}

// TestReferralByVersion3 checks that NFSv3, which has no referrals, finds nothing in an export
// that is on other servers, not even through the export above.
func TestReferralByVersion3(t *testing.T) {
	options := exports.Options{Insecure: true}
	g, _, fh := newScene(t, func(c *Config) {
		c.Exports[0].Path = "/x/d"
		c.Exports = append(c.Exports, Export{Path: "/x", FS: newMemFS()})
	})
	list := g.server.exports.Exports()
	assert.Equal(t, mount3.OK, g.callMnt("/x/d").Status)
	assert.Equal(t, nfs3.OK, g.getAttrStatus(fh[vfs.TypeReg]))
	var err error
	options.Refer, err = exports.ParseLocations("/there@192.0.2.9")
	require.NoError(t, err)
	list[0].Clients = exports.Everyone(options)
	require.NoError(t, g.server.exports.SetExports(list))
	for _, path := range []string{"/x/d", "/x/d/d"} {
		assert.Equal(t, mount3.ErrAcces, g.callMnt(path).Status, path)
	}
	assert.Equal(t, mount3.OK, g.callMnt("/x").Status)
	assert.Equal(t, nfs3.ErrStale, g.getAttrStatus(fh[vfs.TypeReg]))
}

// A fakeFollowingFS wrongly follows symbolic links in Lookup.
type fakeFollowingFS struct{ *memFS }

func (f fakeFollowingFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	if dir == memHandle(sceneLink) {
		dir = memHandle(memRoot)
	}
	return f.memFS.Lookup(ctx, c, dir, name)
}

func TestMntFollowsNoLink(t *testing.T) {
	g, _, _ := newScene(t, func(c *Config) { c.Exports[0].FS = fakeFollowingFS{c.Exports[0].FS.(*memFS)} })
	assert.Equal(t, mount3.OK, g.callMnt("/x/d").Status)
	assert.Equal(t, mount3.ErrNotDir, g.callMnt("/x/l/d").Status)
}

func TestMntFailure(t *testing.T) {
	g, fs, _ := newScene(t)
	fs.fail = syscall.EIO
	assert.Equal(t, mount3.ErrIO, g.callMnt("/x/d").Status)
	assert.Empty(t, g.log.String())
	fs.fail = syscall.EDOM
	assert.Equal(t, mount3.ErrIO, g.callMnt("/x/d").Status)
	assert.Contains(t, g.log.String(), "path=d")
	assert.Empty(t, g.callDump())
}

func TestMountArguments(t *testing.T) {
	g := newTestServer(t, newMemFS())
	for _, tt := range []struct {
		proc uint32
		args string
	}{
		{mount3.ProcMnt, ""},
		{mount3.ProcMnt, "\x00\x00\x04\x01" + strings.Repeat("/", 1028)},
		{mount3.ProcUmnt, "\x00\x00\x00\x05/x"},
		{mount3.ProcMnt, "\x00\x00\x00\x00more"},
		{mount3.ProcDump, "more"},
		{mount3.ProcUmntAll, "more"},
		{mount3.ProcExport, "more"},
	} {
		head, _ := g.serveCall(append(g.callHeader(mount3.Program, 3, tt.proc), tt.args...), nil)
		stat, _ := g.parseAccepted(head)
		assert.EqualValues(t, 4, stat, "GARBAGE_ARGS")
	}
}

func TestDump(t *testing.T) {
	g, _, _ := newMountServer(t)
	g.callMnt("/x/d/")
	g.callMnt("/x/d")
	g.callMnt("/x")
	g.callMnt("/w")
	g.setPeerAddr("::ffff:10.0.0.1")
	g.callMnt("/z")
	g.callMnt("/x")
	assert.Equal(t, []string{"192.0.2.1 /x/d", "192.0.2.1 /x", "10.0.0.1 /z", "10.0.0.1 /x"}, g.callDump())
	g.callMount(mount3.ProcUmnt, &mount3.PathArgs{Path: []byte("/x/")}, nil)
	g.callMount(mount3.ProcUmnt, &mount3.PathArgs{Path: []byte("/unknown")}, nil)
	assert.Equal(t, []string{"192.0.2.1 /x/d", "192.0.2.1 /x", "10.0.0.1 /z"}, g.callDump())
	g.setPeerAddr("192.0.2.1")
	g.callMount(mount3.ProcUmntAll, nil, nil)
	assert.Equal(t, []string{"10.0.0.1 /z"}, g.callDump())
}

func TestDumpIsBounded(t *testing.T) {
	var l mountList
	for i := range maxMounts + 10 {
		l.addMount("host", fmt.Sprint("/", i))
	}
	assert.Len(t, l.entries, maxMounts)
	assert.Equal(t, "/10", l.entries[0].path, "the oldest was removed")

	// Each entry has 4 + 4 + 4 + 4 + 4 bytes or four more.
	for limit := range 200 {
		b := l.appendTo(nil, limit)
		if limit >= mount3.ListEnd {
			assert.LessOrEqual(t, len(b), limit)
			assert.Greater(t, len(b)+24, limit)
		}
		var res mount3.DumpRes
		r := xdr.NewReader(b)
		res.Decode(&r)
		assert.NoError(t, r.Done())
	}
}

func TestExport(t *testing.T) {
	g, _, _ := newMountServer(t)
	var res mount3.ExportRes
	g.callMount(mount3.ProcExport, nil, &res)
	assert.Equal(t, []mount3.Export{
		{Path: []byte("/x")},
		{Path: []byte("/x/d/y")},
		{Path: []byte("/z"), Groups: [][]byte{[]byte("10.0.0.0/8"), []byte("2001:db8::/32")}},
	}, res.Exports)
	g.maxReply = 24 + 16 + mount3.ListEnd - 1 // /x has 16 bytes
	g.callMount(mount3.ProcExport, nil, &res)
	assert.Len(t, res.Exports, 0)
	g.maxReply = 24 + 16 + mount3.ListEnd
	g.callMount(mount3.ProcExport, nil, &res)
	assert.Len(t, res.Exports, 1)
}

func TestMountPeerless(t *testing.T) {
	g := newTestServer(t, newMemFS())
	g.peer = nil
	assert.Equal(t, mount3.OK, g.callMnt("/x").Status)
	assert.Equal(t, []string{" /x"}, g.callDump())
}

// A handle gives access to an object below directories that its user may not search. MNT gives
// it only to callers that may search them, or to a host's superuser, identified by the call's
// port; and a port that the export requires is required for MNT too.
func TestMntSearchesAsCaller(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "private", "inner"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "open", "inner"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "private"), 0o700))
	require.NoError(t, os.Chown(filepath.Join(dir, "private"), 1001, 1001))
	transports := func(name string) exports.Transports {
		list, err := exports.ParseTransports(name)
		require.NoError(t, err)
		return list
	}
	krb5p := exports.Secure(exports.Rights{}, exports.FlavorKrb5p)
	const reserved, other = 700, 40000
	const ok, denied = mount3.OK, mount3.ErrAcces
	for _, tt := range []struct {
		name                      string
		o                         exports.Options
		network                   string
		port                      uint16
		uid                       uint32
		root, open, private, none mount3.Status
	}{
		{"root of a host by TCP", exports.Options{}, "tcp", reserved, 0, ok, ok, ok, mount3.ErrNoEnt},
		{"any user's port", exports.Options{}, "tcp", other, 0, denied, denied, denied, denied},
		{"any user's port, sec=krb5p", exports.Options{Sec: krb5p}, "tcp", other, 0, ok, ok, denied, denied},
		{"root of a host, sec=krb5p", exports.Options{Sec: krb5p}, "tcp", reserved, 0, ok, ok, ok, mount3.ErrNoEnt},
		{"any user's port, xprtsec=mtls", exports.Options{Xprtsec: transports("mtls")}, "tcp", other, 0, denied, denied, denied, denied},
		{"any user's port, xprtsec=mtls,insecure", exports.Options{Xprtsec: transports("mtls"), Insecure: true}, "tcp", other, 0, ok, ok, denied, denied},
		{"root of a host, xprtsec=mtls", exports.Options{Xprtsec: transports("mtls")}, "tcp", reserved, 0, ok, ok, ok, mount3.ErrNoEnt},
		{"insecure, a user", exports.Options{Insecure: true}, "tcp", other, 1, ok, ok, denied, denied},
		{"insecure, the owner", exports.Options{Insecure: true}, "tcp", other, 1001, ok, ok, ok, mount3.ErrNoEnt},
		{"RDMA, a user", exports.Options{}, "rdma", other, 1, ok, ok, denied, denied},
		{"RDMA, a user who claims to be root", exports.Options{}, "rdma", other, 0, ok, ok, denied, denied},
		{"RDMA, the owner", exports.Options{}, "rdma", other, 1001, ok, ok, ok, mount3.ErrNoEnt},
		{"RDMA, the owner, all_squash", exports.Options{AllSquash: true}, "rdma", other, 1001, ok, ok, denied, denied},
		{"RDMA, root, no_root_squash", exports.Options{NoRootSquash: true}, "rdma", other, 0, ok, ok, ok, mount3.ErrNoEnt},
		{"RDMA from a reserved port", exports.Options{}, "rdma", reserved, 0, ok, ok, ok, mount3.ErrNoEnt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newPosixServer(t, dir, posix.Options{StateDir: t.TempDir()}, withOptions(tt.o))
			g.uid, g.gid = tt.uid, tt.uid
			g.peer = &oncrpc.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), tt.port), Network: tt.network}
			assert.Equal(t, tt.root, g.callMnt("/x").Status, "the root")
			assert.Equal(t, tt.open, g.callMnt("/x/open/inner").Status, "below a directory that all may search")
			assert.Equal(t, tt.private, g.callMnt("/x/private/inner").Status, "below a directory of its owner")
			assert.Equal(t, tt.none, g.callMnt("/x/private/none").Status, "a name in it that does not exist")
		})
	}
}
