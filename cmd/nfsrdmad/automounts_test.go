package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/autofstest"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// An automountTest is a daemon that exports a directory with automounts.
type automountTest struct {
	*autofstest.Automounter
	t                *testing.T
	dir, state, file string
}

func newAutomountTest(t *testing.T, names ...string) *automountTest {
	base := t.TempDir()
	dir := filepath.Join(base, "srv")
	for _, d := range []string{dir, filepath.Join(base, "backing")} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "gone") {
			require.NoError(t, os.Mkdir(filepath.Join(base, "backing", name), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(base, "backing", name, "file"), []byte("in "+name), 0o644))
		}
	}
	return &automountTest{
		Automounter: autofstest.New(t, dir, names...), t: t, dir: dir, state: t.TempDir(),
		file: writeExports(t, base, dir+" *(rw,insecure,crossmnt,no_root_squash)\n"),
	}
}

// serve runs test with a daemon, which it returns after its end, and an NFSv3 client's handle of the
// export.
func (g *automountTest) serve(what string, test func(t *testing.T, d *testDaemon, c *nfsclient.Client, root nfs3.FH)) (d *testDaemon) {
	g.t.Run(what, func(t *testing.T) {
		d = startDaemon(t, "--state", g.state, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--exports", g.file)
		conn, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), d.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{})
		require.NoError(t, err)
		defer conn.Close()
		root, err := nfsclient.NewMount(conn, nil).Mnt(t.Context(), g.dir)
		require.NoError(t, err)
		test(t, d, nfsclient.New(conn, nfsclient.Config{Patience: -1}), slices.Clone(root))
	})
	return d
}

// eventually repeats call while its error means that the client must try again.
func eventually(t *testing.T, call func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = call()
		return !errors.Is(err, nfs3.ErrJukebox)
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, err)
}

func lookupFH(t *testing.T, c *nfsclient.Client, dir nfs3.FH, name string) nfs3.FH {
	t.Helper()
	var res nfs3.LookupRes
	eventually(t, func() (err error) {
		res, err = c.Lookup(t.Context(), dir, name)
		return err
	})
	return slices.Clone(res.Object)
}

func listNames(t *testing.T, c *nfsclient.Client, dir nfs3.FH) (names []string, err error) {
	_, _, err = c.ReadDirPlus(t.Context(), &nfs3.ReadDirPlusArgs{Dir: dir, DirCount: 1 << 16, MaxCount: 1 << 16}, func(e *nfs3.Entry) {
		names = append(names, string(e.Name))
	})
	return names, err
}

func readString(t *testing.T, c *nfsclient.Client, file nfs3.FH) string {
	t.Helper()
	var content string
	eventually(t, func() error {
		res, err := c.Read(t.Context(), file, 0, make([]byte, 100))
		content = string(res.Data)
		return err
	})
	return content
}

// TestAutomounts checks that clients trigger the automounts below an export when they use them, but not
// when they list the directory above; that their handles survive expiry and a restart, whether the file
// system is mounted or not.
func TestAutomounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		names := []string{"v3", "v4"}
		for i := range 100 {
			names = append(names, fmt.Sprint("other", i))
		}
		g := newAutomountTest(t, names...)
		var point, file nfs3.FH
		g.serve("first", func(t *testing.T, d *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			listed, err := listNames(t, c, root)
			require.NoError(t, err)
			fsids := make(map[uint64]bool)
			for _, name := range listed {
				res, err := c.Lookup(t.Context(), root, name)
				require.NoError(t, err, name)
				attr, err := c.GetAttr(t.Context(), res.Object)
				require.NoError(t, err, name)
				assert.Equal(t, nfs3.TypeDir, attr.Type)
				fsids[attr.FSID] = true
			}
			assert.Len(t, fsids, 1+len(names), "each is a file system")
			s := dialV4(t, d)
			h, err := s.Walk(t.Context(), g.dir+"/v4")
			require.NoError(t, err)
			h = slices.Clone(h)
			assert.Zero(t, g.Total(), "ls -l triggers nothing")

			point = lookupFH(t, c, root, "v3")
			var inside []string
			eventually(t, func() (err error) {
				inside, err = listNames(t, c, point)
				return err
			})
			assert.Contains(t, inside, "file")
			assert.Equal(t, string(point), string(lookupFH(t, c, root, "v3")), "the mount point keeps its handle")
			file = lookupFH(t, c, point, "file")
			assert.Equal(t, "in v3", readString(t, c, file))
			assert.Equal(t, string(root), string(lookupFH(t, c, point, "..")))

			f, err := s.Open(t.Context(), h, "file", nfs4client.OpenFlags{Read: true})
			for end := time.Now().Add(30 * time.Second); errors.Is(err, nfs4.ErrDelay) && time.Now().Before(end); {
				f, err = s.Open(t.Context(), h, "file", nfs4client.OpenFlags{Read: true})
			}
			require.NoError(t, err)
			assert.NoError(t, f.Close(t.Context()))
			assert.Equal(t, []int{1, 1, 2}, []int{g.Count("v3"), g.Count("v4"), g.Total()})

			g.Expire("v3")
			require.Eventually(t, func() bool {
				_, err := c.GetAttr(t.Context(), file)
				return errors.Is(err, nfs3.ErrJukebox)
			}, 30*time.Second, time.Millisecond, "the handle is not stale")
			assert.Equal(t, "in v3", readString(t, c, file))
			assert.Equal(t, 2, g.Count("v3"))
		})
		g.serve("mounted", func(t *testing.T, _ *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			assert.Equal(t, "in v3", readString(t, c, file))
			assert.Equal(t, string(point), string(lookupFH(t, c, root, "v3")))
			assert.Equal(t, 2, g.Count("v3"))
		})
		g.Expire("v3")
		g.serve("unmounted", func(t *testing.T, _ *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			_, err := listNames(t, c, root)
			require.NoError(t, err)
			assert.Equal(t, 2, g.Count("v3"))
			assert.Equal(t, "in v3", readString(t, c, file))
			attr, err := c.GetAttr(t.Context(), point)
			require.NoError(t, err)
			g.Expire("v3")
			require.Eventually(t, func() bool {
				res, err := c.Lookup(t.Context(), root, "v3")
				return err == nil && string(res.Object) == string(point) && res.ObjAttr.Attr.FileID == attr.FileID && res.ObjAttr.Attr.FSID == attr.FSID
			}, 30*time.Second, time.Millisecond, "clients see the same root")
			assert.Equal(t, 3, g.Count("v3"))
		})
	})
}

func dialV4(t *testing.T, d *testDaemon) *nfs4client.Session {
	t.Helper()
	s, err := nfsrdma.DialV4(t.Context(), d.transportAddr(t, "tcp"), nfs4.Minor2, nfsrdma.ClientConfig{TCP: true})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(t.Context()) })
	return s
}

// TestSetACLOfAutomount checks that a client which sets an access control list of a mount point triggers
// the automount: Linux would take an error to mean that no file system of the server has lists.
func TestSetACLOfAutomount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newAutomountTest(t, "m", "m4")
		g.serve("daemon", func(t *testing.T, d *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			conn, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), d.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{})
			require.NoError(t, err)
			defer conn.Close()
			a := nfsacl.SetACLArgs{Object: lookupFH(t, c, root, "m")}
			status, _ := callForStatus(t, conn, nfsacl.Program, nfsacl.Version, nfsacl.ProcSetACL, a.AppendTo(nil))
			assert.Equal(t, nfs3.ErrJukebox, nfs3.Status(status))
			require.Eventually(t, func() bool { return g.Count("m") == 1 }, 30*time.Second, time.Millisecond)

			s := dialV4(t, d)
			h, err := s.Walk(t.Context(), g.dir+"/m4")
			require.NoError(t, err)
			assert.NoError(t, s.SetAttr(t.Context(), slices.Clone(h), &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL)}))
			assert.Equal(t, 1, g.Count("m4"))
		})
	})
}

// TestFailingAutomounts checks that automounts that fail or hang delay only their own calls, and are
// neither tried again nor logged at each call.
func TestFailingAutomounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newAutomountTest(t, "gone", "hangs", "good")
		daemon := g.serve("daemon", func(t *testing.T, _ *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			release := g.Hold("hangs")
			defer release()
			gone, hangs, good := lookupFH(t, c, root, "gone"), lookupFH(t, c, root, "hangs"), lookupFH(t, c, root, "good")
			for range 100 {
				for _, h := range []nfs3.FH{gone, hangs} {
					_, err := listNames(t, c, h)
					assert.ErrorIs(t, err, nfs3.ErrJukebox)
				}
			}
			eventually(t, func() error {
				_, err := listNames(t, c, good)
				return err
			})
			require.Eventually(t, func() bool {
				_, _ = listNames(t, c, gone)
				return g.Count("gone") == 2
			}, 30*time.Second, time.Millisecond, "it is tried again")
			assert.Equal(t, 1, g.Count("hangs"))
		})
		assert.Equal(t, 1, strings.Count(daemon.stderr.String(), "cannot mount an automount"), daemon.stderr.String())
	})
}

// TestHangingAutomounts checks that automounts which do not respond block others only for a time.
func TestHangingAutomounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShareSet(nil, slog.New(slog.DiscardHandler))
		release := make(chan struct{})
		var triggered atomic.Int64
		s.triggerAutomount = func(string) error {
			triggered.Add(1)
			<-release
			return nil
		}
		trigger := func(name string) {
			if s.automounts[name] == nil {
				s.automounts[name] = &automount{name: name}
			}
			s.trigger(s.automounts[name])
			synctest.Wait()
		}
		for i := range maxTriggers {
			trigger(fmt.Sprint(i))
		}
		trigger("other")
		assert.EqualValues(t, maxTriggers, triggered.Load())
		time.Sleep(triggerTimeout)
		trigger("0")
		trigger("other")
		assert.EqualValues(t, maxTriggers+1, triggered.Load())
		for i := range 2 * maxHungMounts {
			if i%maxTriggers == 0 {
				time.Sleep(triggerTimeout)
			}
			trigger(fmt.Sprint("more", i))
		}
		assert.Less(t, triggered.Load(), int64(maxHungMounts+maxTriggers), "each blocks a thread")
		close(release)
		synctest.Wait()
		assert.Zero(t, s.triggering)
		assert.Zero(t, s.hung)
	})
}

// TestOpenExpiredAutomount checks that opening a mount which has expired does not mount it again.
func TestOpenExpiredAutomount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newAutomountTest(t, "m")
		_, err := openMountPoint(filepath.Join(g.dir, "m"), 1)
		assert.ErrorContains(t, err, "another file system")
		assert.Zero(t, g.Total())
	})
}
