package fusefs

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newGrantingServer returns a server that grants delegations, with an exclusive or
// a shared export.
func newGrantingServer(t testing.TB, exclusive bool) *testServer {
	return newLeasingServer(t, 0, exclusive)
}

// newLeasingServer returns a server that grants delegations with a lease time; 0
// means the default.
func newLeasingServer(t testing.TB, lease time.Duration, exclusive bool) *testServer {
	t.Helper()
	keep, err := delegserver.New(delegserver.Config{Lease: lease})
	require.NoError(t, err)
	t.Cleanup(keep.Close)
	return newServerWith(t, nil, keep, exports.Options{Exclusive: exclusive})
}

// statAndRead opens a file, and returns its attributes and content.
func statAndRead(t testing.TB, path string) (unix.Stat_t, string) {
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

// awaitNoOpenFiles waits until no file is open. The kernel does not wait for the end of
// a close, and removing an open file hides it.
func (m *testMount) awaitNoOpenFiles() {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		return !slices.ContainsFunc(m.table.listNodes(), m.table.isOpen)
	}, 10*time.Second, time.Millisecond)
}

// TestHeldAgain reads a tree twice, and checks that the second time needs no
// calls.
func TestHeldAgain(t *testing.T) {
	s := newGrantingServer(t, true)
	var names []string
	for d := range 3 {
		require.NoError(t, os.Mkdir(s.path(fmt.Sprint("d", d)), 0o755))
		for f := range 5 {
			names = append(names, fmt.Sprintf("d%d/f%d", d, f))
			writeFile(t, s.path(names[len(names)-1]), []byte(names[len(names)-1]))
		}
	}
	m := s.mount(nil)
	pass := func() {
		for _, name := range names {
			st, content := statAndRead(t, m.path(name))
			assert.Equal(t, name, content)
			assert.EqualValues(t, len(name), st.Size)
			assert.NoFileExists(t, m.path(name+".h"))
		}
	}
	pass()
	calls := m.totalCalls()
	pass()
	assert.Equal(t, calls, m.totalCalls())
	assert.EqualValues(t, len(names)+4, m.set.Stats().Held)
	assert.Zero(t, m.set.Stats().Refused)

	// After a long time without use, a delegation takes an RDMA atomic operation,
	// and no call.
	for range 2 {
		m.releaseIdleNodes()
	}
	n := m.table.findChild(m.table.findChild(m.table.findNode(1), "d0"), "f0")
	n.mu.Lock()
	n.lentUntil = 0
	n.mu.Unlock()
	m.releaseIdleNodes()
	assert.False(t, n.delegationObject().Trust() > 0)
	pass()
	assert.Equal(t, calls, m.totalCalls())
	assert.True(t, n.delegationObject().Trust() > 0)
}
