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

// TestHeldPending recalls a file while data that a program wrote to it is on
// the way, and checks that the recall neither waits for the data nor loses what
// is known of them.
func TestHeldPending(t *testing.T) {
	s := newGranting(t, true)
	one, two := s.mount(nil), s.mount(nil)
	put(t, s.file("a"), []byte("before"))
	reads(t, one.file("a"))
	reads(t, one.file("a"))
	n := one.table.child(one.table.node(1), "a")
	require.NotZero(t, n.object().Types())
	begun, end := one.blocked(nfs3.ProcWrite)
	f := open(t, one.file("a"), os.O_RDWR)
	_, err := f.WriteAt([]byte("pending"), 6)
	require.NoError(t, err)
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	begun()
	recalled := one.set.Stats().Recalled
	changed := make(chan error, 1)
	go func() { changed <- os.Chmod(two.file("a"), 0o600) }()
	soon := func(c <-chan error, what string) {
		t.Helper()
		select {
		case err := <-c:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			require.Fail(t, what)
		}
	}
	soon(changed, "the recall waits for the data")
	assert.Greater(t, one.set.Stats().Recalled, recalled)
	_, _, unsent := n.unsent()
	assert.True(t, unsent)
	n.mu.Lock()
	wrote := n.wrote
	n.mu.Unlock()
	assert.EqualValues(t, len("beforepending"), wrote)
	end()
	soon(synced, "the data do not arrive")
	st, err := f.Stat()
	require.NoError(t, err)
	assert.EqualValues(t, len("beforepending"), st.Size())
	assert.Equal(t, os.FileMode(0o600), st.Mode())
	p := make([]byte, 20)
	k, _ := f.ReadAt(p, 0)
	assert.Equal(t, "beforepending", string(p[:k]))
	require.NoError(t, f.Close())
	_, got := reads(t, two.file("a"))
	assert.Equal(t, "beforepending", got)
	one.same(s, "a")
	assert.Zero(t, s.keep.Stats().Late)
}

// TestHeldOld checks that the attributes of a grant that was recalled before its
// reply was evaluated do not replace newer ones.
func TestHeldOld(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	put(t, s.file("a"), []byte("a"))
	reads(t, m.file("a"))
	n := m.table.child(m.table.node(1), "a")
	began := m.tick()
	m.drop(n)
	n.mu.Lock()
	now := n.attr
	n.mu.Unlock()
	old := now
	old.Size++
	m.granted(n, began, &old, true)
	m.drop(n) // the recall of that grant
	n.mu.Lock()
	defer n.mu.Unlock()
	assert.Equal(t, now, n.attr)
	assert.Zero(t, n.grant)
	assert.Zero(t, n.freshLocked(), "what is known was recalled")
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
