package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
)

// TestPages checks when the kernel's pages of a file count as current.
func TestPages(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	n := m.heldSeen(s)
	o := m.begin(nil, new(fuse.InHeader))
	defer m.end(o)
	current := func(p pages) bool {
		n.mu.Lock()
		n.pages = &p
		n.mu.Unlock()
		known, current := m.keeps(o, n)
		assert.True(t, known)
		return current
	}
	stamp := stampOf(&n.attr)
	late := stamp.CTime + 1e9
	assert.False(t, current(pages{}), "no attributes were read")
	assert.True(t, current(pages{tick: n.grant}), "read under the grant")
	before := pages{tick: n.grant - 1, read: late, stamp: stamp}
	assert.True(t, current(before))
	assert.False(t, current(pages{before.tick, stamp.CTime, stamp}), "in the tick of ctime")
	before.stamp.Size++
	assert.False(t, current(before))

	n.changed = m.tick()
	assert.False(t, current(pages{n.changed, late, stamp}), "read before a change of ours was over")
	assert.True(t, current(pages{m.tick(), late, stamp}))

	p := pages{tick: m.tick(), read: late, stamp: stamp}
	m.drop(n)
	assert.False(t, current(p), "its attributes are unknown")

	f := &file{n: n}
	f.emptied.Store(&pages{tick: p.tick - 1})
	f.opened()
	assert.Equal(t, &p, n.pages, "pages of the earlier open")
}
