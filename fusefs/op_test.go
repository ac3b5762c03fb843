package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
)

// TestOps: a request may get the op of an earlier one, but not one that has
// ended before its time; and who has an op while another gets one has it alone.
func TestOps(t *testing.T) {
	m := new(Mount)
	interrupt := make(chan struct{})
	close(interrupt)
	gone := func() bool { return false }
	first := m.begin(nil, &fuse.InHeader{})
	second := m.begin(interrupt, &fuse.InHeader{Caller: fuse.Caller{Pid: 1 << 30}}) // nobody has this number
	assert.NotSame(t, first, second)
	m.ops.end(gone)
	assert.NoError(t, first.Err())
	assert.Error(t, second.Err())
	m.end(second)
	third := m.begin(nil, &fuse.InHeader{})
	assert.NotSame(t, second, third)
	assert.NoError(t, third.Err())
	m.end(first)
	assert.Same(t, first, m.begin(nil, &fuse.InHeader{}))
	assert.Len(t, m.ops.all, 2)
	m.ops.end(func() bool { return true })
	assert.Error(t, first.Err())
	assert.Error(t, third.Err())
}

// BenchmarkRequest is what each request costs before it does anything.
func BenchmarkRequest(b *testing.B) {
	m := new(Mount)
	h := new(fuse.InHeader)
	b.ReportAllocs()
	for b.Loop() {
		m.end(m.begin(nil, h))
	}
}
