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

// newMountTest returns a server with a file, /x/d/f, and a mount point.
func newMountTest(t *testing.T) (r *testServer, point string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: only it can mount without fusermount3")
	}
	r = newTestServer(t)
	require.NoError(t, os.Chmod(r.dir, 0o755))
	writeFile(t, []byte("content"), r.dir, "d", "f")
	point = t.TempDir()
	t.Cleanup(func() {
		if _, found, err := mountinfo.At(point); err != nil || found {
			assert.NoError(t, unix.Unmount(point, unix.MNT_DETACH|unix.MNT_FORCE), "left by a failed test")
		}
	})
	return r, point
}

// listMounts returns the server's list of mounts.
func listMounts(t *testing.T, r *testServer) []nfsclient.MountEntry {
	t.Helper()
	a := newApp(nil, nil)
	a.newRoot()
	defer a.closeSessions()
	at, err := parseURL(r.url, false)
	require.NoError(t, err)
	s, err := a.openSession(t.Context(), at.server)
	require.NoError(t, err)
	m, err := s.client.MOUNT(t.Context())
	require.NoError(t, err)
	list, err := m.Dump(t.Context())
	require.NoError(t, err)
	return list
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// TestMount makes a mount in the background, uses it, and unmounts it.
func TestMount(t *testing.T) {
	r, point := newMountTest(t)
	source := r.addr + ":/x/d"
	status, stdout, stderr := runProcess(t, "mountrdma", source, point, "-v", "-o", "nosuid,rsize=65536", "-o", "x-test,_netdev")
	require.Zero(t, status, stderr)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^mounted `+source+` on `+point+`: rsize 65536, wsize 1048576, inline 4096, credits \d+, CRC off, MOUNT at RDMA `+r.addr+`, locks at the server.*\n$`, stdout)
	daemon := findDaemon(t)
	sid, err := unix.Getsid(daemon.Pid)
	require.NoError(t, err)
	assert.Equal(t, daemon.Pid, sid, "it does not exit with the terminal")

	m, found, err := mountinfo.At(point)
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, fsType, m.Kind)
	assert.Equal(t, source, m.Source, "mount -a compares it with fstab's")
	assert.Equal(t, []nfsclient.MountEntry{{Host: "127.0.0.1", Path: "/x/d"}}, listMounts(t, r))

	assert.Equal(t, "content", readFile(t, point, "f"))
	writeFile(t, []byte("new"), point, "g")
	assert.Equal(t, "new", readFile(t, r.dir, "d", "g"))

	status, _, stderr = runProcess(t, "mountrdma", source, point)
	assert.Equal(t, 1, status)
	assert.Equal(t, "mountrdma: mount point "+point+" is busy: "+source+" is mounted there already; mountrdma umount "+point+" removes it\n", stderr)

	var told atomic.Bool
	umnt := *matchProc(mount3.Program, mount3.ProcUmnt)
	notice := func(req *oncrpc.Request) bool {
		told.Store(told.Load() || umnt(req))
		return false
	}
	r.holdCall.Store(&notice)
	_, words, _ := runCommand(t, "__complete", "umount", point[:len(point)-1])
	assert.Contains(t, words, point+"\n", "completion")
	mustRun(t, "umount", point)
	assert.True(t, told.Load(), "umount returns after the process has called UMNT")
	_, found, err = mountinfo.At(point)
	require.NoError(t, err)
	assert.False(t, found)
	assert.Empty(t, listMounts(t, r))
	assert.Zero(t, waitExit(t, daemon))
}

// TestMountReadOnly checks mount.nfsrdma with options as in fstab.
func TestMountReadOnly(t *testing.T) {
	r, point := newMountTest(t)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(point, link))
	status, stdout, stderr := runProcess(t, "mount.nfsrdma", r.url, link, "-n", "-o", "ro,noexec,suid,nofail,acregmin=90,acdirmin=90")
	require.Zero(t, status, stderr)
	assert.Empty(t, stdout+stderr)
	daemon := findDaemon(t)
	var info unix.Statfs_t
	require.NoError(t, unix.Statfs(point, &info))
	assert.EqualValues(t, unix.ST_RDONLY|unix.ST_NOEXEC|unix.ST_NODEV, info.Flags&(unix.ST_RDONLY|unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOSUID))
	assert.ErrorIs(t, os.WriteFile(filepath.Join(point, "g"), nil, 0o644), unix.EROFS)
	mustRun(t, "umount", link)
	assert.Zero(t, waitExit(t, daemon))
}

// startForeground mounts, and returns once the mount is ready.
func startForeground(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := newProcess(t, append(append([]string{"mountrdma"}, args...), "--foreground")...)
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
		r, point := newMountTest(t)
		cmd := startForeground(t, r.addr+":/x", point)
		data := randomBytes(3<<20+5, 2)
		writeFile(t, data, point, "g")
		require.NoError(t, cmd.Process.Signal(sig))
		require.NoError(t, cmd.Wait(), sig)
		_, found, err := mountinfo.At(point)
		require.NoError(t, err)
		assert.False(t, found)
		assert.Equal(t, string(data), readFile(t, r.dir, "g"))
		assert.Empty(t, listMounts(t, r))
	}
}

// TestStoppedInUse checks that a busy mount is served until its last user
// ends.
func TestStoppedInUse(t *testing.T) {
	r, point := newMountTest(t)
	cmd := startForeground(t, r.addr+":/x", point)
	f, err := os.OpenFile(filepath.Join(point, "d", "f"), os.O_RDWR, 0)
	require.NoError(t, err)

	assert.Equal(t, "mountrdma: "+point+" is busy: run 'fuser -vm "+point+"' to list the processes, or use -l to detach anyway\n", mustFail(t, "umount", point))
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	for found := true; found; { // the process prints nothing when it has detached the mount
		_, found, err = mountinfo.At(point)
		require.NoError(t, err)
	}
	_, err = f.WriteString("CONTENT")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "CONTENT", readFile(t, r.dir, "d", "f"))
}

// TestUmountLazy checks that umount -l detaches a busy mount.
func TestUmountLazy(t *testing.T) {
	r, point := newMountTest(t)
	cmd := startForeground(t, r.addr+":/x", point)
	f, err := os.Open(filepath.Join(point, "d", "f"))
	require.NoError(t, err)
	mustRun(t, "umount", "-l", point)
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
		r, point := newMountTest(t)
		cmd := startForeground(t, r.addr+":/x", point, "-o", option)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		status, _, stderr := runProcess(t, "mountrdma", r.addr+":/x", point)
		assert.Equal(t, 1, status)
		assert.Contains(t, stderr, want)
		assert.Contains(t, stderr, "mountrdma umount "+point+" removes it\n")
		mustRun(t, "umount", point)
	}
}

// TestSoft checks that a soft mount reports a lost server, and can still be
// unmounted.
func TestSoft(t *testing.T) {
	r, point := newMountTest(t)
	cmd := startForeground(t, r.addr+":/x", point, "-o", "soft,timeo=2,retrans=1,noac")
	assert.Equal(t, "content", readFile(t, point, "d", "f"))
	r.stop()
	_, err := os.ReadFile(filepath.Join(point, "d", "f"))
	assert.ErrorIs(t, err, unix.EIO)
	mustRun(t, "umount", point)
	require.NoError(t, cmd.Wait())
}

func TestUmountOthers(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, "mountrdma: nothing is mounted on "+dir+"\n", mustFail(t, "umount", dir))
	assert.Equal(t, "mountrdma: nothing is mounted on "+dir+"/no\n", mustFail(t, "umount", dir+"/no"))
	assert.Equal(t, "mountrdma: /proc is a mount of type proc, not of mountrdma: umount(8) unmounts it\n", mustFail(t, "umount", "/proc"))
}

func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, nil, dir, "f")
	assert.Equal(t, "mountrdma: mount point "+dir+"/f is not a directory: correct the path\n", mustFail(t, "127.0.0.1:/x", dir+"/f", "--foreground"))
	assert.Equal(t, "mountrdma: mount point "+dir+"/g does not exist: create it (mkdir), or correct the path\n", mustFail(t, "127.0.0.1:/x", dir+"/g", "--foreground"))
}
