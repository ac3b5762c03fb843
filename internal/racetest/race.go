//go:build race

package racetest

// Enabled reports whether the race detector is enabled.
const Enabled = true
