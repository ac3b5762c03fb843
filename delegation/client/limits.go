package client

import "time"

// Local limits.
const (
	// window is how many recalls may be unanswered on a connection: the number
	// of receives that are always posted.
	window = 64

	// renewPause is the shortest time between two looks at whether the lease
	// needs renewal. A lease shorter than a few renewPauses cannot be kept.
	renewPause = 10 * time.Millisecond
)

// clockSlack is how far two clocks may seem to differ because they were not
// read at the same moment. Every sleep of the machine is longer.
const clockSlack = time.Millisecond

// wallJump is the smallest sudden advance of CLOCK_REALTIME that counts as a
// pause of the machine. Ordinary clock adjustment moves CLOCK_REALTIME by less.
const wallJump = time.Second

// Limits on how soon to ask again. An ACQUIRE costs as much as the call that it
// may save, or more if the object is recalled soon.
const (
	// firstPause and maxPause bound how long the client does not ask again for
	// an object after a refusal or recall. The pause doubles each time.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Minute

	// worthwhile is how many pauses a delegation must last to reset the pause
	// to firstPause.
	worthwhile = 16

	// fullPause is how long the client asks for nothing on a connection whose
	// server has no room.
	fullPause = time.Second

	// penalty is how many leases the client asks for nothing on a connection
	// that missed a deadline. lateLease is the assumed length of a lease if
	// none is known.
	penalty   = 10
	lateLease = 10 * time.Second
)
