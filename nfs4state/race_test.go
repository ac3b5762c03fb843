//go:build race

package nfs4state

// raceEnabled says that the race detector is on, so everything takes ten times
// as long.
const raceEnabled = true
