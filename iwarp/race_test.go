//go:build race

package iwarp

// adders and additions limit TestAtomicity to some seconds under the race
// detector.
const (
	adders    = 16
	additions = 1000
)

// poolLosses is how many allocations an operation may cost. Under the race
// detector a sync.Pool drops some of its items.
const poolLosses = 5.0

// sequence is the number of connections that TestSequence makes.
const sequence = 1_000
