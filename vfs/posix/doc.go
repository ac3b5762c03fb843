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
// If the kernel opens files by handle (CAP_DAC_READ_SEARCH, and a file system
// that has handles and keeps them), the kernel's handles are used: kind 3, in
// constant memory. Otherwise, as in most containers and for ordinary users,
// handles are of kind 2: the inode number, a digest of birth time and
// generation, and the inode number of the directory where the object was first
// seen. A table on file maps the handle to a name. The table takes some 60
// bytes of the state directory and 20 to 40 bytes of memory for each object
// that a client has seen and that was not removed since. If a local process
// renames an object within a directory, it is found by reading that directory
// once. If a local process moves it to another directory, its handle is ESTALE
// until a client finds the object again. On overlayfs, a file of a lower layer
// gets another handle when it is first written to.
//
// # Identity
//
// A process running as root does each operation with the caller's uid, gid and
// groups on a thread locked for it. The kernel thus decides, ACLs and quotas
// included. Any other process does everything as its own user, for every
// caller. Two departures are NFS's own (RFC 1813, Section 4.4), and knfsd's:
// the owner of a file may read and write it regardless of its mode, and a user
// who may execute a file may read it. Access answers without these departures.
// Both need root.
//
// # Extent
//
// The export is the part of the directory that lies in its own file system and
// mount. Other mounts inside it do not show, as with knfsd without crossmnt. If
// the process may clone the mount (CAP_SYS_ADMIN), a name that is a mount point
// shows the directory beneath the mount; otherwise looking it up is EACCES. A
// handle still reaches an object that another process has moved out of the
// directory, as with knfsd without subtree_check, but ".." does not lead out.
// The kernel's handles are numbers that can be guessed: a server that gives
// them to clients must seal them.
//
// Within implements subtree_check. The kernel knows a path of every directory,
// and of files that were recently found by name. A walk along that path from
// the root, as the caller, proves that the path is true. knfsd puts the
// directory into the handle of a file instead, and the handle changes when the
// file moves to another directory; here handles stay. For a file opened only by
// a handle of the kernel's there may be no path, and Within returns ESTALE. A
// server that needs Within sets TableHandles, because those handles are opened
// by name.
//
// # Open files
//
// A file opened by OpenFile keeps its object in the cache, and shares one
// descriptor with the other calls of the same caller: each learns of data that
// another has lost. Open files may use half of the descriptors of the cache.
// While a removed file is open, its handle is good too.
//
// # Leases
//
// Lease asks the kernel to report a local process that is about to write to a
// file (fcntl(2), F_SETLEASE). The kernel sends a real-time signal to one
// thread. The signal is blocked there and read from a descriptor, so signal
// handlers are not involved. A leased object stays open, and its O_PATH
// descriptor is replaced by the descriptor that has the lease, so a lease costs
// one descriptor. Leases may use half of RLIMIT_NOFILE. A daemon that is
// neither the owner of the file nor able to become the owner needs CAP_LEASE.
// The kernel gives no leases of directories, and its leases do not report
// changes of attributes or names. For holders that must learn of these too,
// inotify(7) reports them after the fact: one inotify descriptor, and one watch
// of each such file. A watch is of an inode, so a file's holders share it.
// /proc/sys/fs/inotify/max_user_watches bounds the watches.
//
// For vfs.LeaseWrite, the kernel also reports a process that is about to read. It
// gives such a lease only if the FS itself has one open file description of the
// file, for reading and writing. All descriptors of the object are duplicates of
// that one until the lease ends, and faccessat(2) says which callers may open it.
//
// # Locks
//
// OpenLocks locks files against local processes by open file descriptions
// (fcntl(2), F_OFD_SETLK): one for each locked file, in its own descriptor, and
// with the rights of the daemon. Locks by fcntl and lockf of local processes,
// and locks of other servers on the host, are in the way of these, and these in
// their way; locks by flock(2) are apart. The description is open for writing
// only while an exclusive lock stands. A local file system that answers ENOLCK
// lacks memory, so the caller must try again. A host that answers EINVAL,
// ENOSYS or EOPNOTSUPP does not lock the file, nor does a FUSE or network file
// system with ENOLCK for its first lock, nor a file that the daemon may not
// open: OpenLocks or SetLock then returns EOPNOTSUPP, and the log says so once.
//
// # Attributes
//
// Attributes are read by statx(2) for each answer. SetExclusive says that only this
// process changes the directory. Then attributes that were read are kept for some
// seconds, in one cache for all FS of the process, which every change drops the
// attributes from that it may change. Two attributes may be old nevertheless, by
// some seconds: the access time, if a process of the host reads, and the storage
// used, which writeback may change.
//
// # WCC data
//
// Attributes before and after a change are read under a lock of the object (of
// both directories in a rename), so no other operation of the same FS lies
// between them. Changes by other processes of the host may.
//
// The package must not know RPC, XDR, exports or the squashing of callers.
// Slices belong to the caller; Entry.Name is valid during the call of fn. The
// package needs Linux 5.8 and /proc.
package posix
