//go:build !race

package roce

// raceEnabled reports whether the race detector runs, which makes a sync.Pool
// discard some values.
const raceEnabled = false

// lossyEach is how many messages TestLossyNetwork sends over each of its five
// networks.
const lossyEach = 200_000
