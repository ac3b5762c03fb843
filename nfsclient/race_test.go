//go:build race

package nfsclient

// poolLosses is how many allocations a call may cost, because a sync.Pool drops
// some of its items under the race detector.
const poolLosses = 2.0
