package server

import "time"

// MaxLease is the longest lease: nobody wants a change to wait for longer.
const MaxLease = 5 * time.Minute

// Limits of our own.
const (
	// defaultReceives is how many recalls a connection may have unanswered: a
	// change of names has four objects at most, and eight of these at a time are
	// many. Each is a receive for 8 octets.
	defaultReceives = 32

	// defaultSlots is how many words each connection's region has: for a tree of
	// sources with all its directories. Memory is taken by those that are used.
	defaultSlots = 1 << 16

	// maxWaiting is how many changes may wait for clients at a time. Each keeps a
	// goroutine of a transport, and nothing else that others could want; one more is
	// put off at once.
	maxWaiting = 1024

	// markerIdle is for how long nothing was held when the marker is removed, so
	// that not every first grant waits for storage.
	markerIdle = time.Minute
)
