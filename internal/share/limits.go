package share

import "time"

// Limits of our own.
const (
	// PressTime is how long a call waits for memory before peers that have
	// it and move less than Bulk octets in that time are taken for dead.
	PressTime = 5 * time.Second

	// Bulk is how many octets in PressTime are a sign of life: more than a
	// peer sends that only wants to look alive.
	Bulk = 4 << 10
)
