package tickets

import "time"

// Implementation limits.
const (
	// helperTimeout is the time that a helper may use for one context. The time in which
	// the server prepares its reply does not count.
	helperTimeout = 15 * time.Second

	// maxHelpers is the maximum number of concurrent helpers.
	maxHelpers = 16

	// maxUsers is the maximum number of users with a context. Beyond it, the least
	// recently active user loses theirs.
	maxUsers = 1024

	// failureLifetime is the time for which a user's calls fail after a failure, so that
	// a program that reads a directory does not start thousands of helpers.
	failureLifetime = time.Second

	// maxCaches is the maximum number of credential caches to try besides the default.
	maxCaches = 16

	// maxNames is the maximum number of directory entries to search for caches: any user
	// can fill /tmp.
	maxNames = 1 << 16

	// maxStderr is the number of bytes kept from a helper's standard error.
	maxStderr = 512

	// waitDelay is the time between a helper's exit and closing its pipes.
	waitDelay = time.Second

	// destroyTimeout is the time in which the server should destroy a context.
	destroyTimeout = 2 * time.Second
)
