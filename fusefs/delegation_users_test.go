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
	s := newGranting(t, true)
	m := s.mount(nil)
	require.NoError(t, os.Mkdir(s.file("d"), 0o700))
	require.NoError(t, os.Chown(s.file("d"), 1001, 2001))
	for _, name := range []string{"a", "d/b"} {
		put(t, s.file(name), []byte("secret"))
		require.NoError(t, os.Chown(s.file(name), 1001, 2001))
		require.NoError(t, os.Chmod(s.file(name), 0o600))
	}
	for range 2 {
		for _, name := range []string{"a", "d/b"} {
			out, err := m.sh(1001, 2001, nil, "cat "+name)
			require.NoError(t, err, out)
			_, err = m.sh(1002, 2001, nil, "cat "+name)
			assert.Error(t, err, name)
		}
	}
	calls := m.total()
	out, err := m.sh(1001, 2001, nil, "cat a")
	require.NoError(t, err)
	assert.Equal(t, "secret", out)
	_, err = m.sh(1002, 2001, nil, "cat a")
	assert.Error(t, err)
	assert.Equal(t, calls, m.total(), "refusals are remembered too")
	_, err = m.sh(1003, 2001, nil, "cat a")
	assert.Error(t, err)
	assert.Greater(t, m.total(), calls, "another user's rights are requested")
	require.NoError(t, os.Chmod(m.file("a"), 0o644))
	out, err = m.sh(1002, 2001, nil, "cat a")
	require.NoError(t, err, out)
}

// TestHeldOwn checks changes by the mount that holds the delegations.
func TestHeldOwn(t *testing.T) {
	s := newGranting(t, true)
	m := s.mount(nil)
	put(t, s.file("a"), []byte("a"))
	for i := range 3 {
		reads(t, m.file("a"))
		put(t, m.file("a"), fmt.Append(nil, i))
		m.same(s, "a")
		name := fmt.Sprint("n", i)
		assert.NoFileExists(t, m.file(name))
		put(t, m.file(name), []byte("x"))
		m.same(s, name)
		m.settled()
		require.NoError(t, os.Link(m.file(name), m.file(name+".l")))
		require.NoError(t, os.Rename(m.file(name), m.file("moved")))
		for _, n := range []string{"", name, name + ".l", "moved"} {
			m.same(s, n)
		}
		m.settled()
		require.NoError(t, os.Remove(m.file("moved")))
		m.same(s, "moved")
		m.same(s, name+".l")
	}
	calls := m.calls(nfs3.ProcLookup)
	for range 3 {
		m.same(s, "moved")
		m.same(s, "a")
	}
	assert.Equal(t, calls, m.calls(nfs3.ProcLookup), "names made and removed here are known")
}

// TestHeldShared checks that a mount sees changes of delegated files on a
// shared export, made on the server's host, by another mount, or by itself.
func TestHeldShared(t *testing.T) {
	s := newGranting(t, false)
	m, other := s.mount(nil), s.mount(nil)
	put(t, s.file("a"), []byte("a"))
	for range 2 {
		m.same(s, "a")
	}
	require.NotZero(t, m.set.Stats().Held)
	count := m.calls(nfs3.ProcRead)
	m.same(s, "a")
	assert.Equal(t, count, m.calls(nfs3.ProcRead))
	for _, by := range []func(string) string{s.file, other.file, m.file} {
		st := lstat(t, s.file("a"))
		put(t, by("a"), fmt.Append(nil, st.Mtim.Nsec%10))
		mtime := time.Unix(st.Mtim.Unix())
		require.NoError(t, os.Chtimes(s.file("a"), mtime, mtime))
		_, want := reads(t, s.file("a"))
		_, got := reads(t, m.file("a"))
		assert.Equal(t, want, got)
	}
}
