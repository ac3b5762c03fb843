package iwarp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestPlaced checks, for random spans, that placed knows the length of the
// gapless prefix.
func TestPlaced(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 7))
	for range 200 {
		const size = 300
		var p placed
		var model [size]bool
		longest := 1 + random.IntN(40)
		for range 60 {
			from := random.IntN(size)
			to := from + 1 + random.IntN(min(longest, size-from))
			p.add(span{uint64(from), uint64(to)})
			for i := from; i < to; i++ {
				model[i] = true
			}
			whole := 0
			for whole < size && model[whole] {
				whole++
			}
			require.EqualValues(t, whole, p.whole)
			last := p.whole
			for _, s := range p.apart {
				require.Less(t, last, s.from, "a gap")
				require.Less(t, s.from, s.to)
				last = s.to
			}
		}
	}
}

// TestPlacedGaps checks that a peer cannot cause an unlimited list of gaps.
// Spans beyond the limit are forgotten until the peer writes them again.
func TestPlacedGaps(t *testing.T) {
	var p placed
	for i := uint64(3); i < 10*maxApart; i += 2 {
		p.add(span{i, i + 1})
	}
	require.Len(t, p.apart, maxApart)
	for i := uint64(0); i < 2*maxApart+2; i += 2 {
		p.add(span{i, i + 1})
	}
	p.add(span{1, 2})
	assert.Empty(t, p.apart)
	assert.EqualValues(t, 2*maxApart+2, p.whole)
	p.add(span{p.whole, 10 * maxApart})
	assert.EqualValues(t, 10*maxApart, p.whole)
}

// TestRegionPlaced checks that a region, once invalid, knows how much of it the
// peer has written, for every placement path.
func TestRegionPlaced(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			world(t)
			const size = 200_000
			for _, first := range []int{0, 70_000} {
				a, b := pair(t, o)
				r, err := b.Register(make([]byte, size), rdma.RemoteWrite|rdma.Scratch)
				require.NoError(t, err)
				write := func(from, to int) rdma.WR {
					return rdma.WR{Op: rdma.OpWrite, Data: [][]byte{pattern(to - from)}, Remote: rdma.Remote{STag: r.STag(), TO: uint64(from)}}
				}
				require.NoError(t, a.Post(write(first, size), write(0, first/2), write(first/2, first), rdma.WR{Op: rdma.OpSend}))
				b.in.next(t)
				r.Deregister()
				assert.True(t, r.(rdma.Placer).Placed(size))
				r, err = b.Register(make([]byte, size), rdma.RemoteWrite|rdma.Scratch)
				require.NoError(t, err)
				require.NoError(t, a.Post(write(0, size/2), write(size/2+1, size), rdma.WR{Op: rdma.OpSend}))
				b.in.next(t)
				r.Deregister()
				assert.True(t, r.(rdma.Placer).Placed(size/2))
				assert.False(t, r.(rdma.Placer).Placed(size/2+1))
			}
		})
	}
}

// TestRegionPlacedByDomain checks that the Writes of all peers of a domain are
// combined.
func TestRegionPlacedByDomain(t *testing.T) {
	world(t)
	d := lab.NewProtectionDomain()
	r, err := d.Register(make([]byte, 6), rdma.RemoteWrite)
	require.NoError(t, err)
	for _, from := range []uint64{4, 2, 0} {
		e, p := member(t, d)
		p.send(writeSeg(true, r.STag(), from, []byte{1, 2}), sendSeg(true, 1, 0, nil))
		e.in.next(t)
	}
	r.Deregister()
	assert.True(t, r.(rdma.Placer).Placed(6))
}
