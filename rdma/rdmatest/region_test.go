package rdmatest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestRegionPlaced checks that a region knows which bytes were written, in any
// order and pieces.
func TestRegionPlaced(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const size = 20
		var s regions
		r, err := s.register(make([]byte, size), rdma.RemoteWrite|rdma.RemoteRead, s.next())
		require.NoError(t, err)
		var written [size]bool
		for range 8 {
			from := rng.IntN(size)
			to := from + 1 + rng.IntN(min(7, size-from))
			at := r.at
			at.TO += uint64(from)
			require.NoError(t, s.use(at, to-from, rdma.RemoteRead, func([]byte) {}))
			require.NoError(t, s.use(at, to-from, rdma.RemoteWrite, func([]byte) {}))
			for i := from; i < to; i++ {
				written[i] = true
			}
			for n := range size + 1 {
				require.Equal(t, !slices.Contains(written[:n], false), r.Placed(n), n)
			}
		}
	}
}
