//go:build interop

package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMount8 mounts by mount(8): with the type on the command line, and by a
// line of fstab. The helper is in an /sbin of a mount namespace that ends with
// the test. The mounting process, which stays, ends with its PID namespace.
func TestMount8(t *testing.T) {
	d := startDaemon(t, "--no-root-squash")
	_, port, err := net.SplitHostPort(d.rdma)
	require.NoError(t, err)
	dir := reachableDir(t)
	script := strings.NewReplacer("DIR", dir, "PROGRAM", programPath("mountrdma"), "PORT", port).Replace(`
set -eu
mkdir DIR/sbin DIR/a DIR/b
sbin=$(readlink -f /sbin)
mount --bind $sbin DIR/sbin
mount -t tmpfs tmpfs $sbin
ln -s DIR/sbin/* $sbin/
ln -s PROGRAM $sbin/mount.nfsrdma

mount -t nfsrdma -o port=PORT,noac,ro,allow_dev 127.0.0.1:/x DIR/a
findmnt -nro SOURCE,FSTYPE,OPTIONS DIR/a
if echo x >DIR/a/new; then exit 9; fi
umount DIR/a

echo "127.0.0.1:/x DIR/b nfsrdma port=PORT,_netdev,nofail,x-systemd.automount 0 0" >DIR/fstab
mount -T DIR/fstab DIR/b
findmnt -nro SOURCE,FSTYPE,OPTIONS DIR/b
echo written >DIR/b/file
umount DIR/b
if mount -t nfsrdma -o port=PORT,nosuch 127.0.0.1:/x DIR/a; then exit 9; fi
if mount -t nfsrdma -o port=PORT 127.0.0.1:/nosuch DIR/a; then exit 9; fi
`)
	file := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o644))
	out := onHost(t, dir, "unshare --mount --pid --fork --kill-child --mount-proc sh script")
	t.Logf("%s", out)
	assert.Regexp(t, `(?m)^127\.0\.0\.1:/x fuse\.nfsrdma ro,nosuid,rel`, out)
	assert.Regexp(t, `(?m)^127\.0\.0\.1:/x fuse\.nfsrdma rw,nosuid,nodev,`, out)
	assert.Contains(t, out, `mount.nfsrdma: unknown option "nosuch"`)
	b, err := os.ReadFile(d.dir + "/file")
	require.NoError(t, err)
	assert.Equal(t, "written\n", string(b))
}

// TestMountUser checks a mount by an ordinary user, through fusermount3.
func TestMountUser(t *testing.T) {
	const uid, gid = 1000, 1001
	fuseForAll(t)
	d := startDaemon(t)
	require.NoError(t, os.Chmod(d.dir, 0o777))
	_, port, err := net.SplitHostPort(d.rdma)
	require.NoError(t, err)
	m := &fuseMount{t: t, point: reachableDir(t), said: new(sharedBuffer)}
	require.NoError(t, os.Chown(m.point, uid, gid))
	as := fmt.Sprintf("setpriv --reuid=%d --regid=%d --clear-groups ", uid, gid)
	args := strings.Fields(as + programPath("mountrdma") + " 127.0.0.1:/x " + m.point + " --foreground -o port=" + port)
	m.startProgram(exec.Command(args[0], args[1:]...))

	options := onHost(t, "/", "findmnt -nro FSTYPE,OPTIONS "+m.point)
	assert.Regexp(t, `^fuse\.nfsrdma rw,nosuid,nodev,`, options)
	onHost(t, "/", as+"sh -euc 'cd "+m.point+"; echo mine >file; mkdir dir; mv file dir; cat dir/file'")
	var st unix.Stat_t
	require.NoError(t, unix.Stat(d.dir+"/dir/file", &st))
	assert.EqualValues(t, uid, st.Uid)
	assert.EqualValues(t, gid, st.Gid)
	_, err = os.ReadDir(m.point)
	assert.ErrorIs(t, err, unix.EACCES, "it is the user's alone: not even root sees it")
	onHost(t, "/", as+programPath("mountrdma")+" umount "+m.point)
	assert.Zero(t, m.proc.ExitCode(), "%s", m.said)
}

// fuseForAll makes /dev/fuse accessible to everyone, as udev does. Not all
// machines have udev.
func fuseForAll(t *testing.T) {
	const name = "/dev/fuse"
	var st unix.Stat_t
	require.NoError(t, unix.Stat(name, &st))
	own := filepath.Join(mountTmpfs(t), "fuse")
	require.NoError(t, unix.Mknod(own, unix.S_IFCHR, int(st.Rdev)))
	require.NoError(t, unix.Chmod(own, 0o666))
	require.NoError(t, unix.Mount(own, name, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(name, unix.MNT_DETACH) })
}
