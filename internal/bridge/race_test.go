//go:build race

package bridge

// poolLosses is how many allocations a call may cost, because a sync.Pool
// discards some values when the race detector runs.
const poolLosses = 2.0
