package fusefs

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// lately are attributes that show a change.
var lately = nfs3.Attr{Type: nfs3.TypeReg, Mode: 0o644, Nlink: 1, Size: 99}

// heldSeen is heldUnseen for a file that the kernel knows.
func (m *mounted) heldSeen(s *server) *node {
	m.t.Helper()
	n := m.heldUnseen(s)
	lstat(m.t, m.file("a"))
	return n
}

// grantedAgain records another delegation of n, requested at tick began.
func (m *mounted) grantedAgain(n *node, began uint64) {
	n.object().Open(m.t.Context())
	m.granted(n, began, &lately, true)
}

// TestGrantedLate checks that the attributes of a delegation are ignored if the
// delegation was dropped before, or was granted during a change of ours.
func TestGrantedLate(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	n := m.heldSeen(s)
	for _, meanwhile := range []func(*node){m.suspect, m.drop} {
		began := m.tick()
		meanwhile(n)
		assert.False(t, m.learn(n, began, &lately), "a reply to an earlier call")
		m.grantedAgain(n, began)
		assert.EqualValues(t, 1, n.attr.Size)
		assert.Zero(t, n.fresh())
	}
}

// TestDropUse checks that drop ends the use of a node.
func TestDropUse(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	n := m.heldSeen(s)
	assert.NotZero(t, n.object().Trust())
	m.drop(n)
	assert.Zero(t, n.object().Trust())
}

// TestGrantedChanged checks that the kernel learns of a change that a new
// delegation shows.
func TestGrantedChanged(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	n := m.heldSeen(s)
	m.grantedAgain(n, m.tick())
	assert.EqualValues(t, lately.Size, lstat(t, m.file("a")).Size)
}

// TestRest checks that rest ends the only counted use of a node that nobody
// uses any more.
func TestRest(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	n := m.heldSeen(s)
	m.grantedAgain(n, m.tick())
	for range 2 {
		m.rest()
	}
	assert.NotZero(t, n.object().Trust(), "the kernel serves it")
	n.mu.Lock()
	n.lent, n.using = 0, false
	assert.Zero(t, n.trustLocked(ofFile), "it is about to be closed")
	n.using = true
	n.mu.Unlock()
	m.rest()
	assert.Zero(t, n.object().Trust())
}

// TestAdrift abandons a change that the server may still make, and checks that
// nothing is served under the file's delegation any more.
func TestAdrift(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(func(c *Config) { c.RegMin, c.RegMax = 0, 0 })
	put(t, s.file("a"), []byte("a"))
	for range 2 {
		m.same(s, "a")
	}
	calls := m.total()
	lstat(t, m.file("a"))
	require.Equal(t, calls, m.total())
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcSetAttr {
			return errors.New("abandoned by the test")
		}
		return nil
	})
	assert.Error(t, os.Chmod(m.file("a"), 0o600))
	m.setBefore(nil)
	for range 2 {
		require.NoError(t, os.Chmod(s.file("a"), 0o600)) // the server makes the change late
		calls = m.total()
		m.same(s, "a")
		assert.Greater(t, m.total(), calls)
	}
}
