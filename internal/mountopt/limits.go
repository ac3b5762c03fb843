package mountopt

import "time"

// MaxCredits is rpcrdma's limit.
const MaxCredits = 4096

// PageSize divides the length in bytes for READs and WRITEs, as in Linux.
const PageSize = 4096

// Limits for mounts.
const (
	// maxGiveUp is the maximum wait on Linux's soft mounts. maxTimeo is the same in
	// tenths of a second.
	maxGiveUp = 10 * time.Minute
	maxTimeo  = int(maxGiveUp / (time.Second / 10))

	// maxRetrans with the shortest timeo is far above maxGiveUp.
	maxRetrans = 1_000_000

	// maxTransfer bounds the length in bytes for READs and WRITEs: Linux has the
	// same value.
	maxTransfer = 1 << 20

	// maxConnect is the maximum connection count for one mount: Linux's limit.
	maxConnect = 16

	// maxSeconds is 68 years, longer than attributes stay valid.
	maxSeconds = 1<<31 - 1

	maxPort = 1<<16 - 1

	// foregroundRetry and backgroundRetry are the default times for which an
	// unreachable server is tried, as in nfs(5). maxRetry is the maximum time that
	// can be set, in minutes: a year.
	foregroundRetry = 2 * time.Minute
	backgroundRetry = 10_000 * time.Minute
	maxRetry        = 525_600
)
