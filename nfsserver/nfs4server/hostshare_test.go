package nfs4server

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestSharesOfFiles checks that a client that locks and opens as many files as it may
// leaves others enough to lock files, and to read an open file that was removed.
func TestSharesOfFiles(t *testing.T) {
	const most = 512 // descriptors
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	fs, err := posix.Open(dir, posix.Options{StateDir: t.TempDir(), MaxFiles: most})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fs.Close()) })
	greedy := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: anyClient()}).connectClient().becomeRoot()
	t.Cleanup(greedy.s.Close)
	other := *greedy
	other.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.99:700"), Network: "tcp"}
	other.connectAs("other")
	open := func(g *testServer, name string) (nfs4.FH, nfs4.StateID) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("content"), 0o666))
		o, fh, status := g.openName(openArgs("o", name, nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, status)
		return fh, o.StateID
	}
	n, status := 0, nfs4.OK
	for ; status == nfs4.OK && n < most; n++ {
		fh, id := open(greedy, fmt.Sprint("f", n))
		_, status = greedy.lockFile(fh, lockArgs(id, "l", nfs4.LockRead, 0, 1))
	}
	require.Equal(t, nfs4.ErrDelay, status)
	const opens = most / 2 / 2 / 4 // a File for each direction costs two
	assert.Equal(t, most/4/2+opens, n-1, "half of what all clients may lock, and files that stay open: their locks need no descriptors")
	for i := range most {
		open(greedy, fmt.Sprint("g", i))
	}

	fh, id := open(&other, "mine")
	_, status = other.lockFile(fh, lockArgs(id, "l", nfs4.LockWrite, 0, 1))
	assert.Equal(t, nfs4.OK, status)
	require.NoError(t, os.Remove(filepath.Join(dir, "mine")))
	data, status := other.readFile(fh, id)
	assert.Equal(t, nfs4.OK, status)
	assert.Equal(t, "content", data)
}
