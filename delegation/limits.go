package delegation

import "time"

// Limits of the protocol.
const (
	// MaxHandle is the length in bytes of the longest file handle (RFC 1813,
	// Section 2.4, NFS3_FHSIZE).
	MaxHandle = 64

	// AttrLen is the length in bytes of fattr3 (RFC 1813, Section 2.6).
	AttrLen = 84

	// MaxSlots is the largest number of words of a region: a slot has 24 bits
	// in Immediate Data.
	MaxSlots = 1 << 24
)

// Patience is how long a change waits before the server answers its call with
// NFS3ERR_JUKEBOX. It is long enough for a responsive client, and short enough
// that a caller waiting in the kernel does not seem hung.
const Patience = time.Second

// Times in terms of the lease.
const (
	// renewals is how often per lease the client adds to word 0; samples is how
	// often the server checks word 0.
	renewals = 3
	samples  = 8

	// penalty is for how many leases a connection gets no grants after it
	// missed a deadline. Its party gets no grant of the object concerned and of
	// no directory in that time.
	penalty = 10

	// contestRecalls is how many recalls of a directory within contestTime, by
	// alternate changes of clients, begin a pause in which the directory is
	// granted to nobody. maxContest is the longest such pause.
	contestRecalls = 3
	contestTime    = 10
	maxContest     = 16

	// idle is for how many leases a grant with a Lien may stay unused.
	idle = 60
)

// trust returns how long after the post of an answered add to word 0 the client
// may trust its cache. The remainder of the lease allows for different clock
// rates, and for data already checked but not served yet.
func trust(lease time.Duration) time.Duration { return lease * 2 / 3 }

// Local limits.
const (
	// defaultLease is long enough that renewals are no load. It is also the
	// longest wait of a change for a client that vanished.
	defaultLease = 10 * time.Second

	// defaultSlots is how many words a connection's region has: enough for a
	// source tree with all its directories. Only used parts of the region take
	// memory.
	defaultSlots = 1 << 16

	// defaultGrants bounds the grants of all connections together. A grant and
	// its object take some 300 bytes.
	defaultGrants = 1 << 17

	// recallRate is how many grants per second may be recalled to make room.
	recallRate = 64

	// maxLate is how many latenesses are remembered. Each takes some 150 bytes.
	// pardonScan is how many of them another one examines to find any that are
	// over.
	maxLate    = 1 << 13
	pardonScan = 64

	// maxContests is how many contests are remembered. Each takes some 200
	// bytes. settleScan is how many of them another one examines to find any
	// that are over.
	maxContests = 1 << 12
	settleScan  = 64

	// reclaimScan is how many slots an ACQUIRE examines to find an unused
	// grant.
	reclaimScan = 256

	// roomScan is how many connections an ACQUIRE that needs room for a Lien
	// examines besides its own.
	roomScan = 8

	// fewObjects is how many objects a change stores without an allocation.
	// RENAME has four: two directories, the renamed object, and the object that
	// it replaces.
	fewObjects = 4

	// maxRenewals is how many adds to word 0 may be under way. A connection
	// that answers none is near its end.
	maxRenewals = 4

	// maxEarly is how many recalls of unknown grants a Holder remembers. With a
	// further recall, all ACQUIREs under way become void.
	maxEarly = 1024

	// clockStep is the largest step of the clock from which the server's file
	// system takes its times: twice Linux's tick at 100 Hz.
	clockStep = 20 * time.Millisecond

	// clockRate bounds how much faster the client's clock runs than the
	// server's: by one part in clockRate. NTP adjusts each clock's rate by at
	// most 500 ppm.
	clockRate = 1000
)
