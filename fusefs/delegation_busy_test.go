package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestHeldOpen checks the recall of a file that is open and being read.
func TestHeldOpen(t *testing.T) {
	s := newGranting(t, true)
	one, two := s.mount(nil), s.mount(nil)
	put(t, s.file("a"), []byte("before"))
	reads(t, one.file("a"))
	f := open(t, one.file("a"), os.O_RDONLY)
	reading, read := make(chan struct{}), make(chan struct{})
	one.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcRead {
			close(reading)
			<-read
		}
		return nil
	})
	n := one.table.child(one.table.node(1), "a")
	require.Zero(t, one.server.InodeNotify(n.id, 0, -1), "has the kernel read it again")
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := make([]byte, 10)
		_, _ = f.ReadAt(p, 0)
	}()
	<-reading
	put(t, two.file("a"), []byte("after!"))
	close(read)
	<-done
	one.setBefore(nil)
	one.same(s, "a")
	assert.Zero(t, s.keep.Stats().Late)
}

// TestHeldBoth has two mounts change and look up names in one directory at the
// same time, and checks that no deadlock occurs.
func TestHeldBoth(t *testing.T) {
	s := newGranting(t, true)
	mounts := []*mounted{s.mount(nil), s.mount(nil)}
	require.NoError(t, os.Mkdir(s.file("d"), 0o755))
	var working sync.WaitGroup
	for i, m := range mounts {
		for j := range 3 {
			working.Go(func() {
				for k := range 30 {
					name := m.file(fmt.Sprintf("d/%d%d", i, j))
					assert.NoError(t, os.WriteFile(name, []byte{byte(k)}, 0o644))
					_, err := os.ReadDir(m.file("d"))
					assert.NoError(t, err)
					_, _ = os.ReadFile(m.file(fmt.Sprintf("d/%d%d", 1-i, j)))
					assert.NoError(t, os.Rename(name, name+"x"))
					assert.NoError(t, os.Remove(name+"x"))
				}
			})
		}
	}
	working.Wait()
	for _, m := range mounts {
		assert.Empty(t, list(t, m.file("d")))
	}
	assert.Zero(t, s.keep.Stats().Late)
}

// TestHeldReconnect checks that the loss of the connection ends all
// delegations.
func TestHeldReconnect(t *testing.T) {
	s := newLeasing(t, 300*time.Millisecond, true) // changes of lost delegations wait this long
	m, other := s.mount(nil), s.mount(nil)
	put(t, s.file("a"), []byte("a"))
	for range 2 {
		m.same(s, "a")
	}
	require.NotZero(t, m.set.Stats().Held)
	m.dial.last.Load().Abort(errors.New("cut by the test"))
	require.Eventually(t, func() bool { return m.set.Stats().Held == 0 }, 10*time.Second, time.Millisecond)
	put(t, other.file("a"), []byte("b"))
	for range 3 {
		_, got := reads(t, m.file("a"))
		assert.Equal(t, "b", got)
	}
	m.same(s, "a")
	calls := m.total()
	m.same(s, "a")
	assert.Equal(t, calls, m.total())
}
