package exportset

import "time"

// Local limits.
const (
	// maxPath is the maximum length in bytes of an export's path: the limit of MOUNT (RFC 1813,
	// Section 5.1.4).
	maxPath = 1024

	// defaultPayload is the maximum number of bytes in one READ or WRITE: the most that Linux
	// clients request.
	defaultPayload = 1 << 20

	// minPayload is a page, so that clients can work; maxPayload is the size of pooled buffers.
	minPayload = 4096
	maxPayload = 4 << 20

	// maxGroups is the number of groups besides GID in an AUTH_SYS credential (RFC 5531,
	// Appendix A).
	maxGroups = 16

	// groupLookupTimeout is the time that the user database may take to return a user's groups.
	// After that, waiting clients are told to try again.
	groupLookupTimeout = 5 * time.Second

	// maxGroupWaits is the number of users looked up at once: as many as may arrive at once
	// after a restart. maxGroupLookups is the number of these lookups that run: each takes a
	// thread if the host's C library does the lookup.
	maxGroupWaits   = 256
	maxGroupLookups = 16

	// maxGroupLists is the number of users whose groups are cached.
	maxGroupLists = 8192

	// groupFreshTime is the time for which cached groups are used without a new lookup: a user
	// added to a group waits for that long. groupStaleTime is the time for which cached groups
	// are used while a lookup runs, or while the user database is down: the same as in Linux's
	// mountd.
	groupFreshTime = time.Minute
	groupStaleTime = 30 * time.Minute

	// groupRetryTime is the time after a failure before a lookup is tried again.
	groupRetryTime = 3 * time.Second

	// maxPermits is the number of calls that file systems work on at once: enough for any
	// storage, and a tenth of the threads that Go gives a process.
	maxPermits = 1024

	// partyCounters is the number of client groups that are counted separately when permits are
	// shared.
	partyCounters = 256

	// overloadCalls is the number of calls that may wait for one file system once half of them
	// have waited for stuckTime: all of a client's outstanding calls, and half of the calls
	// that a client may have there. A client group's calls are rejected only if at least
	// minHungCalls of them have waited that long.
	overloadCalls = 128
	stuckTime     = 5 * time.Second
	minHungCalls  = 8

	// periodCount is the number of call start times that are distinguished for this purpose.
	periodCount = 8

	// nameLookupTimeout is the time that a call waits for a new client's name. After that, the
	// client is told to try again.
	nameLookupTimeout = 5 * time.Second

	// maxPacketLookups is the number of datagram senders looked up in the name service at once:
	// forged sender addresses must leave lookups to clients that connect.
	maxPacketLookups = 8

	// appearTime is the time after the start in which file systems may still be mounted below an
	// export: their handles are not stale yet. It is NFSv4's usual grace period.
	appearTime = 90 * time.Second

	// maxRemovedIDs is the number of removed exports whose handles are stale even while an export is
	// unavailable.
	maxRemovedIDs = 1 << 16

	// accessTime is the time for which a connection's rights are valid if they depend on names.
	accessTime = time.Minute
)
