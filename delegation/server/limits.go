package server

import "time"

// MaxLease is the maximum lease time: a change must not wait longer.
const MaxLease = 5 * time.Minute

// Local limits.
const (
	// defaultReceives is the maximum number of outstanding recalls on a
	// connection. A change of names affects at most four objects, and eight
	// such changes at a time are many. Each recall needs an 8-byte receive.
	defaultReceives = 32

	// defaultSlots is the number of words in each connection's region: enough
	// for a source tree with all its directories. Only used words occupy
	// memory.
	defaultSlots = 1 << 16

	// maxReclaims is the maximum number of grants that an ACQUIRE reclaims to
	// make room.
	maxReclaims = 16

	// namedTime is the time for which changes must name their objects after an
	// ACQUIRE was refused because of changes that do not.
	namedTime = 10 * time.Second
)
