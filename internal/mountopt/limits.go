package mountopt

import "time"

// MaxCredits is the limit of rpcrdma.
const MaxCredits = 4096

// PageSize divides the length in bytes of READs and WRITEs, as Linux has it.
const PageSize = 4096

// Limits of mounts.
const (
	// maxGiveUp is the longest wait of Linux's soft mounts. maxTimeo is the
	// same in tenths of a second.
	maxGiveUp = 10 * time.Minute
	maxTimeo  = int(maxGiveUp / (time.Second / 10))

	// maxRetrans with the shortest timeo is far above maxGiveUp.
	maxRetrans = 1_000_000

	// maxTransfer bounds the length in bytes of READs and WRITEs: Linux has the
	// same value.
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
)
