package iwarp

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestAtomicity checks that no addition is lost or reported twice when many
// connections and this process add to the same word (R7306-5.1.1-8); an
// overflow in a field does not change another field (R7306-5-1, R7306-5-3,
// R7306-5.1.1-1, R7306-5.3-1, R7306-5.4-2-1, RX01-5.4-2-1).
func TestAtomicity(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	mem := make([]byte, 64)
	r, err := d.Register(mem, rdma.RemoteAtomic)
	require.NoError(t, err)
	sum, fields := wordAt(t, mem, 0), wordAt(t, mem, 8)
	// The low field overflows at every other addition.
	wide := rdma.Atomic{Operand: 0x0000_0001_8000_0000, OperandMask: 0x8000_0000_8000_0000}

	// This many connections, each with this many additions.
	adders, additions := racetest.Of(64, 16), racetest.Of(10_000, 1000)
	plain := Config{CRC: mpa.CRCOff}
	var wg sync.WaitGroup
	local := adders * additions / 8 // by this process, in parallel
	originals := make([][]uint64, adders+1)
	for i := range adders {
		a, _ := connectPair(t, pairOptions{initiator: plain, responder: plain, domains: [2]*ProtectionDomain{1: d}})
		wg.Go(func() { originals[i] = addMany(t, a, r.STag(), wide, additions) })
	}
	wg.Go(func() {
		mine := make([]uint64, local)
		for i := range mine {
			mine[i] = sum.Add(1) - 1
			wide.Do(rdma.OpFetchAdd, fields)
		}
		originals[adders] = mine
	})
	wg.Wait()
	assert.EqualValues(t, adders*additions+local, sum.Load())
	all := slices.Concat(originals...)
	slices.Sort(all)
	require.Len(t, all, adders*additions+local)
	for i, original := range all {
		if uint64(i) != original {
			require.FailNow(t, "returned twice, or not at all", "%d", i)
		}
	}
	n := uint64(adders*additions/ones + local)
	assert.Equal(t, n<<32|n&1<<31, fields.Load())
	r.Deregister()
}

// ones is how often 1 is added for each addition to the fields; these are
// posted together.
const ones = 8

// addMany adds 1 to the first word the given number of times, and wide to the
// second, with several additions outstanding. It returns the first word's
// original values.
func addMany(t *testing.T, e endpoint, stag rdma.STag, wide rdma.Atomic, times int) (originals []uint64) {
	const ahead = 8 // posts
	cq := rdma.NewCompletionQueue((ones + 1) * ahead)
	one := rdma.WR{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: stag}, Atomic: rdma.Atomic{Operand: 1}, Done: cq}
	wrs := append(slices.Repeat([]rdma.WR{one}, ones), rdma.WR{
		Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: stag, TO: 8}, Atomic: wide, Done: cq, ID: 1,
	})
	var next uint64 // lower bound of the first word now
	for i := range times/ones + ahead {
		for range wrs {
			if i < ahead {
				break
			}
			c, err := cq.Wait(t.Context())
			if !assert.NoError(t, err) || !assert.NoError(t, c.Err) {
				return nil
			}
			if c.ID == 0 {
				if !assert.GreaterOrEqual(t, c.Original, next) {
					return nil
				}
				next = c.Original + 1
				originals = append(originals, c.Original)
			}
		}
		if i < times/ones && !assert.NoError(t, e.Post(wrs...)) {
			return nil
		}
	}
	return originals
}

// TestAtomicDeregister checks that no atomic operation changes the memory after
// Deregister has returned, and that the peer learns that the STag is gone.
func TestAtomicDeregister(t *testing.T) {
	checkLeaks(t)
	for range 20 {
		a, b := connectPair(t, pairOptions{})
		mem := make([]byte, 8)
		r, err := b.Register(mem, rdma.RemoteAtomic)
		require.NoError(t, err)
		word := wordAt(t, mem, 0)
		peer := runAsync(func() {
			one := rdma.WR{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: r.STag()}, Atomic: rdma.Atomic{Operand: 1}}
			for a.Post(one, one, one, one) == nil {
				runtime.Gosched()
			}
		})
		for word.Load() == 0 {
			runtime.Gosched()
		}
		r.Deregister()
		last := word.Load()
		require.ErrorIs(t, b.inbox.closeError(t), rdmap.ErrInvalidSTag)
		require.ErrorIs(t, a.inbox.closeError(t), rdmap.ErrInvalidSTag)
		requireSoon(t, peer, "the peer's end")
		assert.Equal(t, last, word.Load())
		assert.Equal(t, last, binary.NativeEndian.Uint64(mem))
	}
}

// TestAtomicAfterDeregister checks that an operation that finds its region
// before Deregister, and pins the region after, has no effect.
func TestAtomicAfterDeregister(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{})
	mem := make([]byte, 8)
	r, err := e.Register(mem, rdma.RemoteAtomic)
	require.NoError(t, err)
	r.(*region).markDead() // and not yet forgotten by the device
	_, err = e.performAtomic(addRequest(r.STag(), 0, 1))
	require.ErrorIs(t, err, rdmap.ErrInvalidSTag)
	assert.Zero(t, wordAt(t, mem, 0).Load())
	testDevice.removeRegion(r.(*region))
}
