package doctor

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKinds checks that the lists of file systems agree with the daemon's own list, in
// package vfs/posix.
func TestKinds(t *testing.T) {
	kinds := map[string][]string{
		"unix.EXT4_SUPER_MAGIC": {"ext2", "ext3", "ext4"}, "unix.XFS_SUPER_MAGIC": {"xfs"}, "unix.TMPFS_MAGIC": {"tmpfs"}, "unix.RAMFS_MAGIC": {"ramfs"},
		"unix.BTRFS_SUPER_MAGIC": {"btrfs"}, "unix.F2FS_SUPER_MAGIC": {"f2fs"}, "unix.NILFS_SUPER_MAGIC": {"nilfs2"}, "zfsMagic": {"zfs"}, "jfsMagic": {"jfs"},
		"bcachefsMagic": {"bcachefs"}, "unix.EROFS_SUPER_MAGIC_V1": {"erofs"}, "unix.ISOFS_SUPER_MAGIC": {"iso9660"}, "unix.REISERFS_SUPER_MAGIC": {"reiserfs"},
		"unix.SQUASHFS_MAGIC": {"squashfs"}, "unix.UDF_SUPER_MAGIC": {"udf"}, "ntfs3Magic": {"ntfs3"}, "unix.CEPH_SUPER_MAGIC": {"ceph"},
		"unix.OCFS2_SUPER_MAGIC": {"ocfs2"}, "gfs2Magic": {"gfs2"}, "unix.OVERLAYFS_SUPER_MAGIC": {"overlay"}, "unix.NFS_SUPER_MAGIC": {"nfs"},
	}
	source, err := os.ReadFile("../../vfs/posix/fstype.go")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(source), "var knownTypes")
	require.True(t, found)
	entries := regexp.MustCompile(`(?s)(\w+(?:\.\w+)?): *\{(.*?)\}`).FindAllStringSubmatch(list, -1)
	require.Len(t, entries, len(kinds))
	for _, e := range entries {
		require.NotEmpty(t, kinds[e[1]], e[1])
		for _, kind := range kinds[e[1]] {
			assert.Equal(t, strings.Contains(e[2], "local: true"), slices.Contains(localKinds, kind), kind)
			assert.Equal(t, strings.Contains(e[2], "handles: true"), keepsHandles(kind), kind)
		}
	}
	assert.Len(t, slices.Concat(localKinds, keepingKinds), len(slices.Concat(slices.Collect(maps.Values(kinds))...))-1, "all but NFS")
}
