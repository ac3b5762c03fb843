package exportset

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNameLocks checks that one request at a time has a name, also if two names
// are locked in either order, that other names do not wait, and that no lock is
// left.
func TestNameLocks(t *testing.T) {
	var l nameLocks
	l.init()
	names := [3]uint64{l.hashName([]byte("d"), "a"), l.hashName([]byte("d"), "b"), l.hashName([]byte("e"), "a")}
	var counts [3]int
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				i, j := rand.IntN(3), rand.IntN(3)
				var held heldNames
				l.lockNames(&held, [2]uint64{names[i], names[j]})
				counts[i]++
				if j != i {
					counts[j]++
				}
				l.unlockNames(&held)
				l.unlockNames(&held)
			}
		})
	}
	all.Wait()
	assert.Empty(t, l.names)
	assert.LessOrEqual(t, len(l.spareLocks), maxSpareLocks)

	var first, second heldNames
	l.lockNames(&first, [2]uint64{names[0], names[0]})
	l.lockNames(&second, [2]uint64{names[1], names[2]})
	l.unlockNames(&first)
	l.unlockNames(&second)
}
