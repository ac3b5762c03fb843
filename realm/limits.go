package realm

import "time"

// Limits of our own.
const (
	// maxPath is the length in bytes of the longest path of an export: that of
	// MOUNT (RFC 1813, Section 5.1.4).
	maxPath = 1024

	// defaultPayload is the greatest number of bytes of one READ or WRITE: the
	// most that Linux clients ask for.
	defaultPayload = 1 << 20

	// minPayload is a page, so that clients can work; maxPayload is the size of
	// pooled buffers.
	minPayload = 4096
	maxPayload = 4 << 20

	// maxGroups is the number of groups besides GID in an AUTH_SYS credential
	// (RFC 5531, Appendix A).
	maxGroups = 16

	// groupsTime is how long the user database may take to return a user's
	// groups. After that, waiting clients are told to try again.
	groupsTime = 5 * time.Second

	// maxGroupWaits is how many users are looked up at once: as many as may
	// come at once after a restart. maxGroupLookups is how many of these
	// lookups run: each takes a thread if the host's C library does the lookup.
	maxGroupWaits   = 256
	maxGroupLookups = 16

	// maxGroupLists is for how many users groups are cached.
	maxGroupLists = 8192

	// groupsFresh is how long cached groups are used without a new lookup: a
	// user put into a group waits for that long. groupsStale is how long
	// cached groups are used while a lookup runs, or the user database is down: as long as in
	// Linux's mountd.
	groupsFresh = time.Minute
	groupsStale = 30 * time.Minute

	// groupsFail is how long no lookup is tried after a failure.
	groupsFail = 3 * time.Second

	// maxWorking is how many calls file systems work on at once: enough for any
	// storage, and a tenth of the threads that Go gives a process.
	maxWorking = 1024

	// partyCounters is how many parties are counted separately when the permits
	// are shared out.
	partyCounters = 256

	// maxWaiting is how many calls may wait for one file system once half of
	// them have waited for stuckTime: all the outstanding calls of a client,
	// and half of the calls that a client may have there. A party is refused
	// only if at least fewHung of its calls have waited that long.
	maxWaiting = 128
	stuckTime  = 5 * time.Second
	fewHung    = 8

	// periods is how many start times of calls are distinguished for that.
	periods = 8

	// namesTime is how long a call waits for the name of a new client. After
	// that, the client is told to try again.
	namesTime = 5 * time.Second

	// verdictTime is how long a connection's rights are valid if they depend on
	// names.
	verdictTime = time.Minute
)
