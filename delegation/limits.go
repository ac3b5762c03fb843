package delegation

import "time"

// Protocol limits.
const (
	// MaxHandle is the maximum file handle length in bytes (RFC 1813, Section
	// 2.4, NFS3_FHSIZE).
	MaxHandle = 64

	// AttrLen is fattr3's length in bytes (RFC 1813, Section 2.6).
	AttrLen = 84

	// maxSlots is the maximum number of words in a region: a slot has 24 bits
	// in Immediate Data.
	maxSlots = 1 << 24
)

// Times in terms of the lease.
const (
	// renewalsPerLease is the number of times per lease that the client adds to
	// word 0; samplesPerLease is the number of times that the server checks it.
	renewalsPerLease = 3
	samplesPerLease  = 8

	// penaltyLeases is the number of leases for which a connection gets no
	// grants after it missed a deadline. In that time its party gets no grant
	// for the object concerned, or for any directory.
	penaltyLeases = 10

	// contestRecalls is the number of recalls of a directory within
	// contestTime, by clients' alternate changes, that start a pause in which
	// no client gets the directory. maxContestPause is the maximum pause.
	contestRecalls  = 3
	contestTime     = 10
	maxContestPause = 16

	// idleLeases is the number of leases for which a grant with a Lien may stay
	// unused.
	idleLeases = 60
)

// trustTime returns the time for which the client may trust its cache, counted
// from when it posted a completed add to word 0. The remainder of the lease
// allows for different clock rates, and for data that were checked but not
// served yet.
func trustTime(lease time.Duration) time.Duration { return lease * 2 / 3 }

// Local limits.
const (
	// defaultLease is long enough that renewals cause no load. It is also the
	// maximum time for which a change waits for a client that vanished.
	defaultLease = 10 * time.Second

	// defaultSlots is the number of words in a connection's region: enough for
	// a source tree with all its directories. Only used parts of the region
	// occupy memory.
	defaultSlots = 1 << 16

	// defaultGrants is the maximum number of grants on all connections. A grant
	// and its object take some 600 bytes.
	defaultGrants = 1 << 17

	// recallRate is the number of grants per second that may be recalled to
	// make room.
	recallRate = 64

	// maxPenalties is the maximum number of penalties in memory. Each takes
	// some 150 bytes. penaltyScan is the number that a further one examines to
	// find expired ones.
	maxPenalties = 1 << 13
	penaltyScan  = 64

	// maxContests is the maximum number of contests in memory. Each takes some
	// 200 bytes. contestScan is the number that a further one examines to find
	// any that are over.
	maxContests = 1 << 12
	contestScan = 64

	// reclaimScan is the number of slots that an ACQUIRE examines to find an
	// unused grant.
	reclaimScan = 256

	// lienScan is the number of other connections that an ACQUIRE examines to
	// make room for a Lien.
	lienScan = 8

	// maxRenewals is the maximum number of adds to word 0 in flight. A
	// connection that completes none is about to fail.
	maxRenewals = 4

	// maxEarly is the maximum number of unknown grants' recalls that a Holder
	// remembers. A further one makes all ACQUIREs in flight void.
	maxEarly = 1024

	// clockStep is the maximum granularity of the server's file system times:
	// twice Linux's tick at 100 Hz.
	clockStep = 20 * time.Millisecond

	// clockRate bounds the difference in clock rates: the client's clock runs
	// faster than the server's by at most one part in clockRate. NTP adjusts
	// each clock's rate by at most 500 ppm.
	clockRate = 1000
)
