//go:build linux

package posix

import "golang.org/x/sys/unix"

// statfs(2) reports the type of a file system as a number. Package unix lacks
// these.
const (
	gfs2Magic     = 0x01161970
	ntfs3Magic    = 0x7366746e
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
	jfsMagic      = 0x3153464a
)

// localTypes are file systems whose files only one kernel changes, and whose
// inodes can always be found by number.
var localTypes = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:  true, // also ext2 and ext3
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

// numberedTypes are file systems whose directories have the inode numbers that
// statx reports, so that a listing need not ask for them: a subvolume, for example,
// has another.
var numberedTypes = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC: true,
	unix.XFS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:      true,
	unix.RAMFS_MAGIC:      true,
}

// reportedTypes are file systems of which the kernel reports every change of a directory
// (inotify(7)). A rollback of ZFS is not reported, nor are changes by other hosts.
var reportedTypes = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:  true,
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:       true,
}

// keepingTypes are other file systems whose handles the kernel opens whether or
// not the inode is cached, or never, as overlayfs's without nfs_export. FUSE
// and some others give out handles but open them only until the inode leaves
// the cache.
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

// keepsHandles reports whether the kernel's handles are valid for as long as
// the object exists.
func keepsHandles(fsType uint32) bool {
	return localTypes[fsType] || keepingTypes[fsType]
}

// keepsAttrs reports whether only this host changes the files, and each has its own device
// and inode numbers within a mount. On bcachefs, files of a snapshot have those of the
// originals.
func keepsAttrs(fsType uint32) bool { return localTypes[fsType] && fsType != bcachefsMagic }

// leasesMeanMuch reports whether every change of a file breaks the kernel's
// lease of it. On FUSE, network and cluster file systems, changes made by other
// hosts do not break the kernel's leases. On overlayfs, not every local writer
// does.
func leasesMeanMuch(fsType uint32) bool { return localTypes[fsType] }
