package fusefs

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestHeldEarly checks that opening a small file reads it ahead, and that the
// data is discarded if the file changes meanwhile.
func TestHeldEarly(t *testing.T) {
	s := newGranting(t, true)
	m, other := s.mount(nil), s.mount(nil)
	for _, name := range []string{"a", "b"} {
		put(t, s.file(name), []byte("before"))
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(s.file(name), old, old))
	}
	time.Sleep(50 * time.Millisecond) // lets the server's clock leave the tick of the ctime
	lstat(t, m.file("a"))
	put(t, m.file("c"), nil) // shows the server's clock
	time.Sleep(50 * time.Millisecond)
	f := open(t, m.file("a"), os.O_RDONLY)
	require.Equal(t, 1, m.calls(nfs3.ProcRead))
	got := make([]byte, 10)
	n, _ := f.Read(got)
	assert.Equal(t, "before", string(got[:n]))
	_, content := reads(t, m.file("a"))
	assert.Equal(t, "before", content)
	assert.Equal(t, 1, m.calls(nfs3.ProcRead))

	read := make(chan struct{})
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Proc == nfs3.ProcAccess {
			<-read
			put(t, other.file("b"), []byte("after!"))
		}
		return nil
	})
	m.line.mu.Lock()
	m.after = func(x *oncrpc.Exchange) {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcRead {
			close(read)
		}
	}
	m.line.mu.Unlock()
	f = open(t, m.file("b"), os.O_RDONLY)
	m.setBefore(nil)
	m.line.mu.Lock()
	m.after = nil
	m.line.mu.Unlock()
	n, _ = f.Read(got)
	assert.Equal(t, "after!", string(got[:n]))
}

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
	assert.False(t, e.counts(n, p), "the version of the content is unknown")
}
