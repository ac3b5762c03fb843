//go:build linux

package posix

import "golang.org/x/sys/unix"

// File system types in statfs(2) that package unix lacks.
const (
	gfs2Magic     = 0x01161970
	ntfs3Magic    = 0x7366746e
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
	jfsMagic      = 0x3153464a
)

// An fsTraits says what holds on a file system type. The zero value is safe, and holds for types
// without an entry in knownTypes.
type fsTraits struct {
	// local: only one kernel changes the files, and each change to a file breaks the kernel's
	// lease on it. Inodes can always be found by number. On FUSE, network and cluster file
	// systems other hosts' changes break no lease, and on overlayfs not every local writer
	// does.
	local bool

	// handles: the kernel opens its handles whether or not the inode is cached, or
	// never, as overlayfs's without nfs_export. FUSE and some others give out handles
	// but open them only until the inode leaves the cache.
	handles bool

	// coherentMmap: a mapping of a file shows what read(2) reads. On overlayfs, one from before
	// a file's first change shows the lower layer's file ever after. A network file system may
	// drop its pages only when a program reads or maps them.
	coherentMmap bool

	// links: all names with an inode number lead to one object as long as it exists. On
	// overlayfs without index, the first change through one name of a hard-linked lower-layer
	// file parts it from the others. FUSE file systems may do the same.
	links bool

	// attrs: an object has its own device and inode numbers within a mount, and only this
	// kernel changes attributes. On bcachefs, a snapshot's files have the originals' numbers.
	attrs bool

	// dirInodes: directories have the inode numbers that statx reports, so that a listing need
	// not look them up. A subvolume, for example, has another.
	dirInodes bool

	// reportsChanges: the kernel reports every change in a directory (inotify(7)). A ZFS
	// rollback is not reported, nor are changes by other hosts.
	reportsChanges bool

	// volatile: nothing outlives the mount.
	volatile bool

	// fineCtime: each change to an object moves its ctime if the earlier one was read, since
	// Linux 6.13.
	fineCtime bool

	// copiesUp: a change may give a lower-layer object another birth time, and its kernel
	// handle another form.
	copiesUp bool
}

// knownTypes are the file system types that differ from the zero value.
var knownTypes = map[uint32]fsTraits{
	unix.EXT4_SUPER_MAGIC: { // also ext2 and ext3
		local: true, handles: true, coherentMmap: true, links: true, attrs: true, dirInodes: true, reportsChanges: true, fineCtime: true,
	},
	unix.XFS_SUPER_MAGIC:       {local: true, handles: true, coherentMmap: true, links: true, attrs: true, dirInodes: true, reportsChanges: true, fineCtime: true},
	unix.TMPFS_MAGIC:           {local: true, handles: true, coherentMmap: true, links: true, attrs: true, dirInodes: true, reportsChanges: true, fineCtime: true, volatile: true},
	unix.RAMFS_MAGIC:           {local: true, handles: true, coherentMmap: true, links: true, attrs: true, dirInodes: true, volatile: true},
	unix.BTRFS_SUPER_MAGIC:     {local: true, handles: true, coherentMmap: true, links: true, attrs: true, reportsChanges: true, fineCtime: true},
	unix.F2FS_SUPER_MAGIC:      {local: true, handles: true, coherentMmap: true, links: true, attrs: true, reportsChanges: true},
	unix.NILFS_SUPER_MAGIC:     {local: true, handles: true, coherentMmap: true, links: true, attrs: true},
	zfsMagic:                   {local: true, handles: true, coherentMmap: true, links: true, attrs: true},
	jfsMagic:                   {local: true, handles: true, coherentMmap: true, links: true, attrs: true},
	bcachefsMagic:              {local: true, handles: true, coherentMmap: true, links: true},
	unix.EROFS_SUPER_MAGIC_V1:  {handles: true, coherentMmap: true, links: true},
	unix.ISOFS_SUPER_MAGIC:     {handles: true, coherentMmap: true, links: true},
	unix.REISERFS_SUPER_MAGIC:  {handles: true, coherentMmap: true, links: true},
	unix.SQUASHFS_MAGIC:        {handles: true, coherentMmap: true, links: true},
	unix.UDF_SUPER_MAGIC:       {handles: true, coherentMmap: true, links: true},
	ntfs3Magic:                 {handles: true, coherentMmap: true, links: true},
	unix.CEPH_SUPER_MAGIC:      {handles: true, links: true},
	unix.OCFS2_SUPER_MAGIC:     {handles: true, links: true},
	gfs2Magic:                  {handles: true, links: true},
	unix.NFS_SUPER_MAGIC:       {links: true},
	unix.OVERLAYFS_SUPER_MAGIC: {handles: true, copiesUp: true},
}

// traitsOf returns the traits of a file system type.
func traitsOf(fsType uint32) fsTraits { return knownTypes[fsType] }

// hasStableInodes reports whether inodes have the same numbers after another mount.
func (t *fsTraits) hasStableInodes() bool { return t.local && !t.volatile }
