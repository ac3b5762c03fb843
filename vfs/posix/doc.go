// Package posix serves a directory of the host as a vfs.FS. It acts as each
// caller, and its handles survive renames and restarts.
//
//	handle ─handles─▶ object ──────▶ file            one descriptor per
//	         │        O_PATH fd,     caller and access,  cached, counted,
//	         │        WCC lock       opened by caller    closed when idle
//	         ├ kernel: open_by_handle_at, where allowed
//	         └ table:  inode ▶ (parent inode, name), on file in the state directory
//
// # Handles
//
// If the kernel opens files by handle (CAP_DAC_READ_SEARCH, and a file system that has handles and
// keeps them), the kernel's handles are used: kind 3, in constant memory. Otherwise, as in most
// containers and for ordinary users, handles have kind 2: the inode number, a digest of birth time
// and generation, and the inode number of the directory where the object was first seen. A table on
// file (package handletable) maps the handle to a name. The table takes some 60 bytes in the state
// directory and 20 to 40 bytes in memory for each object that a client has seen and that was not
// removed since. If a local process renames an object within a directory, it is found by reading
// that directory once. If a local process moves it to another directory, its handle is ESTALE until
// a client finds the object again.
//
// # Types of file systems
//
// A list says what holds on each known file system type (fsTraits): whether data is lent from
// mappings, whether leases and the kernel's handles mean much, whether attributes may be kept, and
// whether all names with an inode number are one object. Every other type gets the safe values. On
// overlayfs, the first change to a lower-layer object copies it up: its handle leads to the copy,
// if the FS makes the change, or has the object in use when it looks. Each name of a hard-linked
// file has its own handle there and on FUSE, and no key, because a lower-layer file's names part at
// the first change: other names keep the old content, as local processes see it. With the kernel's
// handles (nfs_export) names do not part.
//
// # Identity
//
// A process running as root does each operation with the caller's uid, gid and groups on a thread
// locked for it. The kernel thus decides, ACLs and quotas included. Any other process does
// everything as its own user, for every caller. NFS (RFC 1813, Section 4.4), like knfsd, departs
// from the kernel twice: a file's owner may read and write it regardless of its mode, and a user
// who may execute a file may read it. Access ignores these departures. Both need root.
//
// # Extent
//
// The export is the part of the directory that lies in its own file system and mount. Other mounts
// inside it do not show, as with knfsd without crossmnt: a server that shows them opens an FS for
// each. If the process may clone the mount (CAP_SYS_ADMIN), a name that is a mount point shows the
// directory beneath the mount; otherwise looking it up is EACCES. A handle still opens an object that
// another process has moved out of the directory, as with knfsd without subtree_check, but ".." does
// not lead out. The kernel's handles are numbers that can be guessed: a server that gives them to
// clients must seal them.
//
// Within implements subtree_check. The kernel knows a path for every directory, and for files that
// were recently found by name. A walk along that path from the root, as the caller, proves that the
// path is true. knfsd puts the directory into a file's handle instead, and the handle changes when
// the file moves to another directory; here handles stay. A file opened only by a kernel handle may
// have no path, and Within returns ESTALE. A server that needs Within sets TableHandles, because
// those handles are opened by name.
//
// # Open files
//
// A file opened by OpenFile keeps its object in the cache, and shares one descriptor with the
// caller's other calls: each reports data that another has lost. Open files may use half of the
// cache's descriptors. While a removed file is open, its handle is good too.
//
// # Leases
//
// Lease asks the kernel to report a local process that is about to write to a file (fcntl(2),
// F_SETLEASE). The kernel sends a real-time signal to one thread. The signal is blocked there and
// read from a descriptor, so signal handlers are not involved. A leased object stays open, and the
// leased descriptor replaces its O_PATH descriptor, so a lease costs one descriptor. Leases may use
// half of RLIMIT_NOFILE. A daemon that neither is the file's owner nor can become it needs
// CAP_LEASE. The kernel grants no leases on directories, and its leases do not report changes to
// attributes or names. For holders that must learn about these too, inotify(7) reports them after
// the fact: one inotify descriptor, and one watch on each such file. A watch belongs to an inode,
// so a file's holders share it. /proc/sys/fs/inotify/max_user_watches bounds the watches.
//
// For vfs.LeaseWrite, the kernel also reports a process that is about to read. It grants such a
// lease only if the FS itself has one open file description for the file, for reading and writing.
// All the object's descriptors are duplicates until the lease is released, and faccessat(2) says
// which callers may open it.
//
// # Locks
//
// OpenLocks locks files against local processes by open file descriptions (fcntl(2), F_OFD_SETLK):
// one for each locked file, that of a File if possible, or else one opened with the daemon's rights. They conflict with
// local processes' fcntl and lockf locks, and with other servers' locks on the host; flock(2) locks
// are separate. The description is open for writing only while an exclusive lock exists. A local
// file system that returns ENOLCK lacks memory, so the caller must try again. A host that returns
// EINVAL, ENOSYS or EOPNOTSUPP does not lock the file, nor does a FUSE or network file system with
// ENOLCK for its first lock, nor a file that the daemon may not open: OpenLocks or SetLock then
// returns EOPNOTSUPP, and the log says so once.
//
// # Attributes
//
// Attributes are read by statx(2) for each reply. SetExclusive says that only this process changes
// the directory. Then attributes that were read are kept for some seconds, in one cache for all FS
// in the process; each change drops the attributes that it may affect. Two attributes may be some
// seconds old nevertheless: the access time, if a process on the host reads, and the storage used,
// which writeback may change.
//
// # WCC data
//
// Attributes before and after a change are read under the object's lock (under both directories' in
// a rename), so no other operation on the same FS lies between them. Changes by other processes on
// the host may.
//
// The package must not know RPC, XDR, exports or squashing. Slices belong to the caller; Entry.Name
// is valid during the call of fn. The package needs Linux 5.8 and /proc.
package posix
