package nfsclient

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// createFiles creates n empty files in the file system's root, and returns their
// names.
func (g *testServer) createFiles(n int) (names []string) {
	g.mem.mu.Lock()
	defer g.mem.mu.Unlock()
	for i := range n {
		names = append(names, fmt.Sprintf("file-%04d", i))
		g.mem.addName(g.mem.nodes[memRoot], names[i], g.mem.newNode(1))
	}
	return names
}

// touchFile invalidates all cookies for the root.
func (g *testServer) touchFile() {
	g.mem.mu.Lock()
	defer g.mem.mu.Unlock()
	g.mem.nodes[memRoot].attr.Mtime = g.mem.nextTime()
}

// readDir returns the names in a directory, up to the first error.
func (g *testServer) readDir(path string) (names []string, err error) {
	for e, err := range g.fs.ReadDir(g.t.Context(), path) {
		if err != nil {
			return names, err
		}
		names = append(names, e.Name)
		assert.True(g.t, e.Attr.OK)
		assert.Equal(g.t, e.FileID, e.Attr.Attr.FileID)
		assert.NotNil(g.t, e.Handle)
	}
	return names, nil
}

func TestReadDir(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		want := g.createFiles(700)
		g.createTree("d/", "l -> d")
		want = append(want, "d", "l")
		for _, bare := range []bool{false, true} {
			g.mem.bare = bare
			for _, path := range []string{"", "d/.."} {
				names, err := g.readDir(path)
				require.NoError(t, err)
				assert.Equal(t, want, names)
			}
			names, err := g.readDir("l")
			assert.NoError(t, err)
			assert.Empty(t, names)
		}
		assert.Greater(t, g.callCount(nfs3.ProcReadDirPlus), 6)
		assert.Zero(t, g.callCount(nfs3.ProcReadDir))
		for path, want := range map[string]error{"none": fs.ErrNotExist, "file-0000": nfs3.ErrNotDir} {
			_, err := g.readDir(path)
			var pe *fs.PathError
			assert.ErrorAs(t, err, &pe)
			assert.ErrorIs(t, err, want)
		}
	})
}

// TestReadNames checks that only READDIR is called, even if cookies become
// invalid.
func TestReadNames(t *testing.T) {
	g := newTestServer(t, small, true)
	want := g.createFiles(3000)
	var names []string
	for e, err := range g.fs.ReadNames(t.Context(), "") {
		require.NoError(t, err)
		assert.Nil(t, e.Handle)
		assert.False(t, e.Attr.OK)
		assert.NotZero(t, e.FileID)
		if names = append(names, e.Name); len(names) == 1000 {
			g.touchFile()
		}
	}
	assert.Equal(t, want, names)
	assert.Greater(t, g.callCount(nfs3.ProcReadDir), 3)
	assert.Zero(t, g.callCount(nfs3.ProcReadDirPlus)+g.callCount(nfs3.ProcLookup))
	for e, err := range g.fs.ReadNames(t.Context(), "none") {
		assert.ErrorIs(t, err, fs.ErrNotExist, e)
	}
}

// TestReadDirPlain checks that without READDIRPLUS the entries are looked up,
// and that READDIRPLUS is not tried again.
func TestReadDirPlain(t *testing.T) {
	g := newTestServer(t, small, true)
	want := g.createFiles(500)
	g.createTree("sub/")
	g.failProc(nfs3.ProcReadDirPlus, nfs3.ErrNotSupp, 1)
	names, err := g.readDir("/")
	require.NoError(t, err)
	assert.Equal(t, append(want, "sub"), names)
	sub, err := g.fs.Sub(t.Context(), "sub")
	require.NoError(t, err)
	for range sub.ReadDir(t.Context(), "..") {
		break
	}
	assert.Zero(t, g.callCount(nfs3.ProcReadDirPlus))
	assert.NotZero(t, g.callCount(nfs3.ProcReadDir))
}

// TestReadDirUnknown checks that entries removed before their lookup are
// dropped, that entries whose LOOKUP fails stay, and that a lost connection
// stops the listing.
func TestReadDirUnknown(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createFiles(3)
	g.mem.bare = true
	var fail func(name string) ([]byte, error)
	g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Proc != nfs3.ProcLookup {
			return nil, nil
		}
		var a nfs3.DirOpArgs
		r := xdr.NewReader(x.Args)
		a.Decode(&r)
		return fail(string(a.Name))
	}
	fail = func(name string) ([]byte, error) {
		switch name {
		case "file-0000":
			return failingCaller(nfs3.ProcLookup, nfs3.ErrNoEnt), nil
		case "file-0001":
			return failingCaller(nfs3.ProcLookup, nfs3.ErrAcces), nil
		}
		return nil, nil
	}
	var names []string
	for e, err := range g.fs.ReadDir(t.Context(), "") {
		require.NoError(t, err)
		names = append(names, e.Name)
		assert.Equal(t, e.Name == "file-0002", e.Attr.OK && e.Handle != nil)
	}
	assert.Equal(t, []string{"file-0001", "file-0002"}, names)
	fail = func(string) ([]byte, error) { return nil, fs.ErrClosed }
	_, err := g.readDir("")
	assert.ErrorIs(t, err, fs.ErrClosed)
}

// TestReadDirRestart checks that each entry is returned once although the
// directory changes and the server forgets its cookies.
func TestReadDirRestart(t *testing.T) {
	g := newTestServer(t, Config{}, true)
	g.fs.listSize = 4096
	want := g.createFiles(1000)
	var names []string
	for e, err := range g.fs.ReadDir(t.Context(), "") {
		require.NoError(t, err)
		names = append(names, e.Name)
		if len(names)%40 == 0 && len(names) < 900 {
			require.NoError(t, g.fs.Remove(t.Context(), names[len(names)-2]))
			g.createTree(fmt.Sprint("new-", len(names)))
		}
	}
	for n := 40; n < 900; n += 40 {
		want = append(want, fmt.Sprint("new-", n))
	}
	assert.Equal(t, want, names)
	assert.Greater(t, g.callCount(nfs3.ProcReadDirPlus), 10*maxRestarts)
}

// TestReadDirRestartsEnd checks that a listing without progress stops.
func TestReadDirRestartsEnd(t *testing.T) {
	g := newTestServer(t, Config{}, true)
	g.fs.listSize = 4096
	g.createFiles(300)
	g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Proc == nfs3.ProcReadDirPlus {
			g.touchFile()
		}
		return nil, nil
	}
	names, err := g.readDir("")
	assert.ErrorIs(t, err, nfs3.ErrBadCookie)
	assert.NotEmpty(t, names)
	assert.Equal(t, slices.Compact(slices.Clone(names)), names)
	assert.Equal(t, 1+2*maxRestarts+1, g.callCount(nfs3.ProcReadDirPlus))

	g.failProc(nfs3.ProcReadDirPlus, nfs3.ErrBadCookie, 1)
	_, err = g.readDir("")
	assert.ErrorIs(t, err, nfs3.ErrBadCookie, "of the beginning itself")
}

// TestReadDirTooLong checks that a listing too long to be remembered is not
// restarted.
func TestReadDirTooLong(t *testing.T) {
	s := dirScan{seen: make([]uint64, maxSeen-1)}
	for i := range 3 {
		require.NoError(t, s.addEntry(&nfs3.Entry{Name: fmt.Append(nil, i)}))
		assert.Equal(t, i > 0, s.tooManyNames)
	}
	assert.Len(t, s.seen, maxSeen)
	assert.Len(t, s.entries, 3)

	g := newTestServer(t, Config{}, true)
	g.fs.listSize = 4096
	g.createFiles(300)
	s = dirScan{f: g.fs, dir: g.root}
	require.NoError(t, s.readPage(t.Context()))
	s.tooManyNames = true
	g.touchFile()
	assert.ErrorIs(t, s.readPage(t.Context()), nfs3.ErrBadCookie)
}

// fakeListing replies to READDIRPLUS with the given names.
func (w *fakeConn) fakeListing(eof bool, names ...string) {
	d := nfs3.NewDirWriter(nil, true, 8192, 8192)
	for i, name := range names {
		d.Add(&nfs3.Entry{Name: []byte(name), Cookie: uint64(i + 1), Handle: rootFH, Attr: nfs3.PostOpAttr{OK: true, Attr: nfs3.Attr{Type: nfs3.TypeReg}}})
	}
	w.waitUntilIdle(nfs3.ProcReadDirPlus, d.Finish(&nfs3.PostOpAttr{}, 1, eof))
}

// TestReadDirHostile checks that listed names cannot lead a caller to another
// directory, and that a hostile listing stops.
func TestReadDirHostile(t *testing.T) {
	g := newTestServer(t, small, true)
	for _, name := range []string{"", "/", "a/b", "../x", "a\x00b", "/etc/passwd"} {
		g.fakeListing(true, "good", name, "good2")
		names, err := g.readDir("")
		assert.ErrorIs(t, err, ErrReply, name)
		assert.ErrorIs(t, err, errInvalidName)
		assert.Empty(t, names)
	}
	g.fakeListing(true, ".", "..", "...", "a b", "\xff")
	names := []string{}
	for e, err := range g.fs.ReadDir(t.Context(), "") {
		require.NoError(t, err)
		names = append(names, e.Name)
	}
	assert.Equal(t, []string{"...", "a b", "\xff"}, names)

	g.fakeListing(false)
	_, err := g.readDir("")
	assert.ErrorIs(t, err, ErrReply)
	assert.ErrorContains(t, err, "does not advance")
	calls := 0
	for _, err = range g.fs.ReadDir(t.Context(), "") {
		calls++
	}
	assert.Error(t, err)
	assert.Equal(t, 1, calls, "the error is the last of the sequence")
}
