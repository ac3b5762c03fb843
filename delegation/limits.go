package delegation

import "time"

// Limits of the protocol.
const (
	// MaxHandle is the length in octets of the longest file handle
	// (RFC 1813, Section 2.4, NFS3_FHSIZE).
	MaxHandle = 64

	// AttrLen is the length in octets of fattr3 (RFC 1813, Section 2.6).
	AttrLen = 84

	// MaxSlots is the number of words that a region has at most: a slot has
	// 24 bits in Immediate Data.
	MaxSlots = 1 << 24
)

// Patience is how long a change waits before its call is answered
// NFS3ERR_JUKEBOX: long enough for a client that answers, and short enough that
// a caller that waits in the kernel is not taken for hung.
const Patience = time.Second

// Parts of a lease.
const (
	// renewals is how often in a lease the client adds to word 0, and
	// samples how often the server looks there.
	renewals = 3
	samples  = 8

	// penalty is for how many leases a connection gets no grants after it
	// let a deadline pass, and its party none of the object and no directory.
	penalty = 10

	// contestRecalls is how many recalls of a directory within contestTime, for changes
	// that clients make in turns, are too many; maxContest is for how long, at most,
	// it is granted to nobody then.
	contestRecalls = 3
	contestTime    = 10
	maxContest     = 16

	// idle is for how many leases a grant with a Lien is kept unused.
	idle = 60
)

// trust returns for how long after it was sent an answered add to word 0 lets the
// client trust its cache: the rest of the lease is for the difference of the
// clocks' rates, and for what has been looked at and is not served yet.
func trust(lease time.Duration) time.Duration { return lease * 2 / 3 }

// Limits of our own.
const (
	// defaultLease is long enough that a renewal is no load, and what a
	// change waits for at most where a client has gone without a word.
	defaultLease = 10 * time.Second

	// defaultSlots is how many words a connection's region has: for a tree
	// of sources with all its directories. The region takes memory of the
	// machine only where it is used.
	defaultSlots = 1 << 16

	// defaultGrants bounds what all connections hold together. A grant and
	// its object take some 300 octets.
	defaultGrants = 1 << 17

	// recallRate is how many grants in a second are recalled for want of room.
	recallRate = 64

	// maxLate is how many latenesses are kept in mind. Each takes some 150 bytes.
	maxLate = 1 << 13

	// maxContests is how many directories that were recalled are kept in mind. Each
	// takes some 200 bytes.
	maxContests = 1 << 12

	// reclaimScan is how many slots one ACQUIRE looks at for an unused one.
	reclaimScan = 256

	// fewObjects is how many objects a change has without an allocation:
	// RENAME has two directories, what is renamed, and what that replaces.
	fewObjects = 4

	// maxRenewals is how many adds to word 0 are under way at a time. A
	// connection that answers none is near its end.
	maxRenewals = 4

	// maxEarly is how many recalls of grants not yet known a Holder keeps in
	// mind. One more makes void all that it has asked for.
	maxEarly = 1024

	// clockStep is by how much, at most, the clock goes on at once that the
	// server's file system takes its times from: Linux's tick at 100 Hz,
	// twice.
	clockStep = 20 * time.Millisecond

	// clockRate bounds how much faster the client's clock goes than the
	// server's: by one part in so many. NTP makes either 500 ppm faster or
	// slower at most.
	clockRate = 1000
)
