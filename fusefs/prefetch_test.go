package fusefs

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestEarly checks that a prefetch counts only if nothing has changed since.
func TestEarly(t *testing.T) {
	attr := nfs3.Attr{Size: 4, Ctime: nfs3.Time{Sec: 1}}
	e := &prefetch{data: []byte("data"), attr: nfs3.PostOpAttr{OK: true, Attr: attr}, began: 5, read: 3e9}
	p := &pages{stamp: stampOf(&attr)}
	n := new(node)
	n.changed = 4
	assert.True(t, e.counts(n, p))
	assert.False(t, e.counts(n, new(pages)), "the file is another now")
	f := &file{n: n}
	buf := make([]byte, 10)
	reads := func(off uint64, size int) bool {
		f.prefetch.Store(e)
		_, ok := f.readEarly(buf[:size], off)
		assert.Nil(t, f.prefetch.Load(), "it is for the first READ")
		return ok
	}
	assert.True(t, reads(0, 10))
	assert.False(t, reads(1, 10))
	assert.False(t, reads(0, 3), "it wants less")

	n.changed = 5
	assert.False(t, e.counts(n, p), "changed by this mount")
	assert.False(t, reads(0, 10))
	n.changed = 4
	e.attr.OK = false
	assert.False(t, e.counts(n, p), "nobody knows of what it is")
}
