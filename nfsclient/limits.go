package nfsclient

import "time"

// The package's limits.
const (
	// defaultTransfer is the size in bytes of a READ or WRITE if the server
	// allows it: the Linux client's maximum.
	defaultTransfer = 1 << 20

	// pageSize, in bytes, divides the sizes of READ and WRITE if the server's
	// limits allow it, and is their size if the server states none.
	pageSize = 4096

	// defaultDepth is the number of calls that one transfer keeps in flight,
	// and maxDepth the largest configurable number.
	defaultDepth = 16
	maxDepth     = 1024

	// defaultWindow is the number of bytes of a copy that may wait for a
	// COMMIT. It bounds the copy's memory, and the time for which a server's
	// disk can delay the copy.
	defaultWindow = 64 << 20

	// minCommitWindow is the smallest commitWindow, in bytes. A COMMIT must
	// take longer than slowCommit WRITEs for the commitWindow to grow. COMMIT
	// and WRITE have the same network and queueing delays, so a longer COMMIT
	// is due to the server's disk.
	minCommitWindow = 4 << 20
	slowCommit      = 4

	// maxBacklog is the number of bytes that a WriteBehind queues while its
	// calls are in flight: enough for the next calls to follow immediately.
	maxBacklog = 4 << 20

	// smallBlock is a WriteBehind's smallest block in bytes: a page, which
	// holds most short writes.
	smallBlock = pageSize

	// maxIdleReads is the number of consecutive reads for which a source may
	// return neither bytes nor an error.
	maxIdleReads = 100

	// maxListing is the maximum READDIR or READDIRPLUS reply size in bytes:
	// some hundred entries, which are in memory together.
	maxListing = 64 << 10

	// maxSeen is the number of names, at 8 bytes each, that a listing remembers
	// to restart when the server has forgotten its cookie. Longer listings fail
	// then.
	maxSeen = 1 << 20

	// maxRestarts is the number of consecutive restarts without a new name
	// after which a listing fails.
	maxRestarts = 8

	// maxLinks is the number of symbolic links followed in one path, as on
	// Linux.
	maxLinks = 40

	// maxTree is the depth to which RemoveAll descends. A server could invent
	// an infinite tree.
	maxTree = 1000

	// maxSweeps is the number of times that RemoveAll empties a directory that
	// other clients fill concurrently.
	maxSweeps = 8

	// maxFlavors is the maximum number of security flavors that an export may
	// list.
	maxFlavors = 64

	// maxMountList is the maximum EXPORT or DUMP reply size in bytes. The
	// protocol sets no bound.
	maxMountList = 1 << 20
)

// The package's times.
const (
	// firstPause is the pause before a postponed call is repeated. Each further
	// pause is twice as long, up to lastPause, which is Linux's fixed pause.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second

	// defaultPatience is the time for which a call is repeated before the
	// caller gets the server's NFS3ERR_JUKEBOX.
	defaultPatience = time.Minute

	// linger is the time after which a WriteBehind commits data unasked, as
	// Linux does with dirty pages. By then, other clients see the lines that a
	// program logs. The time is short because the kernel does not report
	// sync(2) to a FUSE file system.
	linger = time.Second

	// searchStep is the time limit for one step of a MountSearch, including the
	// connection: it allows one SYN retransmission. All four steps together
	// take less than ten seconds, after which users assume that a program
	// hangs.
	searchStep = 2 * time.Second
)
