// Package posix serves a directory of the host as a vfs.FS, with handles that
// outlive renames and restarts, in the name of each caller.
//
//	handle ─handles─▶ object ──────▶ file            one descriptor per
//	         │        O_PATH fd,     caller and access,  cached, counted,
//	         │        WCC lock       opened by caller    closed when idle
//	         ├ kernel: open_by_handle_at, where allowed
//	         └ table:  inode ▶ (parent inode, name), on file in the state directory
//
// # Handles
//
// Where the kernel opens files by handle (CAP_DAC_READ_SEARCH, and a file
// system that has handles and keeps them), its handles are used: kind 1, in constant
// memory. Elsewhere, as in most containers and for ordinary users, a handle
// is the inode number, a digest of birth time and generation, and the inode
// number of the directory where the object was first seen: kind 2. A table on
// file leads from there to a name. It takes some 60 octets of the state
// directory and 20 to 40 of memory for each object that a client has seen and
// that was not removed since. What a local process renames within a directory
// is found by reading that directory once; what it moves elsewhere is ESTALE
// until a client finds it again. On overlayfs, a file of a lower layer gets
// another handle when it is first written to.
//
// # Identity
//
// A process that is root does each operation with the caller's uid, gid and
// groups on a thread locked for it, so that the kernel decides, ACLs and
// quotas included. Another process does everything as its own user, whoever
// calls. Two departures are NFS's own (RFC 1813, Section 4.4), and knfsd's:
// the owner of a file may read and write it whatever its mode, and who may
// execute a file may read it. Access answers without them. Both need root.
//
// # Extent
//
// The export is what lies in the directory's file system and mount. Other
// mounts inside it do not show: as with knfsd without crossmnt, a name that
// is a mount point shows the directory beneath the mount, where the process
// may clone the mount (CAP_SYS_ADMIN); else looking it up is EACCES. A
// handle reaches an object that another process has moved out of the
// directory, as with knfsd without subtree_check, but ".." does not lead
// there. Handles of the kernel's are numbers that can be guessed: who hands
// them to clients must seal them.
//
// Within is for subtree_check. The kernel knows a path of all directories, and
// of files that were found by a name lately; a walk along it from the root, as
// the caller, shows that it leads where it says. knfsd has the directory in
// the handle of a file instead, which so changes when the file is moved to
// another one; here handles stay. For a file that was opened by a handle of the
// kernel's alone there may be no path, and that is ESTALE: who needs Within sets
// TableHandles, which are opened by names.
//
// # Leases
//
// Lease asks the kernel to tell of a local process that is about to write to a
// file (fcntl(2), F_SETLEASE): a real-time signal comes to one thread, where it is
// blocked and read from a descriptor, so that handlers have no part in it. A leased
// object stays open, and its place becomes the descriptor that has the lease, so
// that a lease costs one descriptor; they may take half of what RLIMIT_NOFILE
// allows. Where the daemon is neither the owner of the file nor can become him, it
// needs CAP_LEASE. The kernel gives no lease of directories, and none tells of
// changes of attributes and names.
//
// # WCC data
//
// Attributes before and after a change are read under a lock of the object
// (of both directories in a rename), so nothing done through the same FS
// lies between them. Changes by other processes of the host may.
//
// The package must not know RPC, XDR, exports or the squashing of callers.
// Slices belong to the caller; Entry.Name lives during the call of fn.
// It needs Linux 5.8 and /proc.
package posix
