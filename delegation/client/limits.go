package client

import "time"

// Local limits.
const (
	// maxRecalls is the maximum number of outstanding recalls on a connection:
	// the number of receives that are always posted.
	maxRecalls = 64

	// renewPause is the minimum time between two checks for lease renewal. A
	// lease shorter than a few renewPauses cannot be kept.
	renewPause = 10 * time.Millisecond
)

// clockSlack is the maximum apparent difference between two clocks that were
// not read at the same moment. Every suspend is longer.
const clockSlack = time.Millisecond

// wallJump is the minimum sudden advance of CLOCK_REALTIME that counts as a
// pause of the machine. Ordinary clock adjustment moves CLOCK_REALTIME by less.
const wallJump = time.Second

// Limits on how soon to send another ACQUIRE. An ACQUIRE costs as much as the
// call that it may save, or more if the object is recalled soon.
const (
	// firstPause and maxPause bound the time for which the client does not
	// acquire an object after a refusal or recall. The pause doubles each time.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Minute

	// worthwhilePauses is the number of pauses for which a delegation must last
	// to reset the pause to firstPause.
	worthwhilePauses = 16

	// limitPause is the time for which the client sends no ACQUIRE on a
	// connection whose server has reached a limit.
	limitPause = time.Second

	// penaltyLeases is the number of leases for which the client sends no
	// ACQUIRE on a connection that missed a deadline. assumedLease is the lease
	// time if none is known.
	penaltyLeases = 10
	assumedLease  = 10 * time.Second
)
