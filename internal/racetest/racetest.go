// Package racetest reports whether the race detector is enabled. Code then takes
// about ten times as long, and a sync.Pool discards some of its values. It is for
// tests only.
package racetest

// PoolLosses returns the number of allocations that an operation may cost because a
// sync.Pool has discarded values: n under the race detector, otherwise none.
func PoolLosses(n float64) float64 {
	if Enabled {
		return n
	}
	return 0
}

// Of returns the size of a test: usual, or under the race detector watched.
func Of(usual, watched int) int {
	if Enabled {
		return watched
	}
	return usual
}
