package nfsserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// mount makes one MOUNT call. args and res may be nil.
func (g *rig) mount(proc uint32, args, res message) {
	g.t.Helper()
	msg := g.header(mount3.Program, mount3.Version, proc)
	if args != nil {
		msg = args.AppendTo(msg)
	}
	head, item := g.serve(msg, nil)
	stat, results := g.accept(head)
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

func (g *rig) mnt(path string) mount3.MntRes {
	g.t.Helper()
	var res mount3.MntRes
	g.mount(mount3.ProcMnt, &mount3.PathArgs{Path: []byte(path)}, &res)
	return res
}

func (g *rig) dump() (list []string) {
	g.t.Helper()
	var res mount3.DumpRes
	g.mount(mount3.ProcDump, nil, &res)
	for _, m := range res.Mounts {
		list = append(list, string(m.Host)+" "+string(m.Path))
	}
	return list
}

func (g *rig) from(addr string) {
	g.peer = &oncrpc.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 700)}
}

// mountRig exports /x, which has the directory d with the directory e in it,
// /x/d/y, and /z for two networks.
func mountRig(t *testing.T) (*rig, map[vfs.Type]nfs3.FH, nfs3.FH) {
	g, _, fh := scene(t, func(c *Config) {
		c.Exports = append(c.Exports,
			Export{Path: "/x/d/y", FS: newMemFS()},
			Export{Path: "/z", FS: newMemFS(), Clients: hosts(exports.Options{}, "10.0.0.0/8", "2001:db8::/32")})
	})
	var made nfs3.MakeRes
	g.call(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: in(g.fh(sceneDir), "e")}, &made)
	return g, fh, append(nfs3.FH{}, made.Object...)
}

func TestMnt(t *testing.T) {
	g, fh, deep := mountRig(t)
	long := "/x/" + strings.Repeat("n", 256)
	for path, want := range map[string]struct {
		status mount3.Status
		fh     nfs3.FH
	}{
		"/x":           {0, fh[vfs.TypeDir]},
		"/x/":          {0, fh[vfs.TypeDir]},
		"//x/./":       {0, fh[vfs.TypeDir]},
		"/x/d":         {0, g.fh(sceneDir)},
		"/x/d/e":       {0, deep},
		"/x/d/../d/e/": {0, deep},
		"/x/d/y":       {0, g.fh(memRoot, 1)}, // the export with the longest path
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
		res := g.mnt(path)
		assert.Equal(t, want.status, res.Status, "%.20q", path)
		assert.Equal(t, string(want.fh), string(res.Handle), "%.20q", path)
		if want.status == mount3.OK {
			assert.Equal(t, []uint32{1}, res.Flavors, "AUTH_SYS")
		}
	}
	g.from("10.9.8.7")
	assert.Equal(t, mount3.OK, g.mnt("/z").Status)
	g.authNone = true
	assert.Equal(t, mount3.OK, g.mnt("/z").Status)
}

func TestMntRootExport(t *testing.T) {
	g, _, _ := scene(t, func(c *Config) { c.Exports[0].Path = "/" })
	assert.Equal(t, string(g.fh(sceneDir)), string(g.mnt("/d").Handle))
	assert.Equal(t, string(g.fh(memRoot)), string(g.mnt("/").Handle))
}

func TestMntNestedExports(t *testing.T) {
	g, _, _ := scene(t, func(c *Config) {
		c.Exports[0].Path = "/a/b"
		c.Exports = append(c.Exports, Export{Path: "/a", FS: newMemFS()})
	})
	assert.Equal(t, string(g.fh(memRoot)), string(g.mnt("/a/b").Handle))
	assert.Equal(t, string(g.fh(memRoot, 1)), string(g.mnt("/a").Handle))
}

// TestReferralByVersion3 checks that version 3, which has no referrals, finds nothing in
// an export that is on other servers, also not through the export above.
func TestReferralByVersion3(t *testing.T) {
	options := exports.Options{Insecure: true}
	g, _, fh := scene(t, func(c *Config) {
		c.Exports[0].Path = "/x/d"
		c.Exports = append(c.Exports, Export{Path: "/x", FS: newMemFS()})
	})
	list := g.server.realm.Exports()
	assert.Equal(t, mount3.OK, g.mnt("/x/d").Status)
	assert.Equal(t, nfs3.OK, g.status(fh[vfs.TypeReg]))
	var err error
	options.Refer, err = exports.ParseLocations("/there@192.0.2.9")
	require.NoError(t, err)
	list[0].Clients = exports.Everyone(options)
	require.NoError(t, g.server.SetExports(list))
	for _, path := range []string{"/x/d", "/x/d/d"} {
		assert.Equal(t, mount3.ErrAcces, g.mnt(path).Status, path)
	}
	assert.Equal(t, mount3.OK, g.mnt("/x").Status)
	assert.Equal(t, nfs3.ErrStale, g.status(fh[vfs.TypeReg]))
}

// A followFS wrongly follows symbolic links in Lookup.
type followFS struct{ *memFS }

func (f followFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	if dir == memHandle(sceneLink) {
		dir = memHandle(memRoot)
	}
	return f.memFS.Lookup(ctx, c, dir, name)
}

func TestMntFollowsNoLink(t *testing.T) {
	g, _, _ := scene(t, func(c *Config) { c.Exports[0].FS = followFS{c.Exports[0].FS.(*memFS)} })
	assert.Equal(t, mount3.OK, g.mnt("/x/d").Status)
	assert.Equal(t, mount3.ErrNotDir, g.mnt("/x/l/d").Status)
}

func TestMntFailure(t *testing.T) {
	g, fs, _ := scene(t)
	fs.fail = syscall.EIO
	assert.Equal(t, mount3.ErrIO, g.mnt("/x/d").Status)
	assert.Empty(t, g.log.String())
	fs.fail = syscall.EDOM
	assert.Equal(t, mount3.ErrIO, g.mnt("/x/d").Status)
	assert.Contains(t, g.log.String(), "path=d")
	assert.Empty(t, g.dump())
}

func TestMountArguments(t *testing.T) {
	g := newRig(t, newMemFS())
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
		head, _ := g.serve(append(g.header(mount3.Program, 3, tt.proc), tt.args...), nil)
		stat, _ := g.accept(head)
		assert.EqualValues(t, 4, stat, "GARBAGE_ARGS")
	}
}

func TestDump(t *testing.T) {
	g, _, _ := mountRig(t)
	g.mnt("/x/d/")
	g.mnt("/x/d")
	g.mnt("/x")
	g.mnt("/w")
	g.from("::ffff:10.0.0.1")
	g.mnt("/z")
	g.mnt("/x")
	assert.Equal(t, []string{"192.0.2.1 /x/d", "192.0.2.1 /x", "10.0.0.1 /z", "10.0.0.1 /x"}, g.dump())
	g.mount(mount3.ProcUmnt, &mount3.PathArgs{Path: []byte("/x/")}, nil)
	g.mount(mount3.ProcUmnt, &mount3.PathArgs{Path: []byte("/unknown")}, nil)
	assert.Equal(t, []string{"192.0.2.1 /x/d", "192.0.2.1 /x", "10.0.0.1 /z"}, g.dump())
	g.from("192.0.2.1")
	g.mount(mount3.ProcUmntAll, nil, nil)
	assert.Equal(t, []string{"10.0.0.1 /z"}, g.dump())
}

func TestDumpIsBounded(t *testing.T) {
	var l mountList
	for i := range maxMounts + 10 {
		l.add("host", fmt.Sprint("/", i))
	}
	assert.Len(t, l.entries, maxMounts)
	assert.Equal(t, "/10", l.entries[0].path, "the oldest made room")

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
	g, _, _ := mountRig(t)
	var res mount3.ExportRes
	g.mount(mount3.ProcExport, nil, &res)
	assert.Equal(t, []mount3.Export{
		{Path: []byte("/x")},
		{Path: []byte("/x/d/y")},
		{Path: []byte("/z"), Groups: [][]byte{[]byte("10.0.0.0/8"), []byte("2001:db8::/32")}},
	}, res.Exports)
	g.maxReply = 24 + 16 + mount3.ListEnd - 1 // /x has 16 bytes
	g.mount(mount3.ProcExport, nil, &res)
	assert.Len(t, res.Exports, 0)
	g.maxReply = 24 + 16 + mount3.ListEnd
	g.mount(mount3.ProcExport, nil, &res)
	assert.Len(t, res.Exports, 1)
}

func TestMountPeerless(t *testing.T) {
	g := newRig(t, newMemFS())
	g.peer = nil
	assert.Equal(t, mount3.OK, g.mnt("/x").Status)
	assert.Equal(t, []string{" /x"}, g.dump())
}
