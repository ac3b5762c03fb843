package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
)

// onlyFinding returns the only finding of a check.
func onlyFinding(t *testing.T, list []Finding, check string) (f Finding) {
	t.Helper()
	n := 0
	for _, one := range list {
		if one.Check == check {
			f, n = one, n+1
		}
	}
	require.Equal(t, 1, n, "%s: %v", check, list)
	return f
}

// TestFUSE checks hosts where something that mounts need is missing.
func TestFUSE(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		c := NewClient()
		dir := t.TempDir()
		f := c.checkFUSE()
		assert.Equal(t, Finding{"fuse", OK, "this host can mount", ""}, f)

		bounded := filepath.Join(dir, "status")
		require.NoError(t, os.WriteFile(bounded, []byte("Name:\tx\nCapEff:\t00000000a80425fb\n"), 0o600))
		c.status = bounded
		assert.Contains(t, c.checkFUSE().Remedy, "--cap-add SYS_ADMIN")
		require.NoError(t, os.WriteFile(bounded, []byte("CapEff:\tx\n"), 0o600))
		assert.Equal(t, OK, c.checkFUSE().Grade, "unknown capabilities are no error")

		c.uid = 1000
		t.Setenv("PATH", dir)
		assert.Contains(t, c.checkFUSE().Found, "fusermount3 is missing")
		program := filepath.Join(dir, "fusermount3")
		require.NoError(t, os.WriteFile(program, nil, 0o755))
		assert.Equal(t, "chmod u+s "+program+", or mount as root", c.checkFUSE().Remedy)
		require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
		assert.Equal(t, OK, c.checkFUSE().Grade)

		require.NoError(t, unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NODEV, ""))
		assert.Contains(t, c.checkFUSE().Found, "/dev/fuse is missing")
		require.NoError(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))))
		f = c.checkFUSE()
		assert.Equal(t, Fail, f.Grade)
		assert.Contains(t, f.Found, "permission denied")
	})
}

// TestMounts checks a mount that does not respond, and then one whose process has died.
func TestMounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		c := NewClient()
		c.probeTimeout = 300 * time.Millisecond
		assert.Equal(t, []Finding{{"mounts", OK, "none of 0 NFS mounts hangs", ""}}, c.checkMounts(t.Context()))

		dir := t.TempDir()
		device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Mount("server:/x", dir, "fuse.nfsrdma", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())))
		defer func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
		assert.Equal(t, []Finding{{"mounts", Fail, "the mount of server:/x on " + dir + " does not respond", "check its server, or abandon the mount: mountrdma umount -f " + dir}}, c.checkMounts(t.Context()))
		ended, end := context.WithCancel(t.Context())
		end()
		assert.Equal(t, Fail, onlyFinding(t, c.checkMounts(ended), "mounts").Grade)

		require.NoError(t, device.Close())
		c.probeTimeout = 10 * time.Second
		assert.Equal(t, []Finding{{"mounts", Fail, "the process of the mount of server:/x on " + dir + " has died", "mountrdma umount " + dir}}, c.checkMounts(t.Context()))
	})
}

func TestClient(t *testing.T) {
	c := NewClient()
	c.limit = func() (uint64, error) { return 100, nil }
	c.clock = func() (int, error) { return unix.TIME_ERROR, nil }
	list := c.Examine(t.Context())
	onlyFinding(t, list, "fuse")
	assert.Equal(t, Warn, onlyFinding(t, list, "files").Grade)
	assert.Equal(t, Warn, onlyFinding(t, list, "clock").Grade)
}
