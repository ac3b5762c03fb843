package lockclient

import "time"

// Times of this package.
const (
	// callTime is how long the server may take for a call over TCP, before the
	// connection is replaced.
	callTime = 20 * time.Second

	// The pause before a connection is tried again starts at firstRetry and
	// doubles up to lastRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second

	// searchStep bounds each step of a search for the lock manager.
	searchStep = 4 * time.Second
)

// Limits of this package.
const (
	// reclaimers is how many locks are claimed again at a time.
	reclaimers = 16

	// maxRecord is the longest call to Callback in bytes: the longest GRANTED,
	// with its header.
	maxRecord = 8 << 10

	// maxCallers is how many connections Callback takes.
	maxCallers = 16

	// mostOff is how many lines of the list of locks may be out of date before
	// the file is written anew.
	mostOff = 1024

	// probeCalls is how many checks there are for each call.
	probeCalls = 4
)

// times are the pauses of a Client.
type times struct {
	// A waiter asks again after a pause that starts at first and doubles: up to
	// last if the server calls back, and up to alone otherwise.
	first, last, alone time.Duration

	// grace is the pause after an answer that a grace period lasts.
	grace time.Duration

	// probe is the time between checks of whether the server has restarted, of
	// which every probeCalls-th is a call: a fraction of the shortest usual grace
	// period, which is 45 s.
	probe time.Duration

	// farewell bounds Close, and the unlocking of those locks that an earlier process
	// has left.
	farewell time.Duration
}

var usual = times{
	first: 20 * time.Millisecond, last: 10 * time.Second, alone: time.Second, grace: time.Second, probe: 3 * time.Second,
	farewell: 10 * time.Second,
}
