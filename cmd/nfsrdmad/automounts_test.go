package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A fakeAutomounter is a daemon for direct autofs mounts. It mounts the directory backing/NAME on
// NAME. The processes of its group do not trigger automounts.
type fakeAutomounter struct {
	t     *testing.T
	dir   string // contains the mount points
	group int
	pipe  [2]*os.File // the kernel writes its requests
	ended chan struct{}

	mu       sync.Mutex
	points   map[uint32]string   // by device number
	controls map[string]*os.File // directories for ioctl, opened before anything was mounted there
	requests []string
	held     map[string]chan struct{} // a request is not answered before the channel is closed
}

// newFakeAutomounter makes automounts in dir. The process leaves the group, and can then trigger them.
func newFakeAutomounter(t *testing.T, dir string, names ...string) *fakeAutomounter {
	t.Helper()
	f := &fakeAutomounter{
		t: t, dir: dir, group: unix.Getpgrp(), ended: make(chan struct{}), points: make(map[uint32]string),
		controls: make(map[string]*os.File), held: make(map[string]chan struct{}),
	}
	var err error
	f.pipe[0], f.pipe[1], err = os.Pipe()
	require.NoError(t, err)
	for _, name := range names {
		f.addMount(name)
	}
	require.NoError(t, unix.Setpgid(0, 0))
	go f.serve()
	t.Cleanup(f.close)
	return f
}

func (f *fakeAutomounter) addMount(name string) {
	f.t.Helper()
	point := filepath.Join(f.dir, name)
	require.NoError(f.t, os.Mkdir(point, 0o755))
	options := fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", f.pipe[1].Fd(), f.group)
	require.NoError(f.t, unix.Mount("fake", point, "autofs", 0, options))
	control, err := os.Open(point)
	require.NoError(f.t, err)
	var st unix.Stat_t
	require.NoError(f.t, unix.Fstat(int(control.Fd()), &st))
	f.points[uint32(st.Dev)], f.controls[name] = name, control
}

// Requests of the kernel (linux/auto_fs.h), and the ioctls that answer them.
const (
	autofsPacketLen = 304
	autofsReady     = 0x9360
	autofsFail      = 0x9361
)

func (f *fakeAutomounter) serve() {
	defer close(f.ended)
	packet := make([]byte, autofsPacketLen)
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		if _, err := f.pipe[0].Read(packet); err != nil {
			return
		}
		token, dev := binary.NativeEndian.Uint32(packet[8:]), binary.NativeEndian.Uint32(packet[12:])
		answers.Go(func() { f.answer(token, dev) })
	}
}

func (f *fakeAutomounter) answer(token, dev uint32) {
	f.mu.Lock()
	name := f.points[dev]
	f.requests = append(f.requests, name)
	control, held := f.controls[name], f.held[name]
	f.mu.Unlock()
	if held != nil {
		<-held
	}
	result := uint(autofsReady)
	if f.run("mount", "--bind", filepath.Join(f.dir, "..", "backing", name), filepath.Join(f.dir, name)) != nil {
		result = autofsFail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.NoError(f.t, unix.IoctlSetInt(int(control.Fd()), result, int(token)))
}

// run runs a command that triggers nothing.
func (f *fakeAutomounter) run(args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: f.group}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// expire unmounts what has been mounted on name.
func (f *fakeAutomounter) expire(name string) {
	f.t.Helper()
	require.NoError(f.t, f.run("umount", filepath.Join(f.dir, name)))
}

// hold keeps requests for name unanswered until the function that it returns is called.
func (f *fakeAutomounter) hold(name string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(chan struct{})
	f.held[name] = held
	return func() { close(held) }
}

// count returns the number of requests for name.
func (f *fakeAutomounter) count(name string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r == name {
			n++
		}
	}
	return n
}

func (f *fakeAutomounter) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fakeAutomounter) close() {
	f.mu.Lock()
	for _, control := range f.controls {
		control.Close()
	}
	f.mu.Unlock()
	for name := range f.controls {
		_ = f.run("umount", "--lazy", filepath.Join(f.dir, name)) // what is mounted on it
		_ = f.run("umount", "--lazy", filepath.Join(f.dir, name))
	}
	f.pipe[1].Close()
	<-f.ended
	f.pipe[0].Close()
}

// An automountTest is a daemon that exports a directory with automounts.
type automountTest struct {
	*fakeAutomounter
	state, file string
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
		fakeAutomounter: newFakeAutomounter(t, dir, names...), state: t.TempDir(),
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
			assert.Zero(t, g.total(), "ls -l triggers nothing")

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
			assert.Equal(t, []int{1, 1, 2}, []int{g.count("v3"), g.count("v4"), g.total()})

			g.expire("v3")
			require.Eventually(t, func() bool {
				_, err := c.GetAttr(t.Context(), file)
				return errors.Is(err, nfs3.ErrJukebox)
			}, 30*time.Second, time.Millisecond, "the handle is not stale")
			assert.Equal(t, "in v3", readString(t, c, file))
			assert.Equal(t, 2, g.count("v3"))
		})
		g.serve("mounted", func(t *testing.T, _ *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			assert.Equal(t, "in v3", readString(t, c, file))
			assert.Equal(t, string(point), string(lookupFH(t, c, root, "v3")))
			assert.Equal(t, 2, g.count("v3"))
		})
		g.expire("v3")
		g.serve("unmounted", func(t *testing.T, _ *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			_, err := listNames(t, c, root)
			require.NoError(t, err)
			assert.Equal(t, 2, g.count("v3"))
			assert.Equal(t, "in v3", readString(t, c, file))
			attr, err := c.GetAttr(t.Context(), point)
			require.NoError(t, err)
			g.expire("v3")
			require.Eventually(t, func() bool {
				res, err := c.Lookup(t.Context(), root, "v3")
				return err == nil && string(res.Object) == string(point) && res.ObjAttr.Attr.FileID == attr.FileID && res.ObjAttr.Attr.FSID == attr.FSID
			}, 30*time.Second, time.Millisecond, "clients see the same root")
			assert.Equal(t, 3, g.count("v3"))
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
			require.Eventually(t, func() bool { return g.count("m") == 1 }, 30*time.Second, time.Millisecond)

			s := dialV4(t, d)
			h, err := s.Walk(t.Context(), g.dir+"/m4")
			require.NoError(t, err)
			assert.NoError(t, s.SetAttr(t.Context(), slices.Clone(h), &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL)}))
			assert.Equal(t, 1, g.count("m4"))
		})
	})
}

// TestFailingAutomounts checks that automounts that fail or hang delay only their own calls, and are
// neither tried again nor logged at each call.
func TestFailingAutomounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newAutomountTest(t, "gone", "hangs", "good")
		daemon := g.serve("daemon", func(t *testing.T, _ *testDaemon, c *nfsclient.Client, root nfs3.FH) {
			release := g.hold("hangs")
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
				return g.count("gone") == 2
			}, 30*time.Second, time.Millisecond, "it is tried again")
			assert.Equal(t, 1, g.count("hangs"))
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
		assert.Zero(t, g.total())
	})
}
