package tickets

import "time"

// Limits of our own.
const (
	// helperTime is how long a helper may work on one context. The time in which
	// the server works on its answer does not count.
	helperTime = 15 * time.Second

	// maxHelpers is how many helpers run at once.
	maxHelpers = 16

	// maxUsers is how many users have a context at once. The user whose last call
	// was the earliest makes room.
	maxUsers = 1024

	// failureLife is how long a failure answers the calls of a user, so that a
	// program that reads a directory does not start thousands of helpers.
	failureLife = time.Second

	// maxCaches is how many credential caches are tried besides the default.
	maxCaches = 16

	// maxNames is how many names of a directory are looked at for caches: any user
	// can fill /tmp.
	maxNames = 1 << 16

	// maxComplaint is how much of a helper's standard error is kept, in bytes.
	maxComplaint = 512

	// waitDelay is the time between the end of a helper and that of its pipes.
	waitDelay = time.Second

	// destroyTime is how long the server may take to forget a context.
	destroyTime = 2 * time.Second
)
