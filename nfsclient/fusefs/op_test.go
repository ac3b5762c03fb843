package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
)

// TestOps checks that a request may get the op of an earlier request, unless that
// op was canceled or is still in use.
func TestOps(t *testing.T) {
	m := new(Mount)
	interrupt := make(chan struct{})
	close(interrupt)
	gone := func() bool { return false }
	first := m.beginRequest(nil, &fuse.InHeader{})
	second := m.beginRequest(interrupt, &fuse.InHeader{Caller: fuse.Caller{Pid: 1 << 30}}) // no process has this number
	assert.NotSame(t, first, second)
	m.ops.stopKilled(gone)
	assert.NoError(t, first.Err())
	assert.Error(t, second.Err())
	m.endRequest(second)
	third := m.beginRequest(nil, &fuse.InHeader{})
	assert.NotSame(t, second, third)
	assert.NoError(t, third.Err())
	m.endRequest(first)
	assert.Same(t, first, m.beginRequest(nil, &fuse.InHeader{}))
	assert.Len(t, m.ops.all, 2)
	m.ops.stopKilled(func() bool { return true })
	assert.Error(t, first.Err())
	assert.Error(t, third.Err())
}

// TestOpAnew checks that a reused op has no state from the earlier request.
func TestOpAnew(t *testing.T) {
	m := new(Mount)
	o := m.beginRequest(nil, &fuse.InHeader{Caller: fuse.Caller{Pid: 1}, Unique: 1})
	dir := &node{m: m}
	o.recordNameChanges(dir)
	o.markClose()
	o.polls, o.openedHandle, o.createdName = 3, 4, givenName{dir, "a"}
	o.referred = append(o.referred, dir)
	m.endRequest(o)
	p := m.beginRequest(nil, &fuse.InHeader{Caller: fuse.Caller{Pid: 2}, Unique: 2})
	assert.Same(t, o, p)
	assert.Equal(t, &op{
		m: m, from: fuse.Caller{Pid: 2}, unique: 2, done: o.done, calls: o.calls,
		touched: []*node{}, referred: []*node{},
	}, p)
	assert.Equal(t, []*node{nil}, p.touched[:1], "the node is not kept")
	assert.Equal(t, []*node{nil}, p.referred[:1])
}

// TestEndKilled checks that a dead process does not wait while the server responds
// to others, and that the kernel gets a reply for calls that continue. If it is
// unknown whether the process is dead, a request that changes nothing ends after a
// longer time.
func TestEndKilled(t *testing.T) {
	m := new(Mount)
	interrupt := make(chan struct{})
	close(interrupt)
	begin := func(pid uint32, unique uint64, touched ...*node) *op {
		o := m.beginRequest(interrupt, &fuse.InHeader{Caller: fuse.Caller{Pid: pid}, Unique: unique})
		o.recordMayChange(touched...)
		return o
	}
	n := &node{m: m}
	const nobody = 1 << 30
	dead, look, change := begin(nobody, 1, n, nil), begin(0, 2), begin(0, 3, n)
	var answers []uint64
	takes, gone := true, false
	poll := func() []*node {
		return m.ops.abandonKilled(func(unique uint64) bool { answers = append(answers, unique); return takes }, func() bool { return gone })
	}
	for range killPolls {
		assert.NoError(t, dead.Err())
		assert.Empty(t, poll())
	}
	assert.Error(t, dead.Err(), "waits here end")
	assert.Empty(t, answers, "the server may still answer")
	takes = false
	assert.Empty(t, poll())
	assert.False(t, n.hasUnsettledChange(), "the kernel has an answer already")
	takes, m.ops.lateCount = true, maxLate
	assert.Empty(t, poll())
	m.ops.lateCount = 0
	assert.Equal(t, []*node{n}, poll())
	assert.Equal(t, []uint64{1, 1}, answers)
	assert.True(t, n.hasUnsettledChange())
	assert.NoError(t, dead.calls.Err(), "its call continues")
	for range unseenPolls - killPolls - 4 {
		poll()
		assert.NoError(t, look.Err())
	}
	poll()
	assert.Error(t, look.Err())
	poll()
	assert.Equal(t, []uint64{1, 1, 2}, answers)
	for range 2 * unseenPolls {
		poll()
	}
	assert.NoError(t, change.Err())
	gone = true
	poll()
	assert.Error(t, dead.calls.Err())
	m.endRequest(dead)
	m.endRequest(look)
	assert.False(t, n.hasUnsettledChange())
	assert.Zero(t, m.ops.lateCount)
	assert.NotSame(t, dead, begin(1, 4))
}

// BenchmarkRequest measures the fixed cost of a request.
func BenchmarkRequest(b *testing.B) {
	m := new(Mount)
	h := new(fuse.InHeader)
	b.ReportAllocs()
	for b.Loop() {
		m.endRequest(m.beginRequest(nil, h))
	}
}
