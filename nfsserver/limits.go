package nfsserver

import "time"

// Limits of our own.
const (
	// defaultPayload is the most octets of one READ or WRITE: what Linux
	// clients ask for at most.
	defaultPayload = 1 << 20

	// minPayload is a page, so that clients can work; maxPayload is what
	// pooled buffers hold.
	minPayload = 4096
	maxPayload = 4 << 20

	// payloadMultiple is the suggested multiple in octets of READ and
	// WRITE sizes: the pages of the host.
	payloadMultiple = 4096

	// preferredDir is the preferred octets of READDIR results: some
	// hundred entries with their attributes.
	preferredDir = 64 << 10

	// maxGroups is the number of groups beside GID that an AUTH_SYS
	// credential has (RFC 5531, Appendix A).
	maxGroups = 16

	// groupsTime is how long the user database may take to tell a user's
	// groups. Then clients that wait are told to come again.
	groupsTime = 5 * time.Second

	// maxGroupWaits is for how many users it is asked at once, for as many as
	// may come at once after a restart, and maxGroupLookups how many of these
	// questions run: threads, where the host's C library asks.
	maxGroupWaits   = 256
	maxGroupLookups = 16

	// maxGroupLists is of how many users the groups are kept.
	maxGroupLists = 8192

	// groupsFresh is how long groups stand: who is put into one waits for that.
	// groupsStale is how long they are used while they are asked for again, or
	// the user database is down: as long as Linux's mountd has them stand.
	groupsFresh = time.Minute
	groupsStale = 30 * time.Minute

	// groupsFail is how long nobody asks again after a failure.
	groupsFail = 3 * time.Second

	// maxMounts is the number of entries that DUMP can tell. The list is
	// for people; the oldest entry makes room.
	maxMounts = 1024

	// maxWorking is how many calls file systems work on at once: enough for any
	// storage, and a tenth of the threads that Go gives a process.
	maxWorking = 1024

	// partyCounters is how many parties are told apart where these are shared out.
	partyCounters = 256

	// maxWaiting is how many calls may wait for one file system, once half of
	// them have been waiting for stuckTime: all that a client has under way, and
	// half of what one may have there. A party of which fewHung have waited so long
	// finds its calls put off.
	maxWaiting = 128
	stuckTime  = 5 * time.Second
	fewHung    = 8

	// periods is how many beginnings of calls are told apart for that.
	periods = 8

	// namesTime is how long a call waits for the name of a client that was
	// not seen before. Then the client is told to come again.
	namesTime = 5 * time.Second

	// verdictTime is how long a connection's rights stand that depend on
	// names.
	verdictTime = time.Minute
)
