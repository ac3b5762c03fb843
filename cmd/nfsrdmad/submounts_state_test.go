package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestStateInSubmount unmounts a file system below an export in which an NFSv4 client has a file open
// and locked, and mounts it again: the client has lost both, and nothing else, and another client locks
// the file.
//
// R8881-8.5-1.
func TestStateInSubmount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newSubmountStateTest(t)
		s, h := dialV4(t, g.server), nfs4.FH(nil)
		open := func(s *nfs4client.Session, dir string) (f *nfs4client.File) {
			t.Helper()
			require.Eventually(t, func() (done bool) {
				at, err := s.Walk(t.Context(), dir)
				if err != nil {
					return false
				}
				h = slices.Clone(at)
				f, err = s.Open(t.Context(), h, "f", nfs4client.OpenFlags{Read: true, Write: true})
				return err == nil
			}, 30*time.Second, 10*time.Millisecond)
			return f
		}
		lock := func(f *nfs4client.File) {
			t.Helper()
			require.Eventually(t, func() bool { return f.Lock(t.Context(), nfs4client.Range{End: 9}, true) == nil }, 30*time.Second, 10*time.Millisecond)
		}
		inside, outside := open(s, g.dir+"/m"), open(s, g.dir)
		lock(inside)
		lock(outside)
		nstest.Script(t, "umount "+g.dir+"/m")
		require.Eventually(t, func() bool {
			_, err := inside.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
			return err != nil
		}, 30*time.Second, 10*time.Millisecond)
		_, err := inside.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
		assert.ErrorIs(t, err, nfs4.ErrStale)
		require.NoError(t, s.Sequence(t.Context()))
		assert.NotZero(t, s.Flags()&nfs4.SeqAdminStateRevoked)
		_, err = outside.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
		assert.NoError(t, err)

		g.mount()
		again := open(dialV4(t, g.server), g.dir+"/m")
		lock(again)
		_, err = again.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
		assert.NoError(t, err)
		_, err = inside.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
		assert.ErrorIs(t, err, nfs4client.ErrRevoked)
		_, err = outside.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
		assert.NoError(t, err)
	})
}

// TestCountersInSubmount unmounts a file system below an export whose root a client holds by delegation
// counters, and mounts it again: the server takes the delegation back, and grants another one.
func TestCountersInSubmount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newSubmountStateTest(t)
		cfg, ends := newExtensionConfig(false)
		cfg.Delegation = true
		c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), g.server.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{Extensions: cfg})
		require.NoError(t, err)
		defer c.Close()
		receiveSoon(t, ends)
		find := func() []byte {
			x := callAnonymously(t, c, mount3.Program, mount3.Version, mount3.ProcMnt, (&mount3.PathArgs{Path: []byte(g.dir + "/m")}).AppendTo(nil))
			defer x.Release()
			var mnt mount3.MntRes
			mnt.Decode(&x.Results)
			require.Equal(t, mount3.OK, mnt.Status)
			return slices.Clone(mnt.Handle)
		}
		root := find()
		acquire := func() delegation.Status {
			a := delegation.AcquireArgs{Handle: root, Types: delegation.Directory}
			x := callAnonymously(t, c, delegation.Program, delegation.Version, delegation.ProcAcquire, a.AppendTo(nil))
			defer x.Release()
			var res delegation.AcquireRes
			res.Decode(&x.Results)
			return res.Status
		}
		require.Equal(t, delegation.StatusOK, acquire())
		require.Equal(t, 1, getStatus(t, g.control).Grants.InForce)
		nstest.Script(t, "umount "+g.dir+"/m")
		require.Eventually(t, func() bool { return getStatus(t, g.control).Grants.InForce == 0 }, 30*time.Second, 10*time.Millisecond)
		assert.NotEqual(t, delegation.StatusOK, acquire())

		g.mount()
		require.Eventually(t, func() bool { return acquire() == delegation.StatusOK }, 30*time.Second, 10*time.Millisecond)
		assert.Equal(t, string(root), string(find()))
	})
}

// A submountStateTest is a daemon that exports a directory with a file system mounted on m.
type submountStateTest struct {
	t            *testing.T
	dir, control string
	server       *testDaemon
}

func newSubmountStateTest(t *testing.T) *submountStateTest {
	t.Helper()
	base := t.TempDir()
	g := &submountStateTest{t: t, dir: filepath.Join(base, "srv"), control: filepath.Join(base, "control")}
	nstest.Script(t, "cd "+base+"; mkdir -p srv/m backing; touch srv/f backing/f; chmod -R a+rwX srv backing")
	g.mount()
	t.Cleanup(func() { nstest.Script(t, "umount "+g.dir+"/m") })
	file := writeExports(t, base, g.dir+" *(rw,insecure,crossmnt,no_root_squash,exclusive)\n")
	g.server = startDaemon(t, "--exports", file, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--lease", "3s", "--control", g.control)
	return g
}

func (g *submountStateTest) mount() {
	g.t.Helper()
	require.NoError(g.t, os.MkdirAll(g.dir, 0o755))
	nstest.Script(g.t, "cd "+g.dir+"; mount --bind ../backing m")
}
