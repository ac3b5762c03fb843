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

// newSubmounts returns a Mount with a root only, and with a mount on the name "on" of
// the root in another mount namespace. scan is called at each scan.
func newSubmounts(t *testing.T, scan func()) (*Mount, *node) {
	m := new(Mount)
	m.table = newTable(m, nfs3.FH("root"))
	m.submounts.scan = func() []string {
		scan()
		return []string{"/on"}
	}
	t.Cleanup(m.submounts.own.close)
	return m, m.table.findNode(1)
}

// TestLookPause checks that failing LOOKUPs do not scan all namespaces each, but
// once a second.
func TestLookPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans := 0
		m, root := newSubmounts(t, func() { scans++ })
		for range 10_000 {
			require.True(t, m.isCovered(root, "on"))
			require.False(t, m.isCovered(root, "off"))
			require.False(t, m.isCoveredHere(root, "on"))
		}
		before := scans
		assert.LessOrEqual(t, before, 10, "one, unless somebody else mounts in our namespace")
		time.Sleep(lookPause)
		m.isCovered(root, "off")
		assert.Greater(t, scans, before)
	})
}

// TestLookShared checks that callers that ask at the same time share a scan.
func TestLookShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans, end := 0, make(chan struct{})
		m, _ := newSubmounts(t, func() {
			scans++
			<-end
		})
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { assert.Equal(t, []string{"/on"}, m.submounts.pointsAnywhere(ownSubmounts{version: 1})) })
		}
		close(end)
		callers.Wait()
		assert.Equal(t, 1, scans)
	})
}

// TestLookPropagated checks that other namespaces' mounts are scanned again after a
// change of our own, if there were any.
func TestLookPropagated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scans := 0
		l := submounts{scan: func() []string {
			scans++
			return []string{"/on"}[min(1, scans/2):]
		}}
		assert.Equal(t, []string{"/on"}, l.pointsAnywhere(ownSubmounts{version: 1}))
		assert.Equal(t, []string{"/on"}, l.pointsAnywhere(ownSubmounts{version: 1}))
		for v := 2; v < 9; v++ {
			assert.Empty(t, l.pointsAnywhere(ownSubmounts{version: v}))
		}
		assert.Equal(t, 2, scans)
	})
}

// TestLookOwn checks that a mount in our own namespace counts at once, without
// any scan, and that the watch of our table ends with the mount.
func TestLookOwn(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.path("private"), 0o700))
	writeFile(t, s.path("private/f"), nil)
	writeFile(t, s.path("other"), nil)
	m.submounts.all.mu.Lock()
	m.submounts.scan = func() []string { return nil }
	m.submounts.all.mu.Unlock()
	assert.Equal(t, []string{"type: - 0644 1"}, m.tryAs(0, "private/f", "type"))
	for range 3 {
		assert.Equal(t, []string{"type: EACCES"}, m.tryAs(oneUser, "private/f", "type"))
		m.mountOver(s, "other", "private/f")
		assert.Equal(t, []string{"type: ENOMEM"}, m.tryAs(oneUser, "private/f", "type"))
		assert.Equal(t, []string{"type: - 0644 1"}, m.tryAs(0, "private/f", "type"))
		require.NoError(t, unix.Unmount(m.path("private/f"), 0))
	}
	m.submounts.own.mu.Lock()
	watch := m.submounts.own.file
	m.submounts.own.mu.Unlock()
	require.NotNil(t, watch)
	require.NoError(t, m.Unmount())
	assert.ErrorIs(t, watch.Close(), os.ErrClosed)
}
