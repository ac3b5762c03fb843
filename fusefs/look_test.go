package fusefs

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// newLook returns a Mount with a root only, and with a mount on the name "on" of
// the root in another mount namespace. scan is called at each scan.
func newLook(t *testing.T, scan func()) (*Mount, *node) {
	m := new(Mount)
	m.table = newTable(m, nfs3.FH("root"))
	m.look.scan = func() []string {
		scan()
		return []string{"/on"}
	}
	t.Cleanup(m.look.own.close)
	return m, m.table.node(1)
}

// TestLookPause checks that failing LOOKUPs do not scan all namespaces each, but
// once a second.
func TestLookPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans := 0
		m, root := newLook(t, func() { scans++ })
		for range 10_000 {
			require.True(t, m.coveredName(root, "on"))
			require.False(t, m.coveredName(root, "off"))
			require.False(t, m.coveredHere(root, "on"))
		}
		before := scans
		assert.LessOrEqual(t, before, 10, "one, unless somebody else mounts in our namespace")
		time.Sleep(lookPause)
		m.coveredName(root, "off")
		assert.Greater(t, scans, before)
	})
}

// TestLookShared checks that callers that ask at the same time share a scan.
func TestLookShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans, end := 0, make(chan struct{})
		m, _ := newLook(t, func() {
			scans++
			<-end
		})
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { assert.Equal(t, []string{"/on"}, m.look.anywhere(ownTable{version: 1})) })
		}
		close(end)
		callers.Wait()
		assert.Equal(t, 1, scans)
	})
}

// TestLookPropagated checks that mounts of other namespaces are looked at again
// after a change of our own, if there were any.
func TestLookPropagated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans := 0
		l := look{scan: func() []string {
			scans++
			return []string{"/on"}[min(1, scans/2):]
		}}
		assert.Equal(t, []string{"/on"}, l.anywhere(ownTable{version: 1}))
		assert.Equal(t, []string{"/on"}, l.anywhere(ownTable{version: 1}))
		for v := 2; v < 9; v++ {
			assert.Empty(t, l.anywhere(ownTable{version: v}))
		}
		assert.Equal(t, 2, scans)
	})
}

// TestLookOwn checks that a mount in our own namespace counts at once, without
// any scan, and that the watch of our table ends with the mount.
func TestLookOwn(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.file("private"), 0o700))
	put(t, s.file("private/f"), nil)
	put(t, s.file("other"), nil)
	m.look.all.mu.Lock()
	m.look.scan = func() []string { return nil }
	m.look.all.mu.Unlock()
	assert.Equal(t, []string{"type: - 0644 1"}, m.try(0, "private/f", "type"))
	for range 3 {
		assert.Equal(t, []string{"type: EACCES"}, m.try(oneUser, "private/f", "type"))
		m.cover(s, "other", "private/f")
		assert.Equal(t, []string{"type: ENOMEM"}, m.try(oneUser, "private/f", "type"))
		assert.Equal(t, []string{"type: - 0644 1"}, m.try(0, "private/f", "type"))
		require.NoError(t, unix.Unmount(m.file("private/f"), 0))
	}
	m.look.own.mu.Lock()
	watch := m.look.own.file
	m.look.own.mu.Unlock()
	require.NotNil(t, watch)
	require.NoError(t, m.Unmount())
	assert.ErrorIs(t, watch.Close(), os.ErrClosed)
}
