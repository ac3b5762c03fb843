package relief

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKind checks that calls of a slow kind go to other goroutines, the
// more the slower the kind is, and that the kind recovers.
func TestKind(t *testing.T) {
	away := func(slowOnceIn int) (others int) {
		var k Kind
		random := rand.New(rand.NewPCG(1, 2))
		for range 10_000 {
			switch {
			case !k.Takes():
				others++
			case random.IntN(slowOnceIn) == 0:
				k.Note(true)
			default:
				k.Note(false)
			}
		}
		return others
	}
	assert.Greater(t, away(1), 9_900)
	assert.Greater(t, away(4), 9_000)
	assert.Less(t, away(200), 100)
	var k Kind
	for range 50 {
		k.recordSlow()
	}
	assert.EqualValues(t, maxAway, k.away)
	for range maxAway {
		k.Note(false)
	}
	assert.Zero(t, k.nextAway)
}

// TestKindsOf checks that each NFSv3 procedure has its own kind for each form.
func TestKindsOf(t *testing.T) {
	var k Kinds
	seen := make(map[*Kind]bool)
	for proc := range uint32(22) {
		for form := range uint32(formCount) {
			seen[k.Of(100003, proc, 0, form)] = true
		}
	}
	assert.Len(t, seen, 22*formCount)
	assert.NotSame(t, k.Of(100003, 1, 0, 0), k.Of(100003, 1, 1, 0), "not alike")
	assert.NotSame(t, k.Of(100003, 0, 0, 0), k.Of(100005, 0, 0, 0), "of another program")
}
