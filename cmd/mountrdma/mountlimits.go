package main

import "time"

// Limits of mounts.
const (
	// maxGiveUp is the longest wait of Linux's soft mounts. maxTimeo is the
	// same in tenths of a second.
	maxGiveUp = 10 * time.Minute
	maxTimeo  = int(maxGiveUp / (time.Second / 10))

	// maxRetrans with the shortest timeo is far above maxGiveUp.
	maxRetrans = 1_000_000

	// pageSize divides the length of READs and WRITEs, and maxTransfer bounds
	// it, both in bytes: Linux has the same values.
	pageSize    = 4096
	maxTransfer = 1 << 20

	// maxConnect is how many connections one mount may have: Linux's limit.
	maxConnect = 16

	// maxSeconds is 68 years, longer than attributes stay valid.
	maxSeconds = 1<<31 - 1

	maxPort = 1<<16 - 1

	// foregroundRetry and backgroundRetry are how long an unreachable server is
	// tried by default, as in nfs(5). maxRetry is the longest time that can be
	// set, in minutes: a year.
	foregroundRetry = 2 * time.Minute
	backgroundRetry = 10_000 * time.Minute
	maxRetry        = 525_600

	// The pause between attempts starts at firstPause and doubles up to
	// lastPause, which is no load for a server.
	firstPause = time.Second
	lastPause  = 10 * time.Second
)
