//go:build !race

package iwarp

// adders is the number of connections of TestAtomicity, additions how often
// each adds.
const (
	adders    = 64
	additions = 10_000
)

const poolLosses = 0.0

// sequence is the number of connections that TestSequence makes.
const sequence = 10_000
