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

// only returns the finding of a check that has one.
func only(t *testing.T, list []Finding, check string) (f Finding) {
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

// TestFUSE takes away what a mount needs.
func TestFUSE(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		c := NewClient()
		dir := t.TempDir()
		f := c.fuse()
		assert.Equal(t, Finding{"fuse", OK, "this host can mount", ""}, f)

		bounded := filepath.Join(dir, "status")
		require.NoError(t, os.WriteFile(bounded, []byte("Name:\tx\nCapEff:\t00000000a80425fb\n"), 0o600))
		c.status = bounded
		assert.Contains(t, c.fuse().Remedy, "--cap-add SYS_ADMIN")
		require.NoError(t, os.WriteFile(bounded, []byte("CapEff:\tx\n"), 0o600))
		assert.Equal(t, OK, c.fuse().Grade, "what is not known is no fault")

		c.uid = 1000
		t.Setenv("PATH", dir)
		assert.Contains(t, c.fuse().Found, "fusermount3 is missing")
		program := filepath.Join(dir, "fusermount3")
		require.NoError(t, os.WriteFile(program, nil, 0o755))
		assert.Equal(t, "chmod u+s "+program+", or mount as root", c.fuse().Remedy)
		require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
		assert.Equal(t, OK, c.fuse().Grade)

		require.NoError(t, unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NODEV, ""))
		assert.Contains(t, c.fuse().Found, "/dev/fuse is missing")
		require.NoError(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))))
		f = c.fuse()
		assert.Equal(t, Fail, f.Grade)
		assert.Contains(t, f.Found, "permission denied")
	})
}

// TestMounts has a mount that does not answer, and then one whose process has died.
func TestMounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		c := NewClient()
		c.patience = 300 * time.Millisecond
		assert.Equal(t, []Finding{{"mounts", OK, "none of 0 mounts of NFS hangs", ""}}, c.mounts(t.Context()))

		dir := t.TempDir()
		device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Mount("server:/x", dir, "fuse.nfsrdma", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())))
		defer func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
		assert.Equal(t, []Finding{{"mounts", Fail, "the mount of server:/x on " + dir + " does not answer", "see whether its server does, or give it up: mountrdma umount -f " + dir}}, c.mounts(t.Context()))
		ended, end := context.WithCancel(t.Context())
		end()
		assert.Equal(t, Fail, only(t, c.mounts(ended), "mounts").Grade)

		require.NoError(t, device.Close())
		c.patience = 10 * time.Second
		assert.Equal(t, []Finding{{"mounts", Fail, "the process of the mount of server:/x on " + dir + " has died", "mountrdma umount " + dir}}, c.mounts(t.Context()))
	})
}

func TestClient(t *testing.T) {
	c := NewClient()
	c.limit = func() (uint64, error) { return 100, nil }
	c.clock = func() (int, error) { return unix.TIME_ERROR, nil }
	list := c.Examine(t.Context())
	only(t, list, "fuse")
	assert.Equal(t, Warn, only(t, list, "files").Grade)
	assert.Equal(t, Warn, only(t, list, "clock").Grade)
}
