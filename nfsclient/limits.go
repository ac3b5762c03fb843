package nfsclient

import "time"

// Limits of our own.
const (
	// defaultTransfer is the most octets of one READ or WRITE where the
	// server allows more: what Linux clients ask for at most.
	defaultTransfer = 1 << 20

	// pageSize is the octets that READ and WRITE sizes are a multiple of,
	// where the server lets them, and their size with a server that names
	// none.
	pageSize = 4096

	// defaultDepth is the number of calls in flight of one transfer, and
	// maxDepth the most that can be asked for.
	defaultDepth = 16
	maxDepth     = 1024

	// defaultWindow is the octets of one copy that wait for a COMMIT. It
	// bounds the copy's memory, and how long a server's disk can keep it
	// waiting.
	defaultWindow = 64 << 20

	// minLot is the octets of the smallest lot of a WriteBehind, and
	// slowCommit how many times as long as a WRITE a COMMIT must take for
	// the next lot to be larger. They travel and queue alike; what is beyond
	// that is the server's disk.
	minLot     = 4 << 20
	slowCommit = 4

	// maxBacklog is the octets of a WriteBehind that wait for calls under
	// way to end: enough for the next ones to follow at once.
	maxBacklog = 4 << 20

	// smallBlock is the octets of memory that a WriteBehind lends for the
	// shortest write: a page, which is what most short writes are.
	smallBlock = pageSize

	// maxIdleReads is how often in a row a source may return neither octets
	// nor an error.
	maxIdleReads = 100

	// maxListing is the octets of one reply of READDIR or READDIRPLUS:
	// some hundred entries, which are in memory at once.
	maxListing = 64 << 10

	// maxSeen is the number of names, at 8 octets each, that a listing
	// remembers so that it can start again when the server has forgotten
	// where it was. Longer listings fail then.
	maxSeen = 1 << 20

	// maxRestarts is how often in a row a listing starts again and finds
	// nothing new.
	maxRestarts = 8

	// maxLinks is the number of symbolic links on the way of one path:
	// Linux's limit.
	maxLinks = 40

	// maxTree is the number of directories below each other that RemoveAll
	// goes into. A server could make up more without end.
	maxTree = 1000

	// maxSweeps is how often RemoveAll empties a directory that others
	// fill at the same time.
	maxSweeps = 8

	// maxFlavors is the number of authentication flavours of one export.
	maxFlavors = 64

	// maxMountList is the octets of an answer to EXPORT and DUMP, which
	// the protocol does not bound.
	maxMountList = 1 << 20
)

// Times of our own.
const (
	// A call that the server puts off comes again after firstPause, then
	// after twice as long each time, up to lastPause: Linux's only pause.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second

	// defaultPatience is how long a call is put off before the caller
	// learns of it.
	defaultPatience = time.Minute

	// linger is how long a WriteBehind keeps data to itself before it puts
	// them on stable storage unasked, as Linux does with its dirty pages.
	// Other clients see by then what a program logs.
	linger = 5 * time.Second

	// searchStep is how long one step of a MountSearch takes, connecting
	// included: a lost SYN may be sent again once. All four stay below the
	// ten seconds after which people believe that a program hangs.
	searchStep = 2 * time.Second
)
