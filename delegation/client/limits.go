package client

import "time"

// Limits of our own.
const (
	// window is how many recalls may be unanswered on a connection: receives
	// that are always posted.
	window = 64

	// renewPause is the shortest time between two looks at whether the lease
	// is to be renewed. A lease of less than some of these is not kept.
	renewPause = 10 * time.Millisecond
)

// clockSlack is by how much clocks may seem to differ that are not read at the same
// moment. No sleep of the machine is as short.
const clockSlack = time.Millisecond

// wallJump is by how much CLOCK_REALTIME is set forward at once where that is taken for
// time that went by unnoticed. What keeps a clock right otherwise moves it by less.
const wallJump = time.Second

// When to ask again. An ACQUIRE costs as much as the call that it may save, or more
// where the object is recalled soon.
const (
	// firstPause and maxPause bound for how long an object is not asked for
	// again after it was refused or recalled; it doubles from time to time.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Minute

	// worthwhile is for how many pauses an object is to be held until the
	// next pause is the first again.
	worthwhile = 16

	// fullPause is for how long nothing is asked for on a connection whose
	// server has no room.
	fullPause = time.Second

	// penalty is for how many leases nothing is asked for on a connection that
	// let a deadline pass, and lateLease how long a lease is taken to be where
	// none is known.
	penalty   = 10
	lateLease = 10 * time.Second
)
