package fusefs

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// lately are attributes that show a change.
var lately = nfs3.Attr{Type: nfs3.TypeReg, Mode: 0o644, Nlink: 1, Size: 99}

// holdKnownFile returns file a of the server, for which m holds a delegation and
// which the kernel knows.
func (m *testMount) holdKnownFile(s *testServer) *node {
	m.t.Helper()
	n := m.holdUntakenFile(s)
	mustLstat(m.t, m.path("a"))
	return n
}

// grantAgain records another delegation of n, requested at tick began.
func (m *testMount) grantAgain(n *node, began uint64) {
	n.delegationObject().Open(m.t.Context())
	m.recordGrant(n, began, &lately, true)
}

// TestGrantedLate checks that the attributes of a delegation are ignored if the
// delegation was dropped before, or was granted during a change of ours.
func TestGrantedLate(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	n := m.holdKnownFile(s)
	for _, meanwhile := range []func(*node){m.invalidateAttr, m.dropDelegation} {
		began := m.nextTick()
		meanwhile(n)
		assert.False(t, m.learnAttr(n, began, &lately), "a reply to an earlier call")
		m.grantAgain(n, began)
		assert.EqualValues(t, 1, n.attr.Size)
		assert.Zero(t, n.freshTime())
	}
}

// TestDropUse checks that drop ends the use of a node.
func TestDropUse(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	n := m.holdKnownFile(s)
	assert.NotZero(t, n.delegationObject().Trust())
	m.dropDelegation(n)
	assert.Zero(t, n.delegationObject().Trust())
}

// TestGrantedChanged checks that the kernel learns of a change that a new
// delegation shows.
func TestGrantedChanged(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	writeFile(t, s.path("a"), []byte("a"))
	require.EqualValues(t, 1, mustLstat(t, m.path("a")).Size)
	n := m.table.findChild(m.table.findNode(fuse.FUSE_ROOT_ID), "a")
	require.Zero(t, n.delegationObject().Types())
	writeFile(t, s.path("a"), []byte("changed"))
	o := m.beginRequest(nil, new(fuse.InHeader))
	defer m.endRequest(o)
	require.True(t, m.acquireDelegation(o, n, fileTypes))
	assert.EqualValues(t, 7, mustLstat(t, m.path("a")).Size)
}

// TestGrantedResized checks that an open file shows data that another client
// appended if the reply that shows the new size is that of a delegation.
func TestGrantedResized(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	writeFile(t, s.path("a"), nil)
	f := openAt(t, m.path("a"), os.O_RDWR)
	writeFile(t, s.path("a"), []byte("after"))
	n := m.table.findChild(m.table.findNode(fuse.FUSE_ROOT_ID), "a")
	require.Zero(t, n.delegationObject().Types())
	n.mu.Lock()
	n.lifetime, n.freshUntil = time.Hour, instantOf(time.Now()) // as if the attributes had been fetched again and again
	n.mu.Unlock()
	m.grantsAttr.Store(true)
	m.expireAttr(n)
	got := make([]byte, 10)
	k, _ := f.ReadAt(got, 0)
	assert.Equal(t, "after", string(got[:k]))
	assert.NotZero(t, n.delegationObject().Types())
}

// TestRest checks that rest ends the only counted use of a node that nothing
// uses any more.
func TestRest(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	n := m.holdKnownFile(s)
	m.grantAgain(n, m.nextTick())
	for range 2 {
		m.releaseIdleNodes()
	}
	assert.NotZero(t, n.delegationObject().Trust(), "the kernel serves it")
	n.mu.Lock()
	n.lentUntil, n.using = 0, false
	assert.Zero(t, n.trustTimeLocked(fileTypes), "it is about to be closed")
	n.using = true
	n.mu.Unlock()
	m.releaseIdleNodes()
	assert.Zero(t, n.delegationObject().Trust())
}

// TestAdrift abandons a change that the server may still make, and checks that
// nothing is served under the file's delegation any more.
func TestAdrift(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(func(c *Config) { c.RegMin, c.RegMax = 0, 0 })
	writeFile(t, s.path("a"), []byte("a"))
	for range 2 {
		m.assertSameAsServer(s, "a")
	}
	calls := m.totalCalls()
	mustLstat(t, m.path("a"))
	require.Equal(t, calls, m.totalCalls())
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcSetAttr {
			return errors.New("abandoned by the test")
		}
		return nil
	})
	assert.Error(t, os.Chmod(m.path("a"), 0o600))
	m.setBefore(nil)
	for range 2 {
		require.NoError(t, os.Chmod(s.path("a"), 0o600)) // the server makes the change late
		calls = m.totalCalls()
		m.assertSameAsServer(s, "a")
		assert.Greater(t, m.totalCalls(), calls)
	}
}

// TestAdriftDirect checks that nothing is believed of a delegated file after an
// O_DIRECT write to which the server has not replied.
func TestAdriftDirect(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(func(c *Config) { c.RegMin, c.RegMax = 0, 0 })
	writeFile(t, s.path("a"), []byte("a"))
	f, err := os.OpenFile(m.path("a"), os.O_WRONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer f.Close()
	for range 3 {
		m.assertSameAsServer(s, "a")
	}
	calls := m.totalCalls()
	mustLstat(t, m.path("a"))
	require.Equal(t, calls, m.totalCalls())
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcWrite {
			return errors.New("abandoned by the test")
		}
		return nil
	})
	_, err = f.Write(make([]byte, 4096))
	assert.Error(t, err)
	m.setBefore(nil)
	for range 2 {
		require.NoError(t, os.Chmod(s.path("a"), 0o600))
		calls = m.totalCalls()
		m.assertSameAsServer(s, "a")
		assert.Greater(t, m.totalCalls(), calls)
	}
}

// TestHeldResized opens a file whose name the kernel knows under the directory's
// delegation, after another client has made the file longer twice. The kernel
// gets the size from GETATTR alone.
func TestHeldResized(t *testing.T) {
	s := newGrantingServer(t, true)
	m, other := s.mount(func(c *Config) { c.RegMin, c.RegMax, c.DirMin, c.DirMax = 0, 0, 0, 0 }), s.mount(nil)
	writeFile(t, s.path("a"), nil)
	assertContent(t, m.path("a"), []byte{})
	require.NoError(t, os.Truncate(other.path("a"), 112_290))
	assert.EqualValues(t, 112_290, mustLstat(t, m.path("a")).Size)
	require.NoError(t, os.Truncate(other.path("a"), 112_436))
	f := openAt(t, m.path("a"), os.O_RDONLY)
	n, err := f.ReadAt(make([]byte, 197), 99)
	require.NoError(t, err)
	assert.Equal(t, 197, n)
}
