package fusefs

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newGranting returns a server that grants delegations, of an export that is
// exclusive or not.
func newGranting(t testing.TB, exclusive bool) *server {
	return newLeasing(t, 0, exclusive)
}

// newLeasing is newGranting with a lease; 0 means the default.
func newLeasing(t testing.TB, lease time.Duration, exclusive bool) *server {
	t.Helper()
	keep, err := delegserver.New(delegserver.Config{Lease: lease})
	require.NoError(t, err)
	t.Cleanup(keep.Close)
	return serve(t, nil, keep, exports.Options{Exclusive: exclusive})
}

// reads opens a file, and returns its attributes and content.
func reads(t testing.TB, path string) (unix.Stat_t, string) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	require.NoError(t, err, path)
	defer unix.Close(fd)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	p := make([]byte, 8192)
	n, err := unix.Read(fd, p)
	require.NoError(t, err)
	return st, string(p[:n])
}

// settled waits until no file is open. The kernel does not wait for the end of
// a close, and removing an open file hides it.
func (m *mounted) settled() {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		return !slices.ContainsFunc(m.table.all(), m.table.isOpen)
	}, 10*time.Second, time.Millisecond)
}

// TestHeldAgain reads a tree twice, and checks that the second time needs no
// calls.
func TestHeldAgain(t *testing.T) {
	s := newGranting(t, true)
	var names []string
	for d := range 3 {
		require.NoError(t, os.Mkdir(s.file(fmt.Sprint("d", d)), 0o755))
		for f := range 5 {
			names = append(names, fmt.Sprintf("d%d/f%d", d, f))
			put(t, s.file(names[len(names)-1]), []byte(names[len(names)-1]))
		}
	}
	m := s.mount(nil)
	pass := func() {
		for _, name := range names {
			st, content := reads(t, m.file(name))
			assert.Equal(t, name, content)
			assert.EqualValues(t, len(name), st.Size)
			assert.NoFileExists(t, m.file(name+".h"))
		}
	}
	pass()
	calls := m.total()
	pass()
	assert.Equal(t, calls, m.total())
	assert.EqualValues(t, len(names)+4, m.set.Stats().Held)
	assert.Zero(t, m.set.Stats().Refused)

	// After a long time without use, a delegation takes an atomic operation,
	// and no call.
	for range 2 {
		m.rest()
	}
	n := m.table.child(m.table.child(m.table.node(1), "d0"), "f0")
	n.mu.Lock()
	n.lent = 0
	n.mu.Unlock()
	m.rest()
	assert.False(t, n.object().Trust() > 0)
	pass()
	assert.Equal(t, calls, m.total())
	assert.True(t, n.object().Trust() > 0)
}
