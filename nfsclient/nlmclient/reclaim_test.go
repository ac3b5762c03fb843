package nlmclient

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestReclaim restarts the server, and checks that the client claims its locks
// again in the grace period, a lock as it is after an UNLOCK in between.
func TestReclaim(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
	c.mustLock(t, newRequest(1, rangeAt(10, 19), false, false))
	c.mustLock(t, newRequest(2, rangeAt(30, locks.ToEnd), true, false))
	require.NoError(t, c.Unlock(t.Context(), []byte("f"), Owner{ID: 1}, rangeAt(4, 4)))
	want := s.Held("f")
	s.Restart(true)
	assert.Empty(t, s.Held("f"))
	requireEventually(t, "claimed", func() bool { return assert.ObjectsAreEqual(want, s.Held("f")) })
	s.EndGrace()
	c.mustLock(t, newRequest(3, rangeAt(20, 29), true, false))
	require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: 1}))
	assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(20, locks.ToEnd), Kind: locks.Exclusive}}, s.Held("f"))
}

// TestReconnect closes the connection without a restart: the locks stay,
// although the server rejects reclaims.
func TestReconnect(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	c.OnLost(func([]byte, Owner) { t.Error("lost") })
	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
	want := s.Held("f")
	s.Reconnect()
	requireEventually(t, "claimed", func() bool { return s.Count(nlm4.ProcLock) == 3 })
	assert.Equal(t, want, s.Held("f"))
	assert.ErrorIs(t, c.Lock(t.Context(), newRequest(2, rangeAt(0, 0), true, false)), ErrDenied)
}

// TestLost checks that a lock that another client got after a restart is
// reported, and is gone here, and that other locks stay.
func TestLost(t *testing.T) {
	s := nlm4test.New(t)
	var mu sync.Mutex
	var lost []Owner
	c := newClient(t, s, nil)
	c.OnLost(func(handle []byte, o Owner) {
		assert.Equal(t, "f", string(handle))
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, o)
	})
	c.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
	c.mustLock(t, newRequest(2, rangeAt(20, 29), true, false))
	hold := make(chan bool)
	s.SetBefore(func(*oncrpc.Exchange) (error, bool) { <-hold; return nil, false })
	s.Restart(false)
	free := s.Take("f", rangeAt(5, 6), true)
	s.SetBefore(nil)
	close(hold)
	requireEventually(t, "told", func() bool { mu.Lock(); defer mu.Unlock(); return len(lost) == 1 })
	assert.Equal(t, []Owner{{ID: 1}}, lost)
	requireEventually(t, "claimed", func() bool { return len(s.Held("f")) == 2 })
	free()
	c.mustLock(t, newRequest(3, rangeAt(0, 9), true, false))
}

// TestWaitOverRestart restarts the server while a request waits there.
func TestWaitOverRestart(t *testing.T) {
	s := nlm4test.New(t)
	c := newClient(t, s, nil)
	s.Take("f", rangeAt(0, 9), true)
	waits := c.lockLater(t.Context(), newRequest(1, rangeAt(0, 9), true, true))
	requireEventually(t, "waits", func() bool { return s.Count(nlm4.ProcLock) > 1 })
	s.Restart(true)
	calls := s.Count(nlm4.ProcLock)
	requireEventually(t, "asks in the grace period", func() bool { return s.Count(nlm4.ProcLock) > calls })
	s.EndGrace()
	require.NoError(t, <-waits)
}

// TestLeftovers stops a Client without Close, and checks that the next Client
// with the same file releases the first one's locks, and no others, and that
// the state number increases (RNSM-STATE-1, RNSM-STATE-2).
func TestLeftovers(t *testing.T) {
	s := nlm4test.New(t)
	file := filepath.Join(t.TempDir(), "new", "locks")
	with := func(cfg *Config) { cfg.File = file }
	first := newClient(t, s, with)
	first.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
	first.mustLock(t, newRequest(2, rangeAt(10, 19), true, false))
	g := newRequest(1, rangeAt(0, 0), true, false)
	g.Handle = []byte("g")
	first.mustLock(t, g)
	require.NoError(t, first.Release(t.Context(), []byte("f"), Owner{ID: 2}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)

	// A second Client leaves the file alone.
	second := newClient(t, s, with)
	second.mustLock(t, newRequest(9, rangeAt(50, 59), true, false))
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(after))

	killed := filepath.Join(t.TempDir(), "locks") // as if the first process were gone
	require.NoError(t, os.WriteFile(killed, append(text, "lock 12 0"...), 0o600))
	third := newClient(t, s, func(cfg *Config) { cfg.File = killed })
	requireEventually(t, "unlocked", func() bool { return len(s.Held("g")) == 0 && len(s.Held("f")) == 1 })
	assert.Equal(t, []nlm4test.Piece{{Range: rangeAt(50, 59), Kind: locks.Exclusive}}, s.Held("f"))
	third.mustLock(t, newRequest(3, rangeAt(0, 0), true, false))
	assert.EqualValues(t, 1, s.Log()[0].State)
	assert.EqualValues(t, 3, s.Log()[len(s.Log())-1].State)
	third.Close()
	text, err = os.ReadFile(killed)
	require.NoError(t, err)
	assert.Equal(t, "state 3\n", string(text))
}

// TestLeftoversShrink checks that the list does not grow with the owners that
// have come and gone.
func TestLeftoversShrink(t *testing.T) {
	s := nlm4test.New(t)
	file := filepath.Join(t.TempDir(), "locks")
	c := newClient(t, s, func(cfg *Config) { cfg.File = file })
	c.mustLock(t, newRequest(1, rangeAt(5, 5), true, false))
	for i := range uint64(3 * maxStaleLines) {
		c.mustLock(t, newRequest(i+2, rangeAt(0, 0), true, false))
		require.NoError(t, c.Release(t.Context(), []byte("f"), Owner{ID: i + 2}))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Less(t, strings.Count(string(text), "\n"), maxStaleLines+3)
	var old []ownerRecord
	for line := range strings.Lines(string(text)) {
		if r, ok := parseRecord(strings.TrimSpace(line)); ok && r.svid == s.Log()[0].Lock.SVID {
			old = append(old, r)
		}
	}
	require.Len(t, old, 1)
	assert.Equal(t, []string{"f", string(s.Log()[0].Lock.Owner), "h1"}, []string{string(old[0].handle), old[0].oh, old[0].name})
}

// TestLeftoversUnsure closes a Client while the server does not reply to an
// abandoned LOCK, which may have taken effect: the next Client releases the
// lock, even after a grace period (RNLM-GRACE-5).
func TestLeftoversUnsure(t *testing.T) {
	s := nlm4test.New(t)
	file := filepath.Join(t.TempDir(), "locks")
	with := func(cfg *Config) { cfg.File, cfg.times.closeLimit = file, 100*time.Millisecond }
	c := newClient(t, s, with)
	s.SetBefore(func(*oncrpc.Exchange) (error, bool) { return nlm4test.ErrLost, true })
	ctx, end := context.WithCancel(t.Context())
	waits := c.lockLater(ctx, newRequest(1, rangeAt(0, 9), true, false))
	requireEventually(t, "locked", func() bool { return len(s.Held("f")) == 1 })
	s.SetBefore(func(*oncrpc.Exchange) (error, bool) { return nlm4test.ErrLost, false })
	end()
	require.ErrorIs(t, <-waits, context.Canceled)
	c.Close()
	s.SetBefore(nil)
	require.Len(t, s.Held("f"), 1)

	s.SetGrace()
	next := newClient(t, s, with)
	requireEventually(t, "repeated", func() bool { return s.Count(nlm4.ProcUnlock) > 2 })
	s.EndGrace()
	requireEventually(t, "unlocked", func() bool { return len(s.Held("f")) == 0 })
	next.Close()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "state 3\n", string(text))
}

// TestLeftoversForeign checks that a list that is not owned by this user is not
// changed.
func TestLeftoversForeign(t *testing.T) {
	s := nlm4test.New(t)
	dir := t.TempDir()
	fifo, link, other := filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "other")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	text := []byte("lock 7 0 0 66 37 68\n")
	require.NoError(t, os.WriteFile(other, text, 0o600))
	require.NoError(t, os.Symlink(other, link))
	files := []string{fifo, link}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(other, 1, 1))
		files = append(files, other)
	}
	for _, file := range files {
		c := newClient(t, s, func(cfg *Config) { cfg.File = file })
		c.mustLock(t, newRequest(1, rangeAt(0, 9), true, false))
		c.Close()
	}
	after, err := os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, text, after)
	assert.Equal(t, len(files), s.Count(nlm4.ProcUnlock))
}
