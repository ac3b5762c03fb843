package main

import "time"

// Limits of mounts.
const (
	// maxGiveUp is the longest that Linux's soft mounts wait, and maxTimeo
	// that in tenths of a second.
	maxGiveUp = 10 * time.Minute
	maxTimeo  = int(maxGiveUp / (time.Second / 10))

	// maxRetrans with the shortest timeo is far above maxGiveUp.
	maxRetrans = 1_000_000

	// pageSize is what READs and WRITEs are a multiple of, and maxTransfer
	// the most of one, in octets: Linux has the same.
	pageSize    = 4096
	maxTransfer = 1 << 20

	// maxConnect is how many connections one mount may have: Linux's limit.
	maxConnect = 16

	// maxSeconds is 68 years, in which attributes change.
	maxSeconds = 1<<31 - 1

	maxPort = 1<<16 - 1

	// foregroundRetry and backgroundRetry are how long a server that cannot
	// be reached is tried, as nfs(5) has it, and maxRetry is how long it
	// can be, in minutes: a year.
	foregroundRetry = 2 * time.Minute
	backgroundRetry = 10_000 * time.Minute
	maxRetry        = 525_600

	// Between attempts there are firstPause, then twice as long each time,
	// and lastPause in the end, which a server does not feel.
	firstPause = time.Second
	lastPause  = 10 * time.Second
)
