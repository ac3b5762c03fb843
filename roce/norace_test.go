//go:build !race

package roce

// raceEnabled: the race detector runs, under which a sync.Pool throws away some
// of what it is given.
const raceEnabled = false

// lossyEach is how many messages TestLossyNetwork sends over each of its five
// networks.
const lossyEach = 200_000
