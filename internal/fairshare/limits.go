package fairshare

import "time"

// Limits of our own.
const (
	// PressTime is how long a call waits for memory before peers that hold
	// memory count as dead, if they move less than Bulk bytes in that time.
	PressTime = 5 * time.Second

	// Bulk is how many bytes in PressTime are a sign of life: more than a peer
	// sends that only wants to look alive.
	Bulk = 4 << 10

	// One of every spared places for connections is reserved for parties with
	// no more than few connections.
	spared = 8
	few    = 8
)
