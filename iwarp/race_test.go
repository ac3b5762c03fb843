//go:build race

package iwarp

// What TestAtomicity can do in some seconds when the race detector runs.
const (
	adders    = 16
	additions = 1000
)
