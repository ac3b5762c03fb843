//go:build linux

package posix

import "golang.org/x/sys/unix"

// Of file systems statfs(2) tells the type by a number. These have none in package
// unix.
const (
	gfs2Magic     = 0x01161970
	ntfs3Magic    = 0x7366746e
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
	jfsMagic      = 0x3153464a
)

// localTypes are file systems whose files change by the hands of one kernel alone, and
// whose inodes are found by number at any time.
var localTypes = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:  true, // ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
	unix.NILFS_SUPER_MAGIC: true,
	unix.TMPFS_MAGIC:       true,
	unix.RAMFS_MAGIC:       true,
	zfsMagic:               true,
	bcachefsMagic:          true,
	jfsMagic:               true,
}

// keepingTypes are other file systems whose handles the kernel opens whether the inode is
// cached or not, or, as overlayfs's without nfs_export, not at all. FUSE and some others
// give out handles, and open them only until the inode leaves the cache.
var keepingTypes = map[uint32]bool{
	unix.CEPH_SUPER_MAGIC:      true,
	unix.EROFS_SUPER_MAGIC_V1:  true,
	unix.ISOFS_SUPER_MAGIC:     true,
	unix.OCFS2_SUPER_MAGIC:     true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
	unix.REISERFS_SUPER_MAGIC:  true,
	unix.SQUASHFS_MAGIC:        true,
	unix.UDF_SUPER_MAGIC:       true,
	gfs2Magic:                  true,
	ntfs3Magic:                 true,
}

// keepsHandles tells whether the kernel's handles are good for as long as the object is
// there.
func keepsHandles(fsType uint32) bool {
	return localTypes[fsType] || keepingTypes[fsType]
}

// leasesMeanMuch tells whether everybody who changes a file breaks the kernel's lease
// of it. Of FUSE, network and cluster file systems the kernel gives leases that the
// changes of other hosts leave alone, and of overlayfs such that not every local writer
// breaks.
func leasesMeanMuch(fsType uint32) bool { return localTypes[fsType] }
