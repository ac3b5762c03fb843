//go:build linux

package posix

import (
	"math"
	"time"
)

const (
	// defaultMaxFiles bounds the open descriptors if RLIMIT_NOFILE would allow
	// more: each costs the kernel some 700 bytes, and the janitor must check
	// it.
	defaultMaxFiles = 16384

	// minMaxFiles is many times the descriptors that one rename with data needs
	// at once.
	minMaxFiles = 64

	// defaultIdleTime is short because a descriptor open for writing keeps the
	// host from executing the file and from remounting read-only.
	defaultIdleTime = 2 * time.Second

	// recheckTime is how late a change of an access control list may take
	// effect. Only ctime shows such a change, and a write changes ctime too.
	recheckTime = time.Second

	// maxObjectFiles bounds the descriptors of one object, so that a file used
	// by all callers does not evict everything else.
	maxObjectFiles = 16

	// maxMovedLocks bounds the locks that are taken again only to close a file
	// for writing: among n locks, the kernel takes n steps for each.
	maxMovedLocks = 64

	// maxVerdicts bounds the callers whose rights to one object are cached.
	maxVerdicts = 8

	// handleSlots is how many handles are remembered, at some 70 bytes of
	// memory each once used. It covers the entries of a large directory that
	// clients list repeatedly.
	handleSlots = 1 << 16

	// attrPages times attrSlots is the number of objects whose attributes are
	// kept, at some 190 bytes of memory each once a page is used, and attrTime is
	// for how long.
	attrPages = 256
	attrSlots = 256
	attrTime  = 10 * time.Second

	// birthAge is how old an object must be for its birth time to distinguish
	// it from every later object with its inode number: many times the step of
	// the kernel's clock.
	birthAge = 100 * time.Millisecond

	// glanceName is the longest name, in bytes, of NAME_MAX.
	glanceName = 255

	// maxChangeCounts bounds the objects that were changed more than once in a
	// tick, at some 100 bytes of memory each.
	maxChangeCounts = 1 << 16

	// slowBlocks is how much storage, in blocks of 512 bytes, takes time to
	// free: a file of 16 MiB, which may be in as many pieces.
	slowBlocks = 16 << 20 / 512

	// minMapped is the least number of bytes lent from a mapping: copying fewer
	// is cheaper than checking whether they are in memory.
	minMapped = 64 << 10

	// minMappedInRun is minMapped from the longRun-th of some reads on, of which
	// each is at most runWidth bytes from the end of the one before: as far as 16
	// reads of 64 KiB may overtake one another.
	minMappedInRun = 16 << 10
	longRun        = 16
	runWidth       = 1 << 20

	// aheadLen is how many bytes around and behind a read of a run are asked
	// for, up to twice, and aheadTime how long the answer counts.
	aheadLen  = 256 << 10
	aheadTime = 10 * time.Millisecond

	// maxMapped is the most pages lent at once: 4 MiB.
	maxMapped = 1 << 10

	// windowLen is how many bytes of a file one mapping covers, and maxWindows
	// bounds the mappings of an FS: 64 GiB of addresses, with up to 128 MiB of
	// page tables.
	windowLen  = 64 << 20
	maxWindows = 1 << 10

	// maxRereads bounds the attempts to find the end of a file that other
	// processes keep moving.
	maxRereads = 8

	// maxLeaseSweep is how many leased files a tick checks: a millisecond's
	// work.
	maxLeaseSweep = 4096

	// dirBufLen is how many bytes of directory entries are read at once.
	dirBufLen = 16 << 10

	// plusGroup is how many entries' attributes are read in one change of
	// identity, and minGroup is how many at least where a part of a listing is
	// expected to end. The kernel is asked in vain about those that the part has
	// no room for.
	plusGroup = 64
	minGroup  = 4

	// maxLeftovers bounds the directories whose entries are kept from one part
	// of a listing to the next, with dirBufLen each.
	maxLeftovers = 1 << 10

	// maxWatched bounds the directories that a witness watches, with an inotify
	// watch each.
	maxWatched = 1 << 8

	// maxWitnesses bounds the FS of the process that have one. The kernel lets all
	// processes of a user have 128 inotify instances (fs.inotify.max_user_instances),
	// and those of root need some, as systemd does.
	maxWitnesses = 32

	// maxName is the longest name in bytes for any file system: PATH_MAX with
	// its NUL.
	maxName = 4095

	// maxLinkLen is the longest target of a symbolic link that is read, in
	// bytes. Linux itself makes none above 4095.
	maxLinkLen = 64 << 10

	// aclRoom is how many bytes are enough for most lists, and maxXattr is the
	// kernel's limit on an extended attribute.
	aclRoom  = 512
	maxXattr = 64 << 10

	// maxDepth is how many directories deep an object may lie: PATH_MAX with
	// names of one byte.
	maxDepth = 2048

	// maxPlaces is how many names of one inode the table keeps, for hard links.
	maxPlaces = 8

	// maxAside is how many tables of other directories are kept on disk, each
	// for the day when the export's path leads to its directory again.
	maxAside = 8

	// maxRecord is the longest record of the table file, in bytes.
	maxRecord = recordFixed + maxPlaces*(placeFixed+maxName)

	// maxAbsent is how many handles of objects that were not found are
	// remembered, absentTime is for how long, and maxSearches is how many
	// directories are searched at a time.
	maxAbsent   = 4096
	absentTime  = time.Minute
	maxSearches = 4

	// compactSlack is how many records beyond twice the entries the table file
	// may hold before it is rewritten.
	compactSlack = 4096

	maxFileSize = math.MaxInt64
)
