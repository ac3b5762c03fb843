package ddp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type segmentRange struct {
	off, n int
	last   bool
}

// splitMessage cuts a message as a sender does.
func splitMessage(length, mulpdu, headerLen int) (pieces []segmentRange) {
	for off := 0; ; {
		n, last := NextSegment(length, off, mulpdu, headerLen)
		pieces = append(pieces, segmentRange{off, n, last})
		if off += n; last {
			return pieces
		}
	}
}

func TestNextSegment(t *testing.T) {
	tests := []struct {
		name                      string
		length, mulpdu, headerLen int
		want                      []segmentRange
	}{
		{"R5041-5.2-5 RFC's example", 2048, 1500, UntaggedLen, []segmentRange{{0, 1482, false}, {1482, 566, true}}},
		{"R5041-5.2-7 RFC's example", 2048, 1500, TaggedLen, []segmentRange{{0, 1486, false}, {1486, 562, true}}},
		{"R5041-5.2-8 no bytes", 0, 1500, TaggedLen, []segmentRange{{0, 0, true}}},
		{"R5041-5.2-1 just fits", 1482, 1500, UntaggedLen, []segmentRange{{0, 1482, true}}},
		{"R5041-5.2-1 one more", 1483, 1500, UntaggedLen, []segmentRange{{0, 1482, false}, {1482, 1, true}}},
		{"as siw at MTU 1500", 4096, 1450, TaggedLen, []segmentRange{{0, 1436, false}, {1436, 1436, false}, {2872, 1224, true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, splitMessage(tt.length, tt.mulpdu, tt.headerLen))
		})
	}
}

func TestSegmentsMakeTheMessage(t *testing.T) {
	for _, mulpdu := range []int{128, 129, 1442, 64768} {
		for _, length := range []int{0, 1, 109, 110, 111, 220, 5000, 1 << 20} {
			sum, lasts := 0, 0
			for _, p := range splitMessage(length, mulpdu, UntaggedLen) {
				assert.Equal(t, sum, p.off) // R5041-5.3-2
				assert.LessOrEqual(t, UntaggedLen+p.n, mulpdu)
				sum += p.n
				if p.last { // R5041-4.1-3, R5041-4.1-4
					lasts++
				}
			}
			assert.Equal(t, length, sum) // R5041-5.2-3
			assert.Equal(t, 1, lasts)
		}
	}
	n, last := NextSegment(MaxMessageLen, MaxMessageLen-5, 1500, TaggedLen) // R5041-5.2-2
	assert.Equal(t, 5, n)
	assert.True(t, last)
}

func TestQueue(t *testing.T) {
	var q Queue
	assert.EqualValues(t, 1, q.msn()) // R5041-4.3-6
	require.NoError(t, q.Place(Untagged{MSN: 1}, 1000, 4096))
	assert.EqualValues(t, 1000, q.mo)
	require.NoError(t, q.Place(Untagged{MSN: 1, MO: 1000, Last: true}, 3096, 4096), "to the buffer's last byte")
	assert.EqualValues(t, 2, q.msn()) // R5041-4.3-5
	assert.Zero(t, q.mo)
	require.NoError(t, q.Place(Untagged{MSN: 2, Last: true}, 0, 0), "an empty message in an empty buffer")
	assert.EqualValues(t, 3, q.msn())
}

func TestQueueErrors(t *testing.T) {
	const size = 100
	tests := []struct {
		name string
		hdr  Untagged
		n    int
		size int
		want error
	}{
		{"R5041-7.1-U2-1 no buffer", Untagged{MSN: 7, MO: 40}, 1, NoBuffer, ErrNoBuffer},
		{"R5040-5.3-11 no buffer for an empty Send", Untagged{MSN: 7, MO: 40, Last: true}, 0, NoBuffer, ErrNoBuffer},
		{"R5041-7.1-U5-1 MSN replayed", Untagged{MSN: 6, MO: 40}, 1, size, ErrMSNRange},
		{"R5041-7.1-U5-1 MSN skipped", Untagged{MSN: 8}, 1, size, ErrMSNRange},
		{"R5041-7.1-U3-1 MO past the buffer", Untagged{MSN: 7, MO: size + 1}, 1, size, ErrInvalidMO},
		{"R5041-7.1-U3-1 MO beyond what came", Untagged{MSN: 7, MO: 41}, 1, size, ErrInvalidMO},
		{"R5041-7.1-U3-1 MO before what came", Untagged{MSN: 7, MO: 39}, 1, size, ErrInvalidMO},
		{"R5041-7.1-U3-1 MO at the message's start", Untagged{MSN: 7}, 1, size, ErrInvalidMO},
		{"R5041-7.1-U4-1 one byte too long", Untagged{MSN: 7, MO: 40, Last: true}, 61, size, ErrTooLong},
		{"R5041-7.1-U4-1 much too long", Untagged{MSN: 7, MO: 40}, 65535, size, ErrTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := Queue{completed: 6, mo: 40}
			assert.ErrorIs(t, q.Place(tt.hdr, tt.n, tt.size), tt.want)
			assert.Equal(t, Queue{completed: 6, mo: 40}, q, "an error moves nothing")
		})
	}
}

func TestMSNWraps(t *testing.T) {
	q := Queue{completed: 0xfffffffe} // R5041-4.3-7
	for _, msn := range []uint32{0xffffffff, 0, 1} {
		require.NoError(t, q.Place(Untagged{MSN: msn, Last: true}, 1, 1))
	}
}

func TestCheckTagged(t *testing.T) {
	const top = 1<<64 - 1
	buf := Buffer{TO: 1000, Len: 100, Writable: true}
	tests := []struct {
		name string
		buf  Buffer
		to   uint64
		n    int
		want error
	}{
		{"all of it", buf, 1000, 100, nil},
		{"its last byte", buf, 1099, 1, nil},
		{"R5041-7.1-T3-1 before", buf, 999, 1, ErrBounds},
		{"R5041-7.1-T3-1 far before", buf, 0, 100, ErrBounds},
		{"R5041-7.1-T3-1 behind", buf, 1100, 1, ErrBounds},
		{"R5041-7.1-T4-1 one byte over", buf, 1000, 101, ErrBounds},
		{"R5041-7.1-T4-1 from inside", buf, 1099, 2, ErrBounds},
		{"R5041-7.1-T5-1 wrap", buf, top - 3, 5, ErrTOWrap},
		{"R5041-7.1-T5-1 wrap into the buffer", buf, top - 3, 1010, ErrTOWrap},
		{"just no wrap", buf, top - 4, 4, ErrBounds},
		{"an empty buffer", Buffer{TO: 1000, Writable: true}, 1000, 1, ErrBounds},
		{"a buffer from 0", Buffer{Len: 8, Writable: true}, 0, 8, nil},
		{"a buffer from 0, over", Buffer{Len: 8, Writable: true}, 1, 8, ErrBounds},
		{"R5041-7.1-T2-1 not writable", Buffer{TO: 1000, Len: 100}, 1000, 1, ErrInvalidSTag},
		{"R5041-5.2-9 no bytes, anywhere", Buffer{}, top, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckTagged(tt.buf, Tagged{TO: tt.to}, tt.n)
			if tt.want == nil {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

// FuzzQueue checks that a queue accepts only segments that are in order and fit
// its buffer, R5041-8.1-1.
func FuzzQueue(f *testing.F) {
	f.Add(uint32(1), uint32(0), uint16(100), true, uint32(1), uint32(0), uint16(5), true, 4096)
	f.Add(uint32(1), uint32(0), uint16(100), false, uint32(1), uint32(100), uint16(5), true, 105)
	f.Fuzz(func(t *testing.T, msn1, mo1 uint32, n1 uint16, last1 bool, msn2, mo2 uint32, n2 uint16, last2 bool, size int) {
		size = min(size, MaxMessageLen)
		var q Queue
		msn, mo := uint32(FirstMSN), uint32(0)
		for _, s := range []struct {
			h Untagged
			n int
		}{{Untagged{MSN: msn1, MO: mo1, Last: last1}, int(n1)}, {Untagged{MSN: msn2, MO: mo2, Last: last2}, int(n2)}} {
			fits := size >= 0 && s.h.MSN == msn && s.h.MO == mo && int(mo)+s.n <= size
			err := q.Place(s.h, s.n, size)
			assert.Equal(t, fits, err == nil)
			if err != nil {
				assert.IsType(t, Error{}, err)
				return
			}
			mo += uint32(s.n)
			if s.h.Last {
				msn, mo = msn+1, 0
			}
		}
	})
}
