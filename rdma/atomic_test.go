package rdma

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The vectors were computed independently from RFC 7306, Section 5.1.
func TestFetchAdd(t *testing.T) {
	for _, tt := range []struct{ word, add, mask, want uint64 }{
		{0xffffffffffffffff, 1, 0, 0}, // R7306-5.1.1-2
		{41, 1, 0, 42},
		{0x00000000ffffffff, 1, 0x0000000080000000, 0}, // R7306-5.1.1-1
		{0xffff0001ffff0001, 0x0001000100010001, 0x8000800080008000, 0x0000000200000002},
		{0x00000001_00000000, 0x00000000_ffffffff, 0x8000000080000000, 0x00000001_ffffffff},
		{0x00000001_00000001, 0x00000000_ffffffff, 0x8000000080000000, 0x00000001_00000000},
		{0x5555555555555555, 0xffffffffffffffff, AllBits, 0xaaaaaaaaaaaaaaaa}, // one-bit fields
		{0xffffffffffffffff, 1, 1, 0xfffffffffffffffe},
		{0x8000000000000000, 0x8000000000000000, 1 << 63, 0},
	} {
		// R7306-5.1.1-8: a compare mask has no effect
		a := Atomic{Operand: tt.add, OperandMask: tt.mask, Compare: 1, CompareMask: AllBits}
		assert.Equal(t, tt.want, a.FetchAdd(tt.word), "%x + %x", tt.word, tt.add)
		word := new(atomic.Uint64)
		word.Store(tt.word)
		assert.Equal(t, tt.word, a.Do(OpFetchAdd, word))
		assert.Equal(t, tt.want, word.Load())
	}
}

// addInFields is FetchAdd according to the pseudocode of RFC 7306, Section 5.1.1.
func addInFields(word, add, mask uint64) (sum uint64) {
	carry := uint64(0)
	for bit := range 64 {
		s := carry + word>>bit&1 + add>>bit&1
		sum |= s & 1 << bit
		carry = s >> 1 &^ (mask >> bit & 1)
	}
	return sum
}

func FuzzFetchAdd(f *testing.F) {
	f.Add(uint64(0xffff0001ffff0001), uint64(0x0001000100010001), uint64(0x8000800080008000))
	for range 100 {
		f.Add(rand.Uint64(), rand.Uint64(), rand.Uint64()&rand.Uint64())
	}
	f.Fuzz(func(t *testing.T, word, add, mask uint64) {
		require.Equal(t, addInFields(word, add, mask), Atomic{Operand: add, OperandMask: mask}.FetchAdd(word)) // R7306-5.1.1-1
	})
}

func TestCompareSwap(t *testing.T) {
	const low, high = 0x00ff, 0xff00
	for _, tt := range []struct {
		a          Atomic
		word, want uint64
	}{
		// R7306-5.1.2-1, R7306-5.1.2-2
		{Atomic{Operand: 0xab00, OperandMask: high, Compare: 0x12, CompareMask: low}, 0x0012, 0xab12},
		{Atomic{Operand: 0xab00, OperandMask: high, Compare: 0x12, CompareMask: low}, 0x3413, 0x3413},
		{Atomic{Operand: 0xabcd, OperandMask: high, Compare: 0xff12, CompareMask: low}, 0x3412, 0xab12},
		{Atomic{Operand: 5, OperandMask: AllBits, Compare: 4, CompareMask: AllBits}, 4, 5},
		{Atomic{Operand: 5, OperandMask: AllBits, Compare: 4, CompareMask: AllBits}, 1<<63 | 4, 1<<63 | 4},
		{Atomic{Operand: 5, OperandMask: AllBits, Compare: 4}, 77, 5}, // no bit is compared
		{Atomic{Operand: 5, Compare: 4, CompareMask: AllBits}, 4, 4},  // no bit is swapped
	} {
		assert.Equal(t, tt.want, tt.a.CompareSwap(tt.word))
		word := new(atomic.Uint64)
		word.Store(tt.word)
		assert.Equal(t, tt.word, tt.a.Do(OpCompareSwap, word)) // R7306-5.1.2-3
		assert.Equal(t, tt.want, word.Load())
	}
}

func TestWord(t *testing.T) {
	mem := make([]byte, 32)
	for off := range 32 {
		word, err := Word(mem, off)
		if off%8 != 0 || off > 24 {
			assert.Error(t, err, off)
			continue
		}
		require.NoError(t, err)
		word.Store(AllBits)
		assert.EqualValues(t, 0xff, mem[off])
		assert.EqualValues(t, 0xff, mem[off+7])
	}
	shifted := mem[3:]
	_, err := Word(shifted, 5) // the address must be aligned, not the offset
	require.NoError(t, err)
	_, err = Word(shifted, 8)
	require.ErrorContains(t, err, "not 64-bit aligned")
	for _, off := range []int{-1, -8, 25, 1 << 40} {
		_, err = Word(mem, off)
		require.ErrorContains(t, err, "no word")
	}
	_, err = Word(nil, 0)
	require.ErrorContains(t, err, "no word")
}

func TestOpNames(t *testing.T) {
	for op, name := range []string{"Send", "RDMA Write", "RDMA Read", "FetchAdd", "CmpSwap", "Immediate Data", "Op(6)"} {
		assert.Equal(t, name, Op(op).String())
		assert.Equal(t, op == 3 || op == 4, Op(op).Atomic())
	}
}

// TestDoAlone checks that concurrent adders all get different originals
// (R7306-5.1.1-8).
func TestDoAlone(t *testing.T) {
	const adders, additions = 4, 500_000
	var word atomic.Uint64
	var wg sync.WaitGroup
	var originals [adders][]uint64
	start := make(chan struct{})
	for i := range originals {
		wg.Go(func() {
			mine, one := make([]uint64, additions), Atomic{Operand: 1}
			<-start
			for k := range mine {
				mine[k] = one.Do(OpFetchAdd, &word)
			}
			originals[i] = mine
		})
	}
	close(start)
	wg.Wait()
	all := slices.Concat(originals[:]...)
	slices.Sort(all)
	for i, original := range all {
		if uint64(i) != original {
			require.FailNow(t, "returned twice, or not at all", "%d", i)
		}
	}
}
