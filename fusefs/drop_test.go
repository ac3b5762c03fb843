package fusefs

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heldUnseen returns file a of the server, for which m holds a delegation. m
// has told the kernel of the file in a reply that the kernel has not taken yet.
func (m *mounted) heldUnseen(s *server) *node {
	m.t.Helper()
	put(m.t, s.file("a"), []byte("a"))
	root := m.table.node(fuse.FUSE_ROOT_ID)
	res, err := m.cfg.Client.Lookup(m.t.Context(), root.fh, "a")
	require.NoError(m.t, err)
	n, _ := m.table.refer(res.Object, root, "a", sight{})
	o := m.begin(nil, new(fuse.InHeader))
	defer m.end(o)
	require.True(m.t, m.acquire(o, n, ofFile))
	assert.NotZero(m.t, m.tell(n, new(fuse.Attr)))
	return n
}

// TestDropUnseen recalls a file that the kernel is about to learn of, and
// checks that the kernel does not believe the old state.
func TestDropUnseen(t *testing.T) {
	s := newGranting(t, true)
	m, other := s.mount(nil), s.mount(nil)
	n := m.heldUnseen(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		put(t, other.file("a"), []byte("after"))
	}()
	require.Eventually(t, func() bool { return n.object().Types() == 0 }, 10*time.Second, time.Millisecond)
	time.Sleep(10 * unknownPoll)
	select {
	case <-done:
		assert.Fail(t, "the change does not wait for the kernel")
	default:
	}
	lstat(t, m.file("a"))
	<-done
	holds(t, m.file("a"), []byte("after"))
}

// TestDropForgotten checks the drop of a file that the kernel has forgotten.
func TestDropForgotten(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	n := m.heldUnseen(s)
	n.mu.Lock()
	n.lent = at(time.Now().Add(time.Hour))
	n.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.drop(n)
	}()
	m.table.forget(n.id, 1)
	<-done
}

// TestHeldNoRoom checks close-to-open consistency with a server that grants
// only one delegation.
func TestHeldNoRoom(t *testing.T) {
	keep, err := delegserver.New(delegserver.Config{Grants: 1})
	require.NoError(t, err)
	t.Cleanup(keep.Close)
	s := serve(t, nil, keep, exports.Options{Exclusive: true})
	m, other := s.mount(nil), s.mount(nil)
	for i, size := range []int{5000, 5000, 100, 0, 1} {
		for j, by := range []*mounted{other, m} {
			data := sample(size + i + j)[i+j:]
			put(t, by.file("a"), data)
			holds(t, m.file("a"), data)
			holds(t, other.file("a"), data)
			m.same(s, "a")
		}
	}
	assert.NotZero(t, m.set.Stats().Refused+other.set.Stats().Refused)
}
