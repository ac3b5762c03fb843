package fusefs

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// holdUntakenFile returns file a of the server, for which m holds a delegation. m
// has told the kernel of the file in a reply that the kernel has not taken yet.
func (m *testMount) holdUntakenFile(s *testServer) *node {
	m.t.Helper()
	writeFile(m.t, s.path("a"), []byte("a"))
	root := m.table.findNode(fuse.FUSE_ROOT_ID)
	res, err := m.cfg.Client.Lookup(m.t.Context(), root.fh, "a")
	require.NoError(m.t, err)
	n, _ := m.table.referNode(res.Object, root, "a", sighting{})
	o := m.beginRequest(nil, new(fuse.InHeader))
	defer m.endRequest(o)
	require.True(m.t, m.acquireDelegation(o, n, fileTypes))
	assert.NotZero(m.t, m.fillAttr(n, new(fuse.Attr)))
	return n
}

// TestDropUnseen recalls a file that the kernel is about to learn of, and
// checks that the kernel does not believe the old state.
func TestDropUnseen(t *testing.T) {
	s := newGrantingServer(t, true)
	m, other := s.mount(nil), s.mount(nil)
	n := m.holdUntakenFile(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		writeFile(t, other.path("a"), []byte("after"))
	}()
	require.Eventually(t, func() bool { return n.delegationObject().Types() == 0 }, 10*time.Second, time.Millisecond)
	time.Sleep(10 * unknownPoll)
	select {
	case <-done:
		assert.Fail(t, "the change does not wait for the kernel")
	default:
	}
	mustLstat(t, m.path("a"))
	<-done
	assertContent(t, m.path("a"), []byte("after"))
}

// TestDropForgotten checks the drop of a file that the kernel has forgotten.
func TestDropForgotten(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	n := m.holdUntakenFile(s)
	n.mu.Lock()
	n.lentUntil = instantOf(time.Now().Add(time.Hour))
	n.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.dropDelegation(n)
	}()
	m.table.dropReferences(n.id, 1)
	<-done
}

// TestHeldNoRoom checks close-to-open consistency with a server that grants
// only one delegation.
func TestHeldNoRoom(t *testing.T) {
	keep, err := delegserver.New(delegserver.Config{Grants: 1})
	require.NoError(t, err)
	t.Cleanup(keep.Close)
	s := newServerWith(t, nil, keep, exports.Options{Exclusive: true})
	m, other := s.mount(nil), s.mount(nil)
	for i, size := range []int{5000, 5000, 100, 0, 1} {
		for j, by := range []*testMount{other, m} {
			data := randomBytes(size + i + j)[i+j:]
			writeFile(t, by.path("a"), data)
			assertContent(t, m.path("a"), data)
			assertContent(t, other.path("a"), data)
			m.assertSameAsServer(s, "a")
		}
	}
	assert.NotZero(t, m.set.Stats().Refused+other.set.Stats().Refused)
}
