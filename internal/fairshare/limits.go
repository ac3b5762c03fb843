package fairshare

import "time"

// Limits of our own.
const (
	// PressTime is how long a call waits for memory before peers that have
	// it and move less than Bulk bytes in that time are taken for dead.
	PressTime = 5 * time.Second

	// Bulk is how many bytes in PressTime are a sign of life: more than a
	// peer sends that only wants to look alive.
	Bulk = 4 << 10

	// Of the places for connections one in spared is kept for parties with no more
	// than few connections.
	spared = 8
	few    = 8
)
