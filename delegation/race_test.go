//go:build race

package delegation

// raceEnabled says that the race detector is on, so everything takes ten times
// as long.
const raceEnabled = true
