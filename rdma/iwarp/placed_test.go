package iwarp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestPlaced checks, for random spans, that writtenRanges knows the gapless
// prefix's length.
func TestPlaced(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 7))
	for range 200 {
		const size = 300
		var p writtenRanges
		var model [size]bool
		longest := 1 + random.IntN(40)
		for range 60 {
			from := random.IntN(size)
			to := from + 1 + random.IntN(min(longest, size-from))
			p.addRange(byteRange{uint64(from), uint64(to)})
			for i := from; i < to; i++ {
				model[i] = true
			}
			whole := 0
			for whole < size && model[whole] {
				whole++
			}
			require.EqualValues(t, whole, p.prefix)
			last := p.prefix
			for _, s := range p.separate {
				require.Less(t, last, s.from, "a gap")
				require.Less(t, s.from, s.to)
				last = s.to
			}
		}
	}
}

// TestPlacedGaps checks that a peer cannot make the list of gaps grow without
// limit. Spans beyond the limit are forgotten until the peer writes them again.
func TestPlacedGaps(t *testing.T) {
	var p writtenRanges
	for i := uint64(3); i < 10*maxSeparate; i += 2 {
		p.addRange(byteRange{i, i + 1})
	}
	require.Len(t, p.separate, maxSeparate)
	for i := uint64(0); i < 2*maxSeparate+2; i += 2 {
		p.addRange(byteRange{i, i + 1})
	}
	p.addRange(byteRange{1, 2})
	assert.Empty(t, p.separate)
	assert.EqualValues(t, 2*maxSeparate+2, p.prefix)
	p.addRange(byteRange{p.prefix, 10 * maxSeparate})
	assert.EqualValues(t, 10*maxSeparate, p.prefix)
}

// TestRegionPlaced checks that a region, once invalid, knows how much the peer
// has written, for every placement path.
func TestRegionPlaced(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			const size = 200_000
			for _, first := range []int{0, 70_000} {
				a, b := connectPair(t, o)
				r, err := b.Register(make([]byte, size), rdma.RemoteWrite|rdma.Scratch)
				require.NoError(t, err)
				write := func(from, to int) rdma.WR {
					return rdma.WR{Op: rdma.OpWrite, Data: [][]byte{patternBytes(to - from)}, Remote: rdma.Remote{STag: r.STag(), TO: uint64(from)}}
				}
				require.NoError(t, a.Post(write(first, size), write(0, first/2), write(first/2, first), rdma.WR{Op: rdma.OpSend}))
				b.inbox.nextMessage(t)
				r.Deregister()
				assert.True(t, r.(rdma.Placer).Placed(size))
				r, err = b.Register(make([]byte, size), rdma.RemoteWrite|rdma.Scratch)
				require.NoError(t, err)
				require.NoError(t, a.Post(write(0, size/2), write(size/2+1, size), rdma.WR{Op: rdma.OpSend}))
				b.inbox.nextMessage(t)
				r.Deregister()
				assert.True(t, r.(rdma.Placer).Placed(size/2))
				assert.False(t, r.(rdma.Placer).Placed(size/2+1))
			}
		})
	}
}

// TestRegionPlacedByDomain checks that all Writes from a domain's peers are
// combined.
func TestRegionPlacedByDomain(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	r, err := d.Register(make([]byte, 6), rdma.RemoteWrite)
	require.NoError(t, err)
	for _, from := range []uint64{4, 2, 0} {
		e, p := connInDomain(t, d)
		p.sendSegments(writeSeg(true, r.STag(), from, []byte{1, 2}), sendSeg(true, 1, 0, nil))
		e.inbox.nextMessage(t)
	}
	r.Deregister()
	assert.True(t, r.(rdma.Placer).Placed(6))
}
