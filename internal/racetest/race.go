//go:build race

package racetest

// Enabled reports whether the race detector watches the test.
const Enabled = true
