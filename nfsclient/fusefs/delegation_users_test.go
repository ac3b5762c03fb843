package fusefs

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestHeldUsers checks that one user's rights are not applied to another.
func TestHeldUsers(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	require.NoError(t, os.Mkdir(s.path("d"), 0o700))
	require.NoError(t, os.Chown(s.path("d"), 1001, 2001))
	for _, name := range []string{"a", "d/b"} {
		writeFile(t, s.path(name), []byte("secret"))
		require.NoError(t, os.Chown(s.path(name), 1001, 2001))
		require.NoError(t, os.Chmod(s.path(name), 0o600))
	}
	for range 2 {
		for _, name := range []string{"a", "d/b"} {
			out, err := m.runShell(1001, 2001, nil, "cat "+name)
			require.NoError(t, err, out)
			_, err = m.runShell(1002, 2001, nil, "cat "+name)
			assert.Error(t, err, name)
		}
	}
	calls := m.totalCalls()
	out, err := m.runShell(1001, 2001, nil, "cat a")
	require.NoError(t, err)
	assert.Equal(t, "secret", out)
	_, err = m.runShell(1002, 2001, nil, "cat a")
	assert.Error(t, err)
	assert.Equal(t, calls, m.totalCalls(), "refusals are remembered too")
	_, err = m.runShell(1003, 2001, nil, "cat a")
	assert.Error(t, err)
	assert.Greater(t, m.totalCalls(), calls, "another user's rights are requested")
	require.NoError(t, os.Chmod(m.path("a"), 0o644))
	out, err = m.runShell(1002, 2001, nil, "cat a")
	require.NoError(t, err, out)
}

// TestHeldOwn checks changes by the mount that holds the delegations.
func TestHeldOwn(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	writeFile(t, s.path("a"), []byte("a"))
	for i := range 3 {
		statAndRead(t, m.path("a"))
		writeFile(t, m.path("a"), fmt.Append(nil, i))
		m.assertSameAsServer(s, "a")
		name := fmt.Sprint("n", i)
		assert.NoFileExists(t, m.path(name))
		writeFile(t, m.path(name), []byte("x"))
		m.assertSameAsServer(s, name)
		m.awaitNoOpenFiles()
		require.NoError(t, os.Link(m.path(name), m.path(name+".l")))
		require.NoError(t, os.Rename(m.path(name), m.path("moved")))
		for _, n := range []string{"", name, name + ".l", "moved"} {
			m.assertSameAsServer(s, n)
		}
		m.awaitNoOpenFiles()
		require.NoError(t, os.Remove(m.path("moved")))
		m.assertSameAsServer(s, "moved")
		m.assertSameAsServer(s, name+".l")
	}
	calls := m.callCount(nfs3.ProcLookup)
	for range 3 {
		m.assertSameAsServer(s, "moved")
		m.assertSameAsServer(s, "a")
	}
	assert.Equal(t, calls, m.callCount(nfs3.ProcLookup), "names made and removed here are known")
}

// TestHeldShared checks that a mount sees changes of delegated files on a
// shared export, made on the server's host, by another mount, or by itself.
func TestHeldShared(t *testing.T) {
	s := newGrantingServer(t, false)
	m, other := s.mount(nil), s.mount(nil)
	writeFile(t, s.path("a"), []byte("a"))
	for range 2 {
		m.assertSameAsServer(s, "a")
	}
	require.NotZero(t, m.set.Stats().Held)
	count := m.callCount(nfs3.ProcRead)
	m.assertSameAsServer(s, "a")
	assert.Equal(t, count, m.callCount(nfs3.ProcRead))
	for _, by := range []func(string) string{s.path, other.path, m.path} {
		st := mustLstat(t, s.path("a"))
		writeFile(t, by("a"), fmt.Append(nil, st.Mtim.Nsec%10))
		mtime := time.Unix(st.Mtim.Unix())
		require.NoError(t, os.Chtimes(s.path("a"), mtime, mtime))
		_, want := statAndRead(t, s.path("a"))
		_, got := statAndRead(t, m.path("a"))
		assert.Equal(t, want, got)
	}
}

// TestHeldGroups checks that the rights of a process to a delegated file are not
// those of a process of the same user with other groups.
func TestHeldGroups(t *testing.T) {
	s := newGrantingServer(t, true)
	m := s.mount(nil)
	writeFile(t, s.path("a"), []byte("secret"))
	require.NoError(t, os.Chown(s.path("a"), 1009, 3000))
	require.NoError(t, os.Chmod(s.path("a"), 0o640))
	for range 3 {
		out, err := m.runShell(1001, 2001, []uint32{3000}, "cat a")
		require.NoError(t, err, out)
	}
	_, err := m.runShell(1001, 2001, nil, "cat a")
	assert.Error(t, err)
}
