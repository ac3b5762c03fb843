package nlmclient

import "time"

// The package's times.
const (
	// callTime is the time limit for a call over TCP, after which the
	// connection is replaced.
	callTime = 20 * time.Second

	// The pause between attempts to connect starts at firstDialPause and
	// doubles up to lastDialPause.
	firstDialPause = 50 * time.Millisecond
	lastDialPause  = 5 * time.Second

	// searchStep is the time limit for each step of the search for the lock
	// manager.
	searchStep = 4 * time.Second
)

// The package's limits.
const (
	// maxReclaimers is the number of locks that are reclaimed concurrently.
	maxReclaimers = 16

	// maxRecord is the maximum length of a GRANTED call in bytes, with its
	// header.
	maxRecord = 8 << 10

	// maxCallers is the maximum number of connections for GRANTED calls.
	maxCallers = 16

	// maxStaleLines is the number of obsolete lines in the owner list after
	// which the file is rewritten.
	maxStaleLines = 1024

	// probeCalls is the number of checks per NULL call.
	probeCalls = 4
)

// waitTimes are a Client's pauses.
type waitTimes struct {
	// A waiting request polls after a pause that starts at firstRetry and
	// doubles: up to lastRetry if the server sends GRANTED calls, and up to
	// lastUncalled otherwise.
	firstRetry, lastRetry, lastUncalled time.Duration

	// gracePause is the pause after the server has replied that it is in its
	// grace period.
	gracePause time.Duration

	// probeInterval is the time between checks for a server restart, where
	// every probeCalls-th check is a call: a fraction of the shortest usual
	// grace period, which is 45 s.
	probeInterval time.Duration

	// closeLimit bounds Close, and the release of locks that an earlier process
	// has left.
	closeLimit time.Duration
}

var defaultTimes = waitTimes{
	firstRetry: 20 * time.Millisecond, lastRetry: 10 * time.Second, lastUncalled: time.Second, gracePause: time.Second, probeInterval: 3 * time.Second,
	closeLimit: 10 * time.Second,
}
