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
	s := newGrantingServer(t, true)
	one, two := s.mount(nil), s.mount(nil)
	writeFile(t, s.path("a"), []byte("before"))
	statAndRead(t, one.path("a"))
	f := openAt(t, one.path("a"), os.O_RDONLY)
	reading, read := make(chan struct{}), make(chan struct{})
	one.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcRead {
			close(reading)
			<-read
		}
		return nil
	})
	n := one.table.findChild(one.table.findNode(1), "a")
	require.Zero(t, one.server.InodeNotify(n.id, 0, -1), "has the kernel read it again")
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := make([]byte, 10)
		_, _ = f.ReadAt(p, 0)
	}()
	<-reading
	writeFile(t, two.path("a"), []byte("after!"))
	close(read)
	<-done
	one.setBefore(nil)
	one.assertSameAsServer(s, "a")
	assert.Zero(t, s.keeper.Stats().Late)
}

// TestHeldPending recalls a file while data that a program wrote to it is on
// the way, and checks that the recall neither waits for the data nor loses what
// is known of them.
func TestHeldPending(t *testing.T) {
	s := newGrantingServer(t, true)
	one, two := s.mount(nil), s.mount(nil)
	writeFile(t, s.path("a"), []byte("before"))
	statAndRead(t, one.path("a"))
	statAndRead(t, one.path("a"))
	n := one.table.findChild(one.table.findNode(1), "a")
	require.NotZero(t, n.delegationObject().Types())
	begun, end := one.blockCalls(nfs3.ProcWrite)
	f := openAt(t, one.path("a"), os.O_RDWR)
	_, err := f.WriteAt([]byte("pending"), 6)
	require.NoError(t, err)
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	begun()
	recalled := one.set.Stats().Recalled
	changed := make(chan error, 1)
	go func() { changed <- os.Chmod(two.path("a"), 0o600) }()
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
	_, _, unsent := n.unsentRange()
	assert.True(t, unsent)
	n.mu.Lock()
	wrote := n.writtenEnd
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
	_, got := statAndRead(t, two.path("a"))
	assert.Equal(t, "beforepending", got)
	one.assertSameAsServer(s, "a")
	assert.Zero(t, s.keeper.Stats().Late)
}

// TestHeldOld checks that the attributes of a grant that was recalled before its
// reply was evaluated do not replace newer ones.
func TestHeldOld(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	writeFile(t, s.path("a"), []byte("a"))
	statAndRead(t, m.path("a"))
	n := m.table.findChild(m.table.findNode(1), "a")
	began := m.nextTick()
	m.dropDelegation(n)
	n.mu.Lock()
	now := n.attr
	n.mu.Unlock()
	old := now
	old.Size++
	m.recordGrant(n, began, &old, true)
	m.dropDelegation(n) // the recall of that grant
	n.mu.Lock()
	defer n.mu.Unlock()
	assert.Equal(t, now, n.attr)
	assert.Zero(t, n.grant)
	assert.Zero(t, n.freshTimeLocked(), "what is known was recalled")
}

// TestHeldBoth has two mounts change and look up names in one directory at the
// same time, and checks that no deadlock occurs.
func TestHeldBoth(t *testing.T) {
	s := newGrantingServer(t, true)
	mounts := []*testMount{s.mount(nil), s.mount(nil)}
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	var working sync.WaitGroup
	for i, m := range mounts {
		for j := range 3 {
			working.Go(func() {
				for k := range 30 {
					name := m.path(fmt.Sprintf("d/%d%d", i, j))
					assert.NoError(t, os.WriteFile(name, []byte{byte(k)}, 0o644))
					_, err := os.ReadDir(m.path("d"))
					assert.NoError(t, err)
					_, _ = os.ReadFile(m.path(fmt.Sprintf("d/%d%d", 1-i, j)))
					assert.NoError(t, os.Rename(name, name+"x"))
					assert.NoError(t, os.Remove(name+"x"))
				}
			})
		}
	}
	working.Wait()
	for _, m := range mounts {
		assert.Empty(t, listNames(t, m.path("d")))
	}
	assert.Zero(t, s.keeper.Stats().Late)
}

// TestHeldReconnect checks that the loss of the connection ends all
// delegations.
func TestHeldReconnect(t *testing.T) {
	s := newLeasingServer(t, 300*time.Millisecond, true) // changes of lost delegations wait this long
	m, other := s.mount(nil), s.mount(nil)
	writeFile(t, s.path("a"), []byte("a"))
	for range 2 {
		m.assertSameAsServer(s, "a")
	}
	require.NotZero(t, m.set.Stats().Held)
	m.dial.last.Load().Abort(errors.New("cut by the test"))
	require.Eventually(t, func() bool { return m.set.Stats().Held == 0 }, 10*time.Second, time.Millisecond)
	writeFile(t, other.path("a"), []byte("b"))
	for range 3 {
		_, got := statAndRead(t, m.path("a"))
		assert.Equal(t, "b", got)
	}
	m.assertSameAsServer(s, "a")
	calls := m.totalCalls()
	m.assertSameAsServer(s, "a")
	assert.Equal(t, calls, m.totalCalls())
}
