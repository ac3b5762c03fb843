package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// TestIdentity checks that a directory keeps its identity even if its path
// has been redirected since.
func TestIdentity(t *testing.T) {
	s, err := openState(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	of := func(path, root string) uint32 {
		t.Helper()
		var b []byte
		if root != "" {
			b = []byte(root)
		}
		id, err := s.assignIdentity(path, b)
		require.NoError(t, err)
		return id
	}
	own := hash32([]byte("/data"))
	assert.Equal(t, own, of("/data", "a"), "the first keeps its identity from before the record")
	assert.Equal(t, own, of("/data", ""), "a directory without an identity")
	b := of("/data", "b")
	assert.NotEqual(t, own, b)
	c := of("/data", "c")
	assert.NotContains(t, []uint32{own, b}, c)
	assert.Equal(t, hash32([]byte("/other")), of("/other", "b"), "an export is its path, too")
	latin := of("/donn\xe9es", "a")
	assert.NotEqual(t, latin, of("/donn\xe9es", "b"), "a name that is not UTF-8")
	assert.Equal(t, latin, of("/donn\xe9es", "a"))
	for range 2 {
		assert.Equal(t, own, of("/data", "a"))
		assert.Equal(t, b, of("/data", "b"))
		assert.Equal(t, c, of("/data", "c"))
		require.NoError(t, s.Close())
		s, err = openState(s.dir)
		require.NoError(t, err)
	}
	name := filepath.Join(s.dir, "identities")
	require.NoError(t, os.Remove(name))
	assert.Equal(t, own, of("/data", "a"), "as at the first start")
	require.NoError(t, os.WriteFile(name, []byte("nonsense"), 0o600))
	_, err = s.assignIdentity("/data", []byte("a"))
	assert.ErrorContains(t, err, "restore a backup")
	require.NoError(t, os.Remove(name))
	require.NoError(t, os.Mkdir(name+".new", 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(name+".new", "x"), 0o700))
	_, err = s.assignIdentity("/data", []byte("a"))
	assert.ErrorContains(t, err, "--state", "an identity without a record is not used")
}

// TestSubmountIdentity checks that each directory that is mounted at a path keeps an identity of its own
// without a record.
func TestSubmountIdentity(t *testing.T) {
	s, err := openState(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	of := func(path, root string) uint32 {
		t.Helper()
		id, err := s.identifySubmount(path, []byte(root))
		require.NoError(t, err)
		return id
	}
	own := hash32([]byte("/data/m"))
	a, b := of("/data/m", "a"), of("/data/m", "b")
	assert.Len(t, map[uint32]bool{own: true, a: true, b: true, of("/data/n", "a"): true}, 4)
	for i := range 10_000 {
		of(fmt.Sprint("/data/", i), "a")
	}
	assert.NoFileExists(t, s.identitiesFile())

	export, err := s.assignIdentity("/data/m", []byte("c"))
	require.NoError(t, err)
	assert.Equal(t, []uint32{own, a, b}, []uint32{export, of("/data/m", "a"), of("/data/m", "b")}, "the path has become an export")
	assert.Equal(t, own, of("/data/m", "c"), "the export has become a submount")
	id, err := s.identifySubmount("/data/m", nil)
	require.NoError(t, err)
	assert.Equal(t, own, id, "a directory without an identity")

	require.NoError(t, s.writeIdentities([]exportIdentity{{Export: "/x", Root: "00", ID: a}}))
	assert.NotContains(t, []uint32{own, a}, of("/data/m", "a"), "an ID that another export has had")
	require.NoError(t, os.WriteFile(s.identitiesFile(), []byte("nonsense"), 0o600))
	_, err = s.identifySubmount("/data/m", []byte("a"))
	assert.ErrorContains(t, err, "restore a backup")
}

// TestAutomountIdentity checks that an automount's last identity is recorded as long as the automount is
// there, and that its removal gives the identity to nothing else.
func TestAutomountIdentity(t *testing.T) {
	s, err := openState(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	there := map[string]bool{"/auto/1": true, "/auto/2": true}
	of := func(path, root string) uint32 {
		t.Helper()
		id, err := s.assignAutomountIdentity(path, []byte(root), func(name string) bool { return there[name] })
		require.NoError(t, err)
		return id
	}
	recorded := func() (paths []string) {
		list, err := s.readIdentities()
		require.NoError(t, err)
		for _, i := range list {
			paths = append(paths, i.Export)
		}
		return paths
	}
	_, err = s.assignIdentity("/data", []byte("a"))
	require.NoError(t, err)
	a := of("/auto/1", "a")
	b := of("/auto/1", "b")
	of("/auto/2", "a")
	assert.Equal(t, []string{"/data", "/auto/1", "/auto/2"}, recorded(), "only the last of each")
	assert.Equal(t, b, s.lastIDs()["/auto/1"])
	assert.Equal(t, a, of("/auto/1", "a"))
	assert.Equal(t, a, s.lastIDs()["/auto/1"])

	there = map[string]bool{"/auto/3": true}
	of("/auto/3", "a")
	assert.Equal(t, []string{"/data", "/auto/3"}, recorded(), "the others have gone, and the export has not")
	there = map[string]bool{"/auto/1": true, "/auto/3": true}
	assert.Equal(t, []uint32{a, b}, []uint32{of("/auto/1", "a"), of("/auto/1", "b")})
	assert.NotContains(t, []uint32{a, b}, of("/auto/1", "c"))

	c, err := s.assignIdentity("/auto/1", []byte("c"))
	require.NoError(t, err)
	assert.Equal(t, of("/auto/1", "c"), c, "the automount has become an export")
	there = nil
	of("/auto/4", "a")
	assert.Equal(t, []string{"/data", "/auto/1", "/auto/4"}, recorded())
}

// TestRepointed checks that handles of one directory are not valid for another
// directory at the same path.
func TestRepointed(t *testing.T) {
	base, state := t.TempDir(), t.TempDir()
	for _, d := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, d), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(base, d, "file"), []byte("in "+d), 0o644))
	}
	fs, err := posix.Open(base, posix.Options{})
	require.NoError(t, err)
	lasting := fs.RootID() != nil
	require.NoError(t, fs.Close())
	if !lasting {
		t.Skip("the file system here does not identify directories: ", base)
	}
	link := filepath.Join(base, "current")
	read := func(dir string, fh nfs3.FH) (now nfs3.FH, content string, err error) {
		t.Helper()
		_ = os.Remove(link)
		require.NoError(t, os.Symlink(dir, link))
		t.Run(dir, func(t *testing.T) { // the daemon ends with the subtest
			s := startDaemon(t, "--state", state, "--listen", "127.0.0.1:0", "--tcp", "", link+"=/x")
			c, derr := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), s.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{})
			require.NoError(t, derr)
			defer c.Close()
			client, _, file := mountFile(t, c)
			now = slices.Clone(file)
			if fh == nil {
				fh = now
			}
			var res nfs3.ReadRes
			res, err = client.Read(t.Context(), fh, 0, make([]byte, 100))
			content = string(res.Data)
		})
		return now, content, err
	}
	a, content, err := read("a", nil)
	require.NoError(t, err)
	assert.Equal(t, "in a", content)
	b, _, err := read("b", a)
	assert.ErrorIs(t, err, nfs3.ErrStale)
	_, content, err = read("a", a)
	require.NoError(t, err)
	assert.Equal(t, "in a", content)
	_, _, err = read("a", b)
	assert.ErrorIs(t, err, nfs3.ErrStale)
	_, content, err = read("b", b)
	require.NoError(t, err)
	assert.Equal(t, "in b", content)
}
