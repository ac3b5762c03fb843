//go:build race

package iwarp

// What TestAtomicity can do in some seconds when the race detector runs.
const (
	adders    = 16
	additions = 1000
)

// poolLosses is how many allocations an operation may cost, because a sync.Pool
// throws away some of what it is given when the race detector runs.
const poolLosses = 5.0

// sequence is how many connections TestSequence makes.
const sequence = 1_000
