package nfsclient

import "time"

// Limits of this package.
const (
	// defaultTransfer is the largest number of bytes of one READ or WRITE if
	// the server allows more: the maximum of Linux clients.
	defaultTransfer = 1 << 20

	// pageSize divides the sizes of READ and WRITE, if the server allows that,
	// and is their size if the server names none. In bytes.
	pageSize = 4096

	// defaultDepth is the number of calls in flight of one transfer, and
	// maxDepth the largest number that can be configured.
	defaultDepth = 16
	maxDepth     = 1024

	// defaultWindow is how many bytes of one copy may wait for a COMMIT. It
	// bounds the copy's memory, and how long a server's disk can delay the
	// copy.
	defaultWindow = 64 << 20

	// minLot is the smallest commitWindow, in bytes. A COMMIT must take longer
	// than slowCommit WRITEs for the commitWindow to grow. COMMIT and WRITE
	// travel and queue alike, so that a longer COMMIT is due to the server's
	// disk.
	minLot     = 4 << 20
	slowCommit = 4

	// maxBacklog is how many bytes of a WriteBehind may wait for calls under
	// way to end: enough for the next calls to follow at once.
	maxBacklog = 4 << 20

	// smallBlock is the memory in bytes that a WriteBehind lends for the
	// shortest write: a page, the size of most short writes.
	smallBlock = pageSize

	// maxIdleReads is how often in a row a source may return neither bytes nor
	// an error.
	maxIdleReads = 100

	// maxListing is the size in bytes of one reply of READDIR or READDIRPLUS:
	// some hundred entries, which are in memory at once.
	maxListing = 64 << 10

	// maxSeen is the number of names, at 8 bytes each, that a listing remembers
	// to restart when the server has forgotten its cookie. Longer listings fail
	// then.
	maxSeen = 1 << 20

	// maxRestarts is how often in a row a listing restarts without finding a
	// new name.
	maxRestarts = 8

	// maxLinks is the number of symbolic links followed in one path: Linux's
	// limit.
	maxLinks = 40

	// maxTree is the depth of directories to which RemoveAll descends. A server
	// could invent deeper directories without end.
	maxTree = 1000

	// maxSweeps is how often RemoveAll empties a directory that other clients
	// fill at the same time.
	maxSweeps = 8

	// maxFlavors is the number of authentication flavours of one export.
	maxFlavors = 64

	// maxMountList is the size in bytes of a reply to EXPORT and DUMP. The
	// protocol sets no bound.
	maxMountList = 1 << 20
)

// Times of this package.
const (
	// firstPause is the pause before a call that the server put off is
	// repeated. Each further pause is twice as long, up to lastPause: Linux's
	// only pause.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second

	// defaultPatience is how long a call is put off before the caller learns of
	// the delay.
	defaultPatience = time.Minute

	// linger is how long a WriteBehind keeps data before it puts them on stable
	// storage by itself, as Linux does with its dirty pages. By then, other
	// clients see the lines that a program logs.
	linger = 5 * time.Second

	// searchStep is the time limit of one step of a MountSearch, including the
	// connection: a lost SYN may be sent again once. All four steps take less
	// than ten seconds, after which users believe that a program hangs.
	searchStep = 2 * time.Second
)
