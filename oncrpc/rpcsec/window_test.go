package rpcsec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSequence compares the window with the definition of RFC 2203, Section
// 5.3.3.1, under random numbers near and far.
func TestSequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var s sequenceWindow
		seen := make(map[uint32]bool)
		last, any := uint32(0), false
		base := rng.Uint32N(maxSeq / 2)
		for range 3000 {
			var seq uint32
			switch rng.IntN(20) {
			case 0:
				base += rng.Uint32N(3 * window)
				seq = base
			case 1:
				seq = rng.Uint32N(maxSeq)
				if seq > base+10*window { // a jump to the end would be the last
					seq = base + 64*rng.Uint32N(100)
				}
			default:
				seq = base + 300 - min(rng.Uint32N(2*window), base)
			}
			want := !any || seq > last || last-seq < window && !seen[seq]
			require.Equal(t, want, s.isFresh(seq), "R2203-5.3.3.1-2, R2203-5.3.3.1-4: %d after %d", seq, last)
			if rng.IntN(4) == 0 {
				continue // it was not verified
			}
			require.Equal(t, want, s.markSeen(seq))
			require.False(t, s.isFresh(seq))
			require.False(t, s.markSeen(seq))
			if want && (!any || seq > last) {
				last, any = seq, true
			}
			seen[seq] = seen[seq] || want
		}
	}
}

// TestSequenceShuffled checks that four times as many calls as a connection has
// credits may overtake each other in any way.
func TestSequenceShuffled(t *testing.T) {
	const under, calls = window, 10000
	rng := rand.New(rand.NewPCG(1, 2))
	var s sequenceWindow
	var way []uint32
	for next := uint32(0); next < calls || len(way) > 0; {
		if next < calls && (len(way) == 0 || next-way[0] < under) {
			way = append(way, next)
			next++
			if rng.IntN(3) > 0 {
				continue
			}
		}
		i := rng.IntN(len(way))
		assert.True(t, s.markSeen(way[i]), "R2203-5.3.3.1-5")
		way = append(way[:i], way[i+1:]...) // in order: the first is the oldest
	}
}
