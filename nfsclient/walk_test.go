package nfsclient

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// createTree creates the objects of a tree: "name/" is a directory, "name -> target"
// a symbolic link, "name" a file that contains its own path.
func (g *testServer) createTree(tree ...string) {
	g.t.Helper()
	for _, e := range tree {
		var err error
		if name, target, ok := strings.Cut(e, " -> "); ok {
			err = g.fs.Symlink(g.t.Context(), target, name)
		} else if strings.HasSuffix(e, "/") {
			err = g.fs.Mkdir(g.t.Context(), e, 0o755)
		} else {
			g.putFile(e, []byte(e))
		}
		require.NoError(g.t, err, e)
	}
}

var walkTree = []string{
	"a/", "a/b/", "a/b/f", "f", "x\xff y/", "x\xff y/f",
	"rel -> a/b", "up -> a/../a/b/../b/f", "a/out -> ../f", "a/b/root -> ../../f",
	"abs -> /a/b/f", "a/b/abs -> /f", "absdir -> /a/b/", "dangling -> a/none", "chain -> rel/f",
	"loop -> loop", "ping -> pong", "pong -> ping", "escape -> ../f", "dot -> .", "slash -> f/",
	"long -> ./././/a///b/./f",
}

var walks = []struct {
	path         string
	stat, lstat  string // path of the object found, without links, or ""
	estat, elist error
}{
	{path: "", stat: "/", lstat: "/"},
	{path: "/", stat: "/", lstat: "/"},
	{path: "./.", stat: "/", lstat: "/"},
	{path: "f", stat: "f", lstat: "f"},
	{path: "/f", stat: "f", lstat: "f"},
	{path: "//a//b/./f", stat: "a/b/f", lstat: "a/b/f"},
	{path: "a/", stat: "a", lstat: "a"},
	{path: "a/.", stat: "a", lstat: "a"},
	{path: "a/b/..", stat: "a", lstat: "a"},
	{path: "a/b/../../f", stat: "f", lstat: "f"},
	{path: "x\xff y/f", stat: "x\xff y/f", lstat: "x\xff y/f"},
	{path: "none", estat: nfs3.ErrNoEnt, elist: nfs3.ErrNoEnt},
	{path: "none/f", estat: nfs3.ErrNoEnt, elist: nfs3.ErrNoEnt},
	{path: "a/none/f", estat: fs.ErrNotExist, elist: fs.ErrNotExist},
	{path: "f/", estat: nfs3.ErrNotDir, elist: nfs3.ErrNotDir},
	{path: "f/f", estat: nfs3.ErrNotDir, elist: syscall.ENOTDIR},
	{path: "..", estat: errOutside, elist: errOutside},
	{path: "a/../..", estat: errOutside, elist: errOutside},
	{path: "rel", stat: "a/b", lstat: "rel"},
	{path: "rel/", stat: "a/b", lstat: "a/b"},
	{path: "rel/f", stat: "a/b/f", lstat: "a/b/f"},
	{path: "rel/..", stat: "a", lstat: "a"}, // the parent of the link's target, not of the link
	{path: "up", stat: "a/b/f", lstat: "up"},
	{path: "a/out", stat: "f", lstat: "a/out"},
	{path: "a/b/root", stat: "f", lstat: "a/b/root"},
	{path: "abs", stat: "a/b/f", lstat: "abs"},
	{path: "a/b/abs", stat: "f", lstat: "a/b/abs"},
	{path: "absdir/f", stat: "a/b/f", lstat: "a/b/f"},
	{path: "chain", stat: "a/b/f", lstat: "chain"},
	{path: "dangling", lstat: "dangling", estat: nfs3.ErrNoEnt},
	{path: "dangling/f", estat: nfs3.ErrNoEnt, elist: nfs3.ErrNoEnt},
	{path: "loop", lstat: "loop", estat: syscall.ELOOP},
	{path: "ping", lstat: "ping", estat: syscall.ELOOP},
	{path: "escape", lstat: "escape", estat: errOutside},
	{path: "dot/dot/f", stat: "f", lstat: "f"},
	{path: "slash", lstat: "slash", estat: nfs3.ErrNotDir},
	{path: "long", stat: "a/b/f", lstat: "long"},
}

func TestWalk(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		g.createTree(walkTree...)
		for _, bare := range []bool{false, true} { // attributes only by GETATTR
			g.mem.bare = bare
			for _, tt := range walks {
				n, err := g.fs.Stat(t.Context(), tt.path)
				g.requireNode(tt.path, tt.stat, n, tt.estat, err)
				n, err = g.fs.Lstat(t.Context(), tt.path)
				g.requireNode(tt.path, tt.lstat, n, tt.elist, err)
			}
		}
	})
}

// requireNode checks that a path led to the file system's object at the path want.
func (g *testServer) requireNode(path, want string, n Node, wantErr, err error) {
	g.t.Helper()
	if wantErr != nil {
		var pe *fs.PathError
		require.ErrorAs(g.t, err, &pe, path)
		assert.ErrorIs(g.t, err, wantErr, path)
		assert.Equal(g.t, path, pe.Path)
		return
	}
	require.NoError(g.t, err, path)
	id := uint64(memRoot)
	for name := range strings.SplitSeq(strings.Trim(want, "/"), "/") {
		if d := g.mem.nodes[id]; name != "" {
			require.GreaterOrEqual(g.t, d.findName(name), 0, want)
			id = d.names[d.findName(name)].id
		}
	}
	assert.Equal(g.t, id, n.Attr.FileID, "%q leads elsewhere than to %q", path, want)
}

// TestAbsoluteLinks checks that absolute links below the export's own path stay
// in the export.
func TestAbsoluteLinks(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree("d/", "d/f", "in -> /srv/data/d/f", "all -> //srv///data", "out -> /srv/other/d/f",
		"near -> /srv/database/d/f", "root -> /d/f", "up -> /srv/data/../data/d/f")
	for export, want := range map[string]map[string]error{
		"/srv/data": {"in": nil, "all/d/f": nil, "out": errOutside, "near": errOutside, "root": errOutside, "up": errOutside},
		"/srv/":     {"in": nfs3.ErrNoEnt, "out": nfs3.ErrNoEnt},
		"/":         {"in": nfs3.ErrNoEnt, "root": nil},
		"":          {"in": nfs3.ErrNoEnt, "root": nil},
	} {
		f, err := g.c.FS(t.Context(), g.root, export)
		require.NoError(t, err)
		for path, want := range want {
			_, err := f.Stat(t.Context(), path)
			assert.ErrorIs(t, err, want, "%s of %q", path, export)
		}
	}
}

func TestEmptyLink(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree("f", "l -> x")
	g.waitUntilIdle(nfs3.ProcReadLink, (&nfs3.ReadLinkRes{}).AppendTo(nil))
	_, err := g.fs.Stat(t.Context(), "l")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
}

// TestLinkLimit checks that forty links are followed, and no more.
func TestLinkLimit(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree("l0")
	for i := range maxLinks + 1 {
		g.createTree(fmt.Sprintf("l%d -> l%d", i+1, i))
	}
	_, err := g.fs.Stat(t.Context(), fmt.Sprint("l", maxLinks))
	assert.NoError(t, err)
	_, err = g.fs.Stat(t.Context(), fmt.Sprint("l", maxLinks+1))
	assert.ErrorIs(t, err, syscall.ELOOP)
}

// TestSub checks that paths begin at a directory, and lead out of it only
// within the export.
func TestSub(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree(walkTree...)
	for _, path := range []string{"a/b", "rel", "absdir/", "a/b/../b"} {
		sub, err := g.fs.Sub(t.Context(), path)
		require.NoError(t, err, path)
		for inner, want := range map[string]string{"f": "a/b/f", "/f": "a/b/f", "": "a/b", "..": "a", "../../f": "f", "root": "f"} {
			n, err := sub.Stat(t.Context(), inner)
			g.requireNode(inner, want, n, nil, err)
		}
		assert.Equal(t, g.handleOf(t.Context(), "a/b"), sub.Root())
		assert.Same(t, g.c, sub.Client())
	}
	root, err := g.fs.Sub(t.Context(), "a/..")
	require.NoError(t, err)
	assert.Equal(t, g.root, root.Root())
	for path, want := range map[string]error{"f": nfs3.ErrNotDir, "none": nfs3.ErrNoEnt, "abs": nfs3.ErrNotDir} {
		_, err = g.fs.Sub(t.Context(), path)
		assert.ErrorIs(t, err, want, path)
	}
}

// TestNames checks the calls with one path.
func TestNames(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		ctx := t.Context()
		g.createTree(walkTree...)
		target, err := g.fs.Readlink(ctx, "up")
		assert.NoError(t, err)
		assert.Equal(t, "a/../a/b/../b/f", target)
		_, err = g.fs.Readlink(ctx, "f")
		assert.ErrorIs(t, err, syscall.EINVAL)
		_, err = g.fs.Readlink(ctx, "none")
		assert.ErrorIs(t, err, fs.ErrNotExist)

		require.NoError(t, g.fs.SetAttr(ctx, "abs", modeAttr(0o444)))
		n, err := g.fs.Stat(ctx, "a/b/f")
		assert.NoError(t, err)
		assert.EqualValues(t, 0o444, n.Attr.Mode, "the link's target")
		assert.ErrorIs(t, g.fs.SetAttr(ctx, "none", modeAttr(0)), nfs3.ErrNoEnt)

		require.NoError(t, g.fs.Remove(ctx, "rel"), "the link, not its target")
		assert.ErrorIs(t, g.fs.Remove(ctx, "rel"), nfs3.ErrNoEnt)
		assert.ErrorIs(t, g.fs.Remove(ctx, "a/b"), nfs3.ErrIsDir)
		assert.ErrorIs(t, g.fs.Rmdir(ctx, "a/b"), nfs3.ErrNotEmpty)
		assert.ErrorIs(t, g.fs.Rmdir(ctx, "none/b"), nfs3.ErrNoEnt)
		require.NoError(t, g.fs.Mkdir(ctx, "a/new//", 0o700))
		require.NoError(t, g.fs.Rmdir(ctx, "a/new/"))
		for _, path := range []string{"", "/", ".", "a/..", "a/.", "../.."} {
			assert.ErrorIs(t, g.fs.Mkdir(ctx, path, 0o755), syscall.EINVAL, path)
			assert.ErrorIs(t, g.fs.Remove(ctx, path), syscall.EINVAL, path)
		}
		assert.ErrorIs(t, g.fs.Mkdir(ctx, "f/d", 0o755), nfs3.ErrNotDir)
		assert.ErrorIs(t, g.fs.Mkdir(ctx, "a", 0o755), fs.ErrExist)
	})
}

// TestTwoPaths checks the calls with two paths.
func TestTwoPaths(t *testing.T) {
	g := newTestServer(t, small, true)
	ctx := t.Context()
	g.createTree(walkTree...)
	require.NoError(t, g.fs.Link(ctx, "abs", "a/link"))
	n, err := g.fs.Lstat(ctx, "a/link")
	assert.NoError(t, err)
	assert.Equal(t, nfs3.TypeLnk, n.Attr.Type, "the symbolic link itself has another name")
	require.NoError(t, g.fs.Link(ctx, "f", "rel/g"))
	n, err = g.fs.Stat(ctx, "a/b/g")
	g.requireNode("a/b/g", "f", n, nil, err)
	assert.EqualValues(t, 2, n.Attr.Nlink)

	require.NoError(t, g.fs.Rename(ctx, "rel/g", "f"), "over another name")
	require.NoError(t, g.fs.Rename(ctx, "rel/", "moved"), "the link itself, not its target")
	_, err = g.fs.Lstat(ctx, "rel")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)

	for name, err := range map[string]error{
		"rename": g.fs.Rename(ctx, "none", "x"), "rename to": g.fs.Rename(ctx, "f", "none/x"), "rename from": g.fs.Rename(ctx, "none/f", "x"),
		"link": g.fs.Link(ctx, "none", "x"), "link to": g.fs.Link(ctx, "f", "none/x"), "symlink": g.fs.Symlink(ctx, "f", "none/x"),
	} {
		var le *os.LinkError
		assert.ErrorAs(t, err, &le, name)
		assert.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	assert.ErrorIs(t, g.fs.Symlink(ctx, "f", "a"), fs.ErrExist)
}

func TestFSSizes(t *testing.T) {
	for _, tt := range []struct {
		info              nfs3.FSInfoRes
		cfg               Config
		read, write, list int
	}{
		{nfs3.FSInfoRes{RTMax: 1 << 20, WTMax: 1 << 19, DTPref: 1 << 15}, Config{}, 1 << 20, 1 << 19, 1 << 15},
		{nfs3.FSInfoRes{RTMax: 4 << 20, WTMax: 4 << 20, DTPref: 1 << 20}, Config{}, 1 << 20, 1 << 20, 1 << 16},
		{nfs3.FSInfoRes{RTMax: 4 << 20, WTMax: 1<<32 - 1}, Config{ReadSize: 2 << 20, WriteSize: 1<<32 + 1}, 2 << 20, 1<<32 - 4096, 4096},
		{nfs3.FSInfoRes{RTMax: 10000, WTMax: 100, DTPref: 5000}, Config{}, 8192, 100, 5000},
		{nfs3.FSInfoRes{}, Config{ReadSize: 100}, 100, 4096, 4096},
	} {
		g := newTestServer(t, tt.cfg, true)
		g.waitUntilIdle(nfs3.ProcFSInfo, tt.info.AppendTo(nil))
		f, err := g.c.FS(t.Context(), g.root, "/x")
		require.NoError(t, err)
		assert.Equal(t, []int{tt.read, tt.write, tt.list}, []int{f.readSize, f.writeSize, f.listSize})
	}
	g := newTestServer(t, Config{}, true)
	g.failProc(nfs3.ProcFSInfo, nfs3.ErrStale, 1)
	_, err := g.c.FS(context.Background(), g.root, "/x")
	assert.ErrorIs(t, err, nfs3.ErrStale)
}
