//go:build !race

package iwarp

// The connections of TestAtomicity, and how often each adds.
const (
	adders    = 64
	additions = 10_000
)

const poolLosses = 0.0

// sequence is how many connections TestSequence makes.
const sequence = 10_000
