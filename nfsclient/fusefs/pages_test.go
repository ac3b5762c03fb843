package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
)

// TestPages checks when the kernel's pages of a file count as current.
func TestPages(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	n := m.holdKnownFile(s)
	o := m.beginRequest(nil, new(fuse.InHeader))
	defer m.endRequest(o)
	current := func(p cachedPages) bool {
		n.mu.Lock()
		n.pages = &p
		n.mu.Unlock()
		return m.mayKeepPages(o, n)
	}
	stamp := attrStamp(&n.attr)
	late := stamp.CTime + 1e9
	assert.False(t, current(cachedPages{}), "no attributes were read")
	assert.True(t, current(cachedPages{tick: n.grant}), "read under the grant")
	before := cachedPages{tick: n.grant - 1, read: late, stamp: stamp}
	assert.True(t, current(before))
	assert.False(t, current(cachedPages{before.tick, stamp.CTime, stamp}), "in the tick of ctime")
	before.stamp.Size++
	assert.False(t, current(before))

	n.dataChangedAt = m.nextTick()
	assert.False(t, current(cachedPages{n.dataChangedAt, late, stamp}), "read before a change of ours was over")
	assert.True(t, current(cachedPages{m.nextTick(), late, stamp}))

	p := cachedPages{tick: m.nextTick(), read: late, stamp: stamp}
	m.dropDelegation(n)
	assert.False(t, current(p), "its attributes are unknown")

	f := &openFile{n: n}
	f.emptied.Store(&cachedPages{tick: p.tick - 1})
	f.confirmOpened()
	assert.Equal(t, &p, n.pages, "pages of the earlier open")
}
