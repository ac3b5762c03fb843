package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// scene returns a server with a file, /x/d/f, and a mount point.
func scene(t *testing.T) (r *rig, point string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: only it can mount without fusermount3")
	}
	r = newRig(t)
	require.NoError(t, os.Chmod(r.dir, 0o755))
	write(t, []byte("content"), r.dir, "d", "f")
	point = t.TempDir()
	t.Cleanup(func() {
		if _, found, err := mountinfo.At(point); err != nil || found {
			assert.NoError(t, unix.Unmount(point, unix.MNT_DETACH|unix.MNT_FORCE), "left by a test that failed")
		}
	})
	return r, point
}

// users returns the server's list of mounts.
func users(t *testing.T, r *rig) []nfsclient.Mounted {
	t.Helper()
	a := newApp(nil, nil)
	a.newRoot()
	defer a.close()
	at, err := parseURL(r.url, false)
	require.NoError(t, err)
	s, err := a.session(t.Context(), at.server)
	require.NoError(t, err)
	m, err := s.client.MOUNT(t.Context())
	require.NoError(t, err)
	list, err := m.Dump(t.Context())
	require.NoError(t, err)
	return list
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// TestMount makes a mount in the background, uses it, and unmounts it.
func TestMount(t *testing.T) {
	r, point := scene(t)
	source := r.addr + ":/x/d"
	status, stdout, stderr := finished(t, "mountrdma", source, point, "-v", "-o", "nosuid,rsize=65536", "-o", "x-test,_netdev")
	require.Zero(t, status, stderr)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^mounted `+source+` on `+point+`: rsize 65536, wsize 1048576, inline 4096, credits \d+, CRC off, MOUNT at RDMA `+r.addr+`, locks at the server.*\n$`, stdout)
	daemon := adopted(t)
	sid, err := unix.Getsid(daemon.Pid)
	require.NoError(t, err)
	assert.Equal(t, daemon.Pid, sid, "it does not end with the terminal")

	m, found, err := mountinfo.At(point)
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, fsType, m.Kind)
	assert.Equal(t, source, m.Source, "mount -a compares it with fstab's")
	assert.Equal(t, []nfsclient.Mounted{{Host: "127.0.0.1", Path: "/x/d"}}, users(t, r))

	assert.Equal(t, "content", read(t, point, "f"))
	write(t, []byte("new"), point, "g")
	assert.Equal(t, "new", read(t, r.dir, "d", "g"))

	status, _, stderr = finished(t, "mountrdma", source, point)
	assert.Equal(t, 1, status)
	assert.Equal(t, "mountrdma: mount point "+point+" is busy: "+source+" is mounted there already; mountrdma umount "+point+" removes it\n", stderr)

	var told atomic.Bool
	umnt := *hanging(mount3.Program, mount3.ProcUmnt)
	notice := func(req *oncrpc.Request) bool {
		told.Store(told.Load() || umnt(req))
		return false
	}
	r.hang.Store(&notice)
	must(t, "umount", point)
	assert.True(t, told.Load(), "umount returns when the process has said goodbye to the server")
	_, found, err = mountinfo.At(point)
	require.NoError(t, err)
	assert.False(t, found)
	assert.Empty(t, users(t, r))
	assert.Zero(t, ends(t, daemon))
}

// TestMountReadOnly checks mount.nfsrdma with options as in fstab.
func TestMountReadOnly(t *testing.T) {
	r, point := scene(t)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(point, link))
	status, stdout, stderr := finished(t, "mount.nfsrdma", r.url, link, "-n", "-o", "ro,noexec,suid,nofail,acregmin=90,acdirmin=90")
	require.Zero(t, status, stderr)
	assert.Empty(t, stdout+stderr)
	daemon := adopted(t)
	var info unix.Statfs_t
	require.NoError(t, unix.Statfs(point, &info))
	assert.EqualValues(t, unix.ST_RDONLY|unix.ST_NOEXEC|unix.ST_NODEV, info.Flags&(unix.ST_RDONLY|unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOSUID))
	assert.ErrorIs(t, os.WriteFile(filepath.Join(point, "g"), nil, 0o644), unix.EROFS)
	must(t, "umount", link)
	assert.Zero(t, ends(t, daemon))
}

// foreground mounts, and returns once the mount is ready.
func foreground(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := process(t, append(append([]string{"mountrdma"}, args...), "--foreground")...)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(line, "mounted "), line)
	return cmd
}

// TestStopped checks that the process unmounts after a signal, with all data at
// the server.
func TestStopped(t *testing.T) {
	for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		r, point := scene(t)
		cmd := foreground(t, r.addr+":/x", point)
		data := random(3<<20+5, 2)
		write(t, data, point, "g")
		require.NoError(t, cmd.Process.Signal(sig))
		require.NoError(t, cmd.Wait(), sig)
		_, found, err := mountinfo.At(point)
		require.NoError(t, err)
		assert.False(t, found)
		assert.Equal(t, string(data), read(t, r.dir, "g"))
		assert.Empty(t, users(t, r))
	}
}

// TestStoppedInUse checks that a mount in use is served until its last use
// ends.
func TestStoppedInUse(t *testing.T) {
	r, point := scene(t)
	cmd := foreground(t, r.addr+":/x", point)
	f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
	require.NoError(t, err)

	assert.Equal(t, "mountrdma: "+point+" is in use: fuser -vm "+point+" names the users; -l detaches it anyway\n", refused(t, "umount", point))
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	for found := true; found; { // the process prints nothing when it is done
		_, found, err = mountinfo.At(point)
		require.NoError(t, err)
	}
	_, err = f.WriteString("CONTENT")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "CONTENT", read(t, r.dir, "d", "f"))
}

// TestUmountLazy checks that umount -l detaches a mount in use.
func TestUmountLazy(t *testing.T) {
	r, point := scene(t)
	cmd := foreground(t, r.addr+":/x", point)
	f, err := os.Open(filepath.Join(point, "d", "f"))
	require.NoError(t, err)
	must(t, "umount", "-l", point)
	_, found, err := mountinfo.At(point)
	require.NoError(t, err)
	assert.False(t, found)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	assert.Equal(t, "content", string(data))
	require.NoError(t, f.Close())
	require.NoError(t, cmd.Wait())
}

// TestDeadMount checks that the mount of a killed process can be unmounted, and
// that a second mount reports it, whether or not the kernel knows that the
// process is dead.
func TestDeadMount(t *testing.T) {
	for option, want := range map[string]string{
		"noac": "has a FUSE mount whose process has died",
		"ac":   "is mounted there already",
	} {
		r, point := scene(t)
		cmd := foreground(t, r.addr+":/x", point, "-o", option)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		status, _, stderr := finished(t, "mountrdma", r.addr+":/x", point)
		assert.Equal(t, 1, status)
		assert.Contains(t, stderr, want)
		assert.Contains(t, stderr, "mountrdma umount "+point+" removes it\n")
		must(t, "umount", point)
	}
}

// TestSoft checks that a soft mount reports a lost server, and can still be
// unmounted.
func TestSoft(t *testing.T) {
	r, point := scene(t)
	cmd := foreground(t, r.addr+":/x", point, "-o", "soft,timeo=2,retrans=1,noac")
	assert.Equal(t, "content", read(t, point, "d", "f"))
	r.stop()
	_, err := os.ReadFile(filepath.Join(point, "d", "f"))
	assert.ErrorIs(t, err, unix.EIO)
	must(t, "umount", point)
	require.NoError(t, cmd.Wait())
}

func TestUmountOthers(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, "mountrdma: nothing is mounted on "+dir+"\n", refused(t, "umount", dir))
	assert.Equal(t, "mountrdma: nothing is mounted on "+dir+"/no\n", refused(t, "umount", dir+"/no"))
	assert.Equal(t, "mountrdma: /proc is a mount of type proc, not of mountrdma: umount(8) unmounts it\n", refused(t, "umount", "/proc"))
}

func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	write(t, nil, dir, "f")
	assert.Equal(t, "mountrdma: mount point "+dir+"/f is no directory: correct it\n", refused(t, "127.0.0.1:/x", dir+"/f", "--foreground"))
	assert.Equal(t, "mountrdma: mount point "+dir+"/g does not exist: make it (mkdir), or correct it\n", refused(t, "127.0.0.1:/x", dir+"/g", "--foreground"))
}
