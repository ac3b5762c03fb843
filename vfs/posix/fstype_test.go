//go:build linux

package posix

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// TestKeepsHandles checks that the kernel's handles are used only if they
// outlive its inode cache.
func TestKeepsHandles(t *testing.T) {
	for name, magic := range map[string]uint32{
		"FUSE": unix.FUSE_SUPER_MAGIC, "FAT": unix.MSDOS_SUPER_MAGIC, "exFAT": unix.EXFAT_SUPER_MAGIC, "SMB": unix.SMB2_SUPER_MAGIC, "9p": unix.V9FS_MAGIC,
		"unknown": 0x12345678,
	} {
		assert.False(t, traitsOf(magic).handles, name)
	}
	for name, magic := range map[string]uint32{"ext4": unix.EXT4_SUPER_MAGIC, "XFS": unix.XFS_SUPER_MAGIC, "btrfs": unix.BTRFS_SUPER_MAGIC, "overlayfs": unix.OVERLAYFS_SUPER_MAGIC} {
		assert.True(t, traitsOf(magic).handles, name)
	}
}

// TestKeepsAttrs checks that attributes are kept only where the numbers of an object are
// its own.
func TestKeepsAttrs(t *testing.T) {
	for name, magic := range map[string]uint32{"bcachefs": bcachefsMagic, "overlayfs": unix.OVERLAYFS_SUPER_MAGIC, "NFS": unix.NFS_SUPER_MAGIC} {
		assert.False(t, traitsOf(magic).attrs, name)
	}
	for name, magic := range map[string]uint32{"ext4": unix.EXT4_SUPER_MAGIC, "btrfs": unix.BTRFS_SUPER_MAGIC} {
		assert.True(t, traitsOf(magic).attrs, name)
	}
}

// TestMappedTypes checks that only files are lent from mappings whose mappings show what
// was written.
func TestMappedTypes(t *testing.T) {
	for name, magic := range map[string]uint32{
		"overlayfs": unix.OVERLAYFS_SUPER_MAGIC, "FUSE": unix.FUSE_SUPER_MAGIC, "NFS": unix.NFS_SUPER_MAGIC, "SMB": unix.SMB2_SUPER_MAGIC,
		"9p": unix.V9FS_MAGIC, "Ceph": unix.CEPH_SUPER_MAGIC, "GFS2": gfs2Magic, "unknown": 0x12345678,
	} {
		assert.False(t, traitsOf(magic).coherentMmap, name)
	}
	for name, magic := range map[string]uint32{"ext4": unix.EXT4_SUPER_MAGIC, "XFS": unix.XFS_SUPER_MAGIC, "btrfs": unix.BTRFS_SUPER_MAGIC, "tmpfs": unix.TMPFS_MAGIC} {
		assert.True(t, traitsOf(magic).coherentMmap, name)
	}
}

// TestForgetfulHandles checks that if the kernel opens handles only while the
// inode is cached, the table's handles outlive the cache and the daemon,
// without the kernel's generation numbers.
func TestForgetfulHandles(t *testing.T) {
	o := Options{fsType: unix.FUSE_SUPER_MAGIC}
	w := newTestFS(t, o)
	w.hostDir("d")
	w.hostFile("d/f")
	h := w.walk("d", "f")
	table, ok := w.f.handles.(*tableHandles)
	require.True(t, ok, "a kernel handle")
	assert.False(t, table.hasGeneration, "generations are in the kernel's handle")
	assert.Nil(t, w.f.RootID())
	assert.False(t, w.f.leases.allowed)
	w.reopen()
	require.NoError(t, w.getattr(h))
	if !table.noSearch {
		w.hostMove("d/f", "d/g")
		w.reopen()
		require.NoError(t, w.getattr(h), "birth times exist")
	}
}

// TestBlindHandles checks that in a file system with inode numbers alone, an
// object is recognized by number and name together.
func TestBlindHandles(t *testing.T) {
	vfstest.NeedRoot(t)
	w := newTestFS(t, Options{fsType: unix.FUSE_SUPER_MAGIC})
	dir := t.TempDir()
	require.NoError(t, unix.Mount("ramfs", dir, "ramfs", 0, "")) // which has no birth times
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, w.f.Close())
	w.s.dir = dir
	w.s.o.StateDir = t.TempDir()
	w.f = w.s.open(t)
	if !w.f.handles.(*tableHandles).noSearch {
		t.Skip("ramfs has birth times here")
	}
	w.hostDir("d")
	w.hostFile("d/f")
	w.hostFile("d/g")
	f, g := w.walk("d", "f"), w.walk("d", "g")
	w.reopen()
	require.NoError(t, w.getattr(f))
	_, err := w.f.Remove(t.Context(), &vfs.Cred{}, w.walk("d"), "f")
	require.NoError(t, err)
	assert.ErrorIs(t, w.getattr(f), unix.ESTALE)
	w.hostMove("d/g", "d/f")
	w.reopen()
	assert.ErrorIs(t, w.getattr(f), unix.ESTALE)
	assert.ErrorIs(t, w.getattr(g), unix.ESTALE, "another name: it may be another file")
	assert.Equal(t, g, w.walk("d", "f"), "until it is seen again")
	require.NoError(t, w.getattr(g))
}
