package server

import "time"

// MaxLease is the longest permitted lease: a change must not wait longer.
const MaxLease = 5 * time.Minute

// Local limits.
const (
	// defaultReceives is how many recalls may be unanswered on a connection. A
	// change of names affects at most four objects, and eight such changes at a
	// time are many. Each recall needs a receive of 8 bytes.
	defaultReceives = 32

	// defaultSlots is how many words each connection's region has: enough for a
	// source tree with all its directories. Only used words take memory.
	defaultSlots = 1 << 16

	// maxWaiting is how many changes may wait for clients at a time. Each
	// occupies a goroutine of a transport, and no other resource that other
	// calls need. A change beyond this limit is put off at once. A party gets
	// half, or half of what others leave.
	maxWaiting = 1024

	// maxReclaims is how many grants an ACQUIRE reclaims for room.
	maxReclaims = 16

	// markerIdle is how long no grant must have been in force before the marker
	// is removed. Without this delay, every first grant would wait for storage.
	markerIdle = time.Minute

	// closeTime is how long Close waits for the removal of the marker.
	closeTime = 2 * time.Second
)
