//go:build race

package delegation

// raceEnabled says that this is a test under the race detector, where everything
// takes ten times as long.
const raceEnabled = true
