package posix

// File systems that are compared with the reference.
const (
	FUSEOnNFSRDMAD   = "mountrdma, nfsrdmad"
	FUSEOnKNFSD      = "mountrdma, knfsd"
	LinuxOnNFSRDMAD  = "Linux, nfsrdmad"
	Linux4OnNFSRDMAD = "Linux over NFSv4.2, nfsrdmad"
)

var (
	all      = []string{FUSEOnNFSRDMAD, FUSEOnKNFSD, LinuxOnNFSRDMAD, Linux4OnNFSRDMAD}
	version3 = []string{FUSEOnNFSRDMAD, FUSEOnKNFSD, LinuxOnNFSRDMAD}
	fuse     = []string{FUSEOnNFSRDMAD, FUSEOnKNFSD}
	linux    = []string{LinuxOnNFSRDMAD, Linux4OnNFSRDMAD}
	linux4   = []string{Linux4OnNFSRDMAD}
)

// Reasons shared by several differences.
const (
	noSuchCall = "NFS has no call for it"
	noSuch3    = "NFSv3 has no call for it"
	sameSize   = "Linux does not send a size that the file already has"
	silly      = "NFS has no open files: a removed open file has a hidden name until its close"
)

// Differences are the mounts' legitimate deviations from the tmpfs on the
// host. docs/posix.md lists them.
var Differences = []Difference{
	{"access-many-groups", all, []string{
		"- the 18th: ok",
		"+ the 18th: EACCES",
	}, "AUTH_SYS carries 16 groups (RFC 5531)"},
	{"acl", linux4, []string{
		"- get: ENODATA",
		"+ get: ENOTSUP",
	}, "Linux has no POSIX lists over NFSv4"},
	{"change-mapping", fuse, []string{
		"- write through a mapping, msync: file mtime+ctime",
		"+ write through a mapping, msync: file atime+mtime+ctime",
	}, "a page is read from the server before a write to it"},
	{"change-open", linux4, []string{
		"- O_TRUNC of nothing: file mtime+ctime",
		"+ O_TRUNC of nothing: file none",
	}, sameSize},
	{"change-read", []string{FUSEOnKNFSD, LinuxOnNFSRDMAD}, []string{
		"- read again: file atime",
		"+ read again: file none",
	}, "cached data is read without the server, which keeps the times"},
	{"change-truncate", linux, []string{
		"- truncate to 3: file mtime+ctime",
		"+ truncate to 3: file none",
	}, sameSize},
	{"fallocate", version3, []string{
		"- fallocate: ok",
		"- size of f: 10010",
		"+ fallocate: ENOTSUP",
		"+ size of f: 0",
	}, noSuch3},
	{"fallocate-keep-size", all, []string{
		"- fallocate: ok",
		"+ fallocate: ENOTSUP",
	}, noSuchCall},
	{"fallocate-punch-hole", version3, []string{
		"- punch: ok",
		"- a hole: true",
		"+ punch: ENOTSUP",
		"+ a hole: false",
	}, noSuch3},
	{"fifo-one-way", fuse, []string{
		"- write: ok",
		"- a pipe: true",
		"+ write: EACCES",
		"+ a pipe: false",
	}, "the kernel opens pipes and devices without a query: a user without both read and write permission sees an empty file that no user may open"},
	{"flock-and-record", []string{FUSEOnNFSRDMAD, Linux4OnNFSRDMAD}, []string{
		"- record lock: ok",
		"+ record lock: EAGAIN",
	}, "a flock is a byte-range lock of the whole file to the server (flock(2))"},
	{"flock-reader", linux4, []string{
		"- exclusive, of a reader: ok",
		"+ exclusive, of a reader: EBADF",
	}, "over NFSv4, Linux's flock is a byte-range lock, which is exclusive only for writers (flock(2))"},
	{"hole-seek", version3, []string{
		"- seek 3 from 0: 1048576 ok",
		"- seek 4 from 0: 0 ok",
		"+ seek 3 from 0: 0 ok",
		"+ seek 4 from 0: 3145728 ok",
		"- seek 4 from 1048581: 2097152 ok",
		"- seek 3 from 2097152: -1 ENXIO",
		"- seek 4 from 2097152: 2097152 ok",
		"+ seek 4 from 1048581: 3145728 ok",
		"+ seek 3 from 2097152: 2097152 ok",
		"+ seek 4 from 2097152: 3145728 ok",
	}, noSuch3 + ": all of a file is data (SEEK_DATA is 3, SEEK_HOLE 4)"},
	{"link-unlinked", fuse, []string{
		"- in .: []",
		"+ in .: [\".nfs(number)\"]",
	}, silly},
	{"link-unlinked", linux, []string{
		"- link: ENOENT",
		"- in .: []",
		"+ link: ok",
		"+ in .: [\".nfs(number)\" \"b\"]",
	}, silly + ", and Linux finds the file by that name"},
	{"open-flags", linux, []string{
		"- both: ok",
		"- append true, direct true, rw true",
		"+ both: EINVAL",
		"+ append false, direct false, rw true",
	}, "Linux's NFS client does not append with O_DIRECT"},
	{"open-noatime", all, []string{
		"- read: mine none",
		"+ read: mine atime",
	}, "an NFS READ cannot request that the server keep the access time"},
	{"open-tmpfile", all, []string{
		"- open: ok",
		"- links 0",
		"- in .: []",
		"+ open: ENOTSUP",
	}, noSuchCall},
	{"open-tmpfile-linked", all, []string{
		"- open: ok",
		"- link: ok",
		"- f holds \"content\"",
		"+ open: ENOTSUP",
	}, noSuchCall},
	{"open-truncate", linux4, []string{
		"- to read: ok",
		"- size of f: 0",
		"+ to read: EACCES",
		"+ size of f: 5",
	}, "a change of the size needs an open for writing (RFC 8881, Section 9.1.2), as on knfsd"},
	{"rename-exchange", all, []string{
		"- a to b: ok",
		"- a is a directory: true",
		"+ a to b: EINVAL",
		"+ a is a directory: false",
	}, noSuchCall},
	{"rename-noreplace", all, []string{
		"- a to c: ok",
		"- in .: [\"b\" \"c\"]",
		"+ a to c: EINVAL",
		"+ in .: [\"a\" \"b\"]",
	}, noSuchCall},
	{"rename-over-open", fuse, []string{
		"- in .: [\"b\"]",
		"+ in .: [\".nfs(number)\" \"b\"]",
	}, silly},
	{"rename-over-open", linux, []string{
		"- size 4, links 0",
		"+ size 4, links 1",
		"- in .: [\"b\"]",
		"+ in .: [\".nfs(number)\" \"b\"]",
	}, silly},
	{"socket-of-another", fuse, []string{
		"- user 1000, mode 600: EACCES",
		"+ user 1000, mode 600: ECONNREFUSED",
		"- user 1000, mode 644: EACCES",
		"+ user 1000, mode 644: ECONNREFUSED",
		"- user 1000, mode 600: EACCES",
		"+ user 1000, mode 600: ECONNREFUSED",
	}, "a user without permission to connect sees an empty file instead of the socket"},
	{"times-by-user", []string{FUSEOnNFSRDMAD, LinuxOnNFSRDMAD, Linux4OnNFSRDMAD}, []string{
		"- writable one now: EPERM",
		"+ writable one now: ok",
	}, "a user with write permission may set each time to the server's (RFC 1813, SETATTR), not only both"},
	{"times-by-user", []string{FUSEOnKNFSD}, []string{
		"- writable one now: EPERM",
		"+ writable one now: ok",
		"- readable one now: EPERM",
		"+ readable one now: EACCES",
	}, "a user with write permission may set each time to the server's (RFC 1813, SETATTR), not only both"},
	{"times-range", version3, []string{
		"- times of file: -1.000000000 -1.000000000",
		"+ times of file: 0.000000000 0.000000000",
		"- times of file: 4294967296.000000000 4294967296.000000000",
		"+ times of file: 4294967295.000000000 4294967295.000000000",
	}, "NFSv3 times are from 1970 to 2106; the kernel sets the nearest"},
	{"truncate-clears-suid", []string{FUSEOnKNFSD}, []string{
		"- mode of file: 0777",
		"+ mode of file: 6777",
		"- mode of file: 0777",
		"+ mode of file: 6777",
	}, "Linux's knfsd clears set-user-ID and set-group-ID when a file is written to, not when it is truncated"},
	{"unlink-link", fuse, []string{
		"- in .: [\"b\"]",
		"+ in .: [\".nfs(number)\" \"b\"]",
	}, silly},
	{"unlink-link", linux, []string{
		"- links 1",
		"+ links 2",
		"- in .: [\"b\"]",
		"+ in .: [\".nfs(number)\" \"b\"]",
	}, silly},
	{"unlink-open", linux, []string{
		"- links 0",
		"+ links 1",
	}, silly},
	{"unlink-open-listed", fuse, []string{
		"- in .: []",
		"+ in .: [\".nfs(number)\"]",
	}, silly},
	{"unlink-open-listed", linux, []string{
		"- in .: []",
		"+ in .: [\".nfs(number)\"]",
	}, silly},
	{"unlink-open-rmdir", all, []string{
		"- rmdir: ok",
		"+ rmdir: ENOTEMPTY",
	}, silly},
	{"unlink-open-twice", linux, []string{
		"- links 0 and 0",
		"+ links 1 and 1",
	}, silly},
	{"write-clears-suid", linux4, []string{
		"- mode of file: 0767",
		"+ mode of file: 2767",
	}, "the server clears set-group-ID; if the group has no right to execute, Linux does not expect that, and keeps the cached mode, as on knfsd"},
	{"xattr-list", fuse, []string{
		"- 0 ok",
		"+ -1 ENOTSUP",
	}, noSuch3},
	{"xattr-list", linux4, []string{
		"- 0 ok",
		"+ 16 ok",
	}, "Linux lists the NFSv4 access list, system.nfs4_acl"},
	{"xattr-user", version3, []string{
		"- set: ok",
		"- get: ok",
		"- \"value\"",
		"- get what is not there: ENODATA",
		"- remove: ok",
		"+ set: ENOTSUP",
		"+ get: ENOTSUP",
		"+ get what is not there: ENOTSUP",
		"+ remove: ENOTSUP",
	}, noSuch3},
}
