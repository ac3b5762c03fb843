//go:build linux

package posix

import (
	"math"
	"time"
)

const (
	// defaultMaxFiles bounds the descriptors kept open where RLIMIT_NOFILE
	// would allow more: each costs the kernel some 700 octets, and a
	// janitor's visit.
	defaultMaxFiles = 16384

	// minMaxFiles is what a rename with data needs at once, many times.
	minMaxFiles = 64

	// defaultIdleTime is short because a descriptor open for writing keeps
	// the host from running the file and from remounting read-only.
	defaultIdleTime = 2 * time.Second

	// recheckTime is how late a change of an access control list, which
	// shows in ctime alone, as writing does, may come into force.
	recheckTime = time.Second

	// maxObjectFiles bounds the descriptors of one object, so that one
	// file used by all callers does not drive out everything else.
	maxObjectFiles = 16

	// maxVerdicts bounds the callers whose rights to one object are
	// remembered.
	maxVerdicts = 8

	// handleSlots is how many handles are remembered, each with some 70
	// octets of memory once it is used: the entries of a large directory,
	// which clients list again and again.
	handleSlots = 1 << 16

	// birthAge is how old an object must be for its birth time to tell it
	// from every later one with its inode number: many times the step of
	// the kernel's clock.
	birthAge = 100 * time.Millisecond

	// glanceName is the longest name, in octets, of NAME_MAX.
	glanceName = 255

	// slowBlocks is how much storage, in blocks of 512 octets, takes time to be
	// freed: a file of 16 MiB, which may be in as many pieces.
	slowBlocks = 16 << 20 / 512

	// minMapped is how many octets are lent from a mapping at least: to copy
	// fewer costs less than to look whether they are in memory.
	minMapped = 64 << 10

	// maxMapped is how many pages are lent at once at most: 4 MiB.
	maxMapped = 1 << 10

	// windowLen is how many octets of a file one mapping shows, and
	// maxWindows bounds the mappings of an FS: 64 GiB of addresses, with
	// up to 128 MiB of page tables.
	windowLen  = 64 << 20
	maxWindows = 1 << 10

	// maxRereads is how often the end of a file is looked for that others
	// keep moving.
	maxRereads = 8

	// maxLeaseSweep is how many leased files a tick looks at: a millisecond's
	// work.
	maxLeaseSweep = 4096

	// dirBufLen is the octets of directory entries read at once.
	dirBufLen = 16 << 10

	// plusGroup is the number of entries whose attributes are read in one
	// change of identity.
	plusGroup = 64

	// maxName is the longest name in octets, whatever the file system:
	// PATH_MAX with its NUL.
	maxName = 4095

	// maxLinkLen is the longest target of a symbolic link that is read, in
	// octets. Linux itself makes none above 4095.
	maxLinkLen = 64 << 10

	// aclRoom is the octets that most lists fit into, and maxXattr what the
	// kernel allows an extended attribute.
	aclRoom  = 512
	maxXattr = 64 << 10

	// maxDepth is how many directories deep an object may lie: PATH_MAX
	// with names of one octet.
	maxDepth = 2048

	// maxPlaces is how many names of one inode the table keeps, for hard
	// links.
	maxPlaces = 8

	// maxRecord is the longest record of the table file, in octets.
	maxRecord = recordFixed + maxPlaces*(placeFixed+maxName)

	// maxAbsent is how many handles are remembered whose object was not found,
	// absentTime for how long, and maxSearches how many directories are read
	// at a time to find one.
	maxAbsent   = 4096
	absentTime  = time.Minute
	maxSearches = 4

	// compactSlack is how many records the table file may hold beyond
	// twice the entries before it is written anew.
	compactSlack = 4096

	maxFileSize = math.MaxInt64
)
