//go:build linux

package posix

import (
	"math"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

const (
	// defaultMaxFiles bounds the open descriptors that no client holds if RLIMIT_NOFILE
	// would allow more: each costs the kernel some 700 bytes, and runTicks must
	// check it.
	defaultMaxFiles = 16384

	// minMaxFiles is many times the descriptors that one rename with data needs
	// at once.
	minMaxFiles = 64

	// defaultIdleTime is short because a descriptor open for writing keeps the
	// host from executing the file and from remounting read-only.
	defaultIdleTime = 2 * time.Second

	// recheckTime is the delay after which a changed ACL takes effect. Only ctime shows such a
	// change, and a write changes ctime too.
	recheckTime = time.Second

	// maxObjectFiles bounds the descriptors per object, so that a file used by all callers does
	// not evict everything else.
	maxObjectFiles = 16

	// maxDirtyFiles is maxObjectFiles if all files are dirty: closing one means a sync,
	// and callers that write one file in turn must not need one for each write.
	maxDirtyFiles = 256

	// maxPassed bounds the objects in use or dirty that an eviction skips, because it blocks
	// all other calls' lookups.
	maxPassed = 256

	// maxClosers bounds the goroutines that sync idle files and close them.
	maxClosers = 16

	// maxMovedLocks bounds the locks that are reacquired only to close a file for writing: with
	// n locks, the kernel takes n steps for each.
	maxMovedLocks = 64

	// maxVerdicts bounds the callers whose rights to one object are cached.
	maxVerdicts = 8

	// handleSlots is the number of cached handles, at some 70 bytes each once used. It covers a
	// large directory that clients list repeatedly.
	handleSlots = 1 << 16

	// attrPages times attrSlots is the number of objects whose attributes are kept, at some 190
	// bytes each once a page is used, and attrTime is the time for which they are.
	attrPages = 256
	attrSlots = 256
	attrTime  = 10 * time.Second

	// birthAge is the minimum age at which an object's birth time distinguishes it from every
	// later object with its inode number: many times the kernel's coarse-clock granularity.
	birthAge = 100 * time.Millisecond

	// glanceName is NAME_MAX, in bytes.
	glanceName = 255

	// maxChangeCounts bounds the objects that were changed more than once in a tick, at some
	// 100 bytes each.
	maxChangeCounts = 1 << 16

	// slowBlocks is the storage, in 512-byte blocks, that takes time to free: 16 MiB, which may
	// be in as many extents.
	slowBlocks = 16 << 20 / 512

	// minMapped is the minimum number of bytes lent from a mapping: copying fewer is cheaper
	// than checking whether they are in memory.
	minMapped = 64 << 10

	// minMappedInRun is minMapped from the longRun-th read in a run on. Each read is at most
	// runWidth bytes from the previous one's end: 16 reads with 64 KiB may overtake one
	// another.
	minMappedInRun = 16 << 10
	longRun        = 16
	runWidth       = 1 << 20

	// aheadLen is the number of bytes around and after a read in a run that are checked, up to
	// twice, and aheadTime the time for which the result counts.
	aheadLen  = 256 << 10
	aheadTime = 10 * time.Millisecond

	// maxMapped is the most pages lent at once: 4 MiB.
	maxMapped = 1 << 10

	// windowLen is the number of bytes that one mapping covers, and maxWindows bounds an FS's
	// mappings: 64 GiB of addresses, with up to 128 MiB of page tables.
	windowLen  = 64 << 20
	maxWindows = 1 << 10

	// unlentTime is the time for which a file's data is not lent after a clone into it had to
	// wait: longer than clients wait before the next attempt. maxLentWait is how long readers of
	// lent data can delay a clone.
	unlentTime  = 30 * time.Second
	maxLentWait = 2 * time.Minute

	// maxRereads bounds the attempts to find the end of a file that other
	// processes keep moving.
	maxRereads = 8

	// maxLeaseSweep is the number of leased files that a tick checks: a millisecond's work.
	maxLeaseSweep = 4096

	// dirBufLen is the number of directory bytes read at once.
	dirBufLen = 16 << 10

	// plusGroup is the number of entries whose attributes are read in one identity switch, and
	// minGroup is the minimum near the expected end of a reply. System calls for entries that
	// do not fit into the reply are wasted.
	plusGroup = 64
	minGroup  = 4

	// maxLeftovers bounds the directories whose entries are kept from one request to the next,
	// with dirBufLen each.
	maxLeftovers = 1 << 10

	// maxWatched bounds the directories that a witness watches, with an inotify
	// watch each.
	maxWatched = 1 << 8

	// maxWitnesses bounds the FS in the process that have one. The kernel limits a user to 128
	// inotify instances (fs.inotify.max_user_instances), and root's other processes need some,
	// as systemd does.
	maxWitnesses = 32

	// maxName is the maximum name length in bytes for any file system: PATH_MAX with its NUL.
	maxName = handletable.MaxName

	// maxLinkLen is the maximum length of a symbolic link's target, in bytes. Linux itself
	// creates none above 4095.
	maxLinkLen = 64 << 10

	// usualACLLen is the number of bytes that suffice for most ACLs, and maxXattr is the kernel's
	// limit on an extended attribute.
	usualACLLen = 512
	maxXattr    = 64 << 10

	// maxDepth is the maximum directory depth: PATH_MAX with one-byte names.
	maxDepth = 2048

	// maxSameLinks bounds the handles that one name of a hard-linked object gets after renames.
	maxSameLinks = 8

	// maxAbsent is the number of handles without an object that are cached, absentTime the time
	// for which they are, and maxSearches the number of directories searched concurrently.
	maxAbsent   = 4096
	absentTime  = time.Minute
	maxSearches = 4

	maxFileSize = math.MaxInt64
)
