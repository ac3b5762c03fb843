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

// TestHeldEarly checks that opening a small file reads it ahead, and that the data
// is discarded if the file changes in the meantime.
func TestHeldEarly(t *testing.T) {
	s := newGrantingServer(t, true)
	m, other := s.mount(nil), s.mount(nil)
	for _, name := range []string{"a", "b"} {
		writeFile(t, s.path(name), []byte("before"))
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(s.path(name), old, old))
	}
	time.Sleep(50 * time.Millisecond) // lets the server's clock leave the tick of the ctime
	mustLstat(t, m.path("a"))
	writeFile(t, m.path("c"), nil) // shows the server's clock
	time.Sleep(50 * time.Millisecond)
	f := openAt(t, m.path("a"), os.O_RDONLY)
	require.Equal(t, 1, m.callCount(nfs3.ProcRead))
	got := make([]byte, 10)
	n, _ := f.Read(got)
	assert.Equal(t, "before", string(got[:n]))
	_, content := statAndRead(t, m.path("a"))
	assert.Equal(t, "before", content)
	assert.Equal(t, 1, m.callCount(nfs3.ProcRead))

	read := make(chan struct{})
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Proc == nfs3.ProcAccess {
			<-read
			writeFile(t, other.path("b"), []byte("after!"))
		}
		return nil
	})
	m.observedConn.mu.Lock()
	m.after = func(x *oncrpc.Exchange) {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcRead {
			close(read)
		}
	}
	m.observedConn.mu.Unlock()
	f = openAt(t, m.path("b"), os.O_RDONLY)
	m.setBefore(nil)
	m.observedConn.mu.Lock()
	m.after = nil
	m.observedConn.mu.Unlock()
	n, _ = f.Read(got)
	assert.Equal(t, "after!", string(got[:n]))
}

// TestEarly checks that a prefetch counts only if nothing has changed since.
func TestEarly(t *testing.T) {
	attr := nfs3.Attr{Size: 4, Ctime: nfs3.Time{Sec: 1}}
	e := &prefetch{data: []byte("data"), attr: nfs3.PostOpAttr{OK: true, Attr: attr}, began: 5, read: 3e9}
	p := &cachedPages{stamp: attrStamp(&attr)}
	n := new(node)
	n.changedAt = 4
	assert.True(t, e.matchesPages(n, p))
	assert.False(t, e.matchesPages(n, new(cachedPages)), "the file is another now")
	f := &openFile{n: n}
	buf := make([]byte, 10)
	reads := func(off uint64, size int) bool {
		f.prefetch.Store(e)
		_, ok := f.readPrefetched(buf[:size], off)
		assert.Nil(t, f.prefetch.Load(), "it is for the first READ")
		return ok
	}
	assert.True(t, reads(0, 10))
	assert.False(t, reads(1, 10))
	assert.False(t, reads(0, 3), "it wants less")

	n.changedAt = 5
	assert.False(t, e.matchesPages(n, p), "changed by this mount")
	assert.False(t, reads(0, 10))
	n.changedAt = 4
	e.attr.OK = false
	assert.False(t, e.matchesPages(n, p), "the version of the content is unknown")
}
