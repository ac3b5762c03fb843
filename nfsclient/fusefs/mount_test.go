package fusefs

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// mountLine returns the line of /proc/mounts for a mount point.
func mountLine(t testing.TB, point string) string {
	t.Helper()
	all, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(all)) {
		if strings.Fields(line)[1] == point {
			return line
		}
	}
	return ""
}

// TestOptions checks each mount flag, with mount(2) and with fusermount3.
func TestOptions(t *testing.T) {
	s := newServer(t, nil)
	writeFile(t, s.path("a"), nil)
	for _, direct := range []bool{true, false} {
		name := helper
		if direct {
			name = "mount(2)"
		}
		t.Run(name, func(t *testing.T) {
			m := s.mount(func(c *Config) { c.Direct = direct })
			line := mountLine(t, m.dir)
			assert.Contains(t, line, "server:/x "+m.dir+" fuse.nfsrdma rw,")
			assert.Contains(t, line, "max_read=1048576")
			assert.Equal(t, direct, strings.Contains(line, "allow_other"), "root serves all")
			writeFile(t, m.path("b"), randomBytes(100_000))
			assertContent(t, s.path("b"), randomBytes(100_000))
			require.NoError(t, m.Unmount())
			assert.Empty(t, mountLine(t, m.dir))
			assert.NoError(t, m.Unmount(), "twice is no error")

			m = s.mount(func(c *Config) {
				c.Direct, c.AllowOther = direct, true
				c.ReadOnly, c.NoSUID, c.NoDev, c.NoExec = true, true, true, true
				c.Source = `odd, \ source`
			})
			line = mountLine(t, m.dir)
			assert.Contains(t, line, " fuse.nfsrdma ro,nosuid,nodev,noexec,")
			assert.Contains(t, line, "allow_other")
			assert.True(t, strings.HasPrefix(line, `odd,\040\134\040source `), line)
			_, err := os.Create(m.path("c"))
			assert.ErrorIs(t, err, unix.EROFS)
			assert.ErrorIs(t, os.Remove(m.path("a")), unix.EROFS)
		})
	}
}

// mountAsUser is a child process that serves a directory, mounts it and uses
// it, all as an ordinary user.
func mountAsUser(args []string) (err error) {
	fs, err := posix.Open(args[0], posix.Options{})
	if err != nil {
		return err
	}
	defer fs.Close()
	caller, stop, err := serveTCP(fs)
	if err != nil {
		return err
	}
	defer stop()
	client := nfsclient.New(caller, nfsclient.Config{})
	root, err := nfsclient.NewMount(caller, nil).Mnt(context.Background(), "/x")
	if err != nil {
		return err
	}
	tree, err := client.FS(context.Background(), root, "/x")
	if err != nil {
		return err
	}
	m, err := New(Config{Client: client, FS: tree, Source: "server:/x", Point: args[1], Log: discard})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Unmount()) }()
	if err := os.WriteFile(filepath.Join(args[1], "file"), []byte("mine"), 0o600); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(args[1], "file"))
	if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		err = errors.New("another user's file")
	}
	return err
}

func serveTCP(fs vfs.FS) (oncrpc.Caller, func(), error) {
	mux, err := newPrograms(fs, nil, exports.Options{})
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	srv := &oncrpc.Server{Handler: mux, Log: discard}
	go func() { _ = srv.Serve(l) }()
	c, err := oncrpc.DialTCP(context.Background(), l.Addr().String(), oncrpc.ClientConfig{})
	if err != nil {
		return nil, nil, err
	}
	return c, func() { c.Close(); _ = srv.Shutdown(context.Background()) }, nil
}

// TestOrdinaryUser checks a mount without root, over TCP.
func TestOrdinaryUser(t *testing.T) {
	needFUSE(t)
	as := &syscall.Credential{Uid: 65534, Gid: 65534} // no user: fusermount3 requires a user name
	dir := newReachableDir(t)
	for _, name := range []string{"back", "point"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.Chown(filepath.Join(dir, name), int(as.Uid), int(as.Gid)))
	}
	openDevice(t)
	out, err := newChild(t, as, "user", filepath.Join(dir, "back"), filepath.Join(dir, "point")).CombinedOutput()
	require.NoError(t, err, string(out))
	assertContent(t, filepath.Join(dir, "back/file"), []byte("mine"))
	assert.Empty(t, mountLine(t, filepath.Join(dir, "point")))
}

// openDevice gives all users access to the kernel's FUSE device in the
// namespace of this test, as udev does elsewhere.
func openDevice(t *testing.T) {
	t.Helper()
	node := filepath.Join(t.TempDir(), "fuse")
	require.NoError(t, unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))))
	require.NoError(t, os.Chmod(node, 0o666))
	require.NoError(t, unix.Mount(node, device, "", unix.MS_BIND, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(device, 0)) })
}

// TestReadAhead checks that the kernel may read ahead as far as the mount asks
// for.
func TestReadAhead(t *testing.T) {
	_, m := newMount(t)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(m.dir, &st))
	text, err := os.ReadFile(readAheadPath(st.Dev))
	require.NoError(t, err)
	assert.Equal(t, "8192", strings.TrimSpace(string(text)))
}

// TestBadConfig checks the errors for bad configurations.
func TestBadConfig(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(nil)
	writeFile(t, s.path("file"), nil)
	for _, tt := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.Client = nil }, "Client and Config.FS"},
		{func(c *Config) { c.Point = "" }, "name the mount point"},
		{func(c *Config) { c.RegMax = 0 }, "acregmin"},
		{func(c *Config) { c.DirMin = -time.Second }, "acdirmin"},
		{func(c *Config) { c.Point = s.path("none") }, "mkdir"},
		{func(c *Config) { c.Point = s.path("file") }, "not a directory"},
		{func(c *Config) { c.Point, c.Direct = s.path("file/x"), false }, "not a directory"},
	} {
		cfg := m.cfg
		cfg.Point = t.TempDir()
		tt.change(&cfg)
		_, err := New(cfg)
		assert.ErrorContains(t, err, tt.want)
	}
	t.Setenv("PATH", t.TempDir())
	cfg := m.cfg
	cfg.Point, cfg.Direct = t.TempDir(), false
	_, err := New(cfg)
	assert.ErrorContains(t, err, "apt install fuse3")
	m.setBefore(nil)
}

// TestUnmountByOthers checks unmounting by the usual programs.
func TestUnmountByOthers(t *testing.T) {
	s := newServer(t, nil)
	for _, command := range []string{"umount", "umount -l", helper + " -u", helper + " -u -z"} {
		m := s.mount(nil)
		writeFile(t, m.path("a"), []byte(command))
		args := append(strings.Fields(command), m.dir)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, string(out))
		m.Wait()
		assertContent(t, s.path("a"), []byte(command))
	}
}

// TestBusy checks that a mount in use is not unmounted.
func TestBusy(t *testing.T) {
	_, m := newMount(t)
	f, err := os.Create(m.path("a"))
	require.NoError(t, err)
	assert.ErrorContains(t, m.Unmount(), "in use")
	_, err = f.WriteString("still served")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestSubdirectory checks a mount of a directory below the export.
func TestSubdirectory(t *testing.T) {
	s := newServer(t, nil)
	require.NoError(t, os.MkdirAll(s.path("d/e"), 0o755))
	writeFile(t, s.path("d/e/a"), []byte("x"))
	m := s.mount(func(c *Config) {
		sub, err := c.FS.Sub(t.Context(), "d")
		require.NoError(t, err)
		c.FS = sub
	})
	assertContent(t, m.path("e/a"), []byte("x"))
	assert.Equal(t, []string{"e"}, listNames(t, m.dir))
	real, err := filepath.EvalSymlinks(m.path("e/.."))
	require.NoError(t, err)
	assert.Equal(t, m.dir, real)
}

// TestRootInode checks that the root has the server's inode number.
func TestRootInode(t *testing.T) {
	s, m := newMount(t)
	assert.Equal(t, mustLstat(t, s.dir).Ino, mustLstat(t, m.dir).Ino)
	assert.Zero(t, m.callCount(nfs3.ProcNull))
}
