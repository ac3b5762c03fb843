package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// quiet discards its messages.
var quiet = slog.New(slog.DiscardHandler)

// markerConfig is a Config with a marker in a temporary directory.
func markerConfig(t *testing.T) Config {
	return Config{Marker: filepath.Join(t.TempDir(), "grants"), Log: quiet}
}

// leaveMarker writes a marker, as a crashed server leaves it.
func leaveMarker(t *testing.T, c Config, text string) {
	require.NoError(t, os.WriteFile(c.Marker, []byte(text), 0o600))
}

// changeProceeds reports whether a change is made immediately; otherwise it
// must be postponed.
func (r *testServer) changeProceeds(key string) bool {
	return !r.IsFenced() && r.changeStarts(key)
}

// TestFence checks that after a server crash, changes wait for that server's
// full lease time, no less and no more, even if the next server's lease is
// shorter. Nothing is granted in that time.
func TestFence(t *testing.T) {
	for text, wait := range map[string]time.Duration{
		"20s\n": 20 * time.Second, "1s\n": time.Second, "5m0s": MaxLease,
		"": MaxLease, "20": MaxLease, "0s": MaxLease, "-5s\n": MaxLease, "1h\n": MaxLease, "20s\n20s\n": MaxLease,
	} {
		t.Run(text, func(t *testing.T) {
			cfg := markerConfig(t)
			leaveMarker(t, cfg, text)
			runTest(t, cfg, func(t *testing.T, r *testServer) {
				assert.Equal(t, wait, r.Left())
				assert.False(t, r.changeProceeds("a"))
				c := r.dialWithCounters()
				defer c.closeConn()
				assert.Equal(t, delegation.ReasonLimit, c.acquireGrant("a"))
				time.Sleep(r.Left() - 1)
				assert.False(t, r.changeProceeds("a"))
				assert.Equal(t, delegation.ReasonLimit, c.acquireGrant("a"))
				assert.FileExists(t, cfg.Marker)
				time.Sleep(time.Nanosecond)
				assert.True(t, r.changeProceeds("a"))
				assert.Zero(t, r.Left())
				synctest.Wait() // the removal of the marker may be due at this very moment
				assert.Zero(t, c.acquireGrant("a"))
				assert.False(t, r.changeStarts("a"), "it is held")
				c.returnGrants()
			})
		})
	}
}

// changeStarts is passes for a change that may have to wait for a client.
func (r *testServer) changeStarts(key string) bool {
	var ch recall.Change
	defer r.Holders().Done(&ch)
	return r.Holders().NothingHeld(&ch) || r.beginChange(&ch, nil, key)
}

// TestFenceUnread checks that an unreadable marker counts as a marker with the
// longest lease.
func TestFenceUnread(t *testing.T) {
	cfg := markerConfig(t)
	require.NoError(t, os.Mkdir(cfg.Marker, 0o700))
	runTest(t, cfg, func(t *testing.T, r *testServer) { assert.Equal(t, MaxLease, r.Left()) })
}

// TestFenceAgain checks that if a server stops during the wait, the next server
// waits for the full time.
func TestFenceAgain(t *testing.T) {
	cfg := markerConfig(t)
	leaveMarker(t, cfg, "20s\n")
	for range 3 {
		runTest(t, cfg, func(t *testing.T, r *testServer) {
			time.Sleep(19 * time.Second)
			assert.Equal(t, time.Second, r.Left())
			assert.False(t, r.changeProceeds("a"))
			r.Drain()
		})
		assert.FileExists(t, cfg.Marker)
	}
}

// syncRecorder records the syncs of a marker.
type syncRecorder struct {
	t   *testing.T
	cfg Config

	mu   sync.Mutex
	seen []string
	fail string // the sync to fail
}

// failSyncs clears the record, and sets the sync to fail from now on.
func (s *syncRecorder) failSyncs(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.fail = nil, what
}

func (s *syncRecorder) allSyncs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// recordSyncs replaces the marker's sync function.
func (r *testServer) recordSyncs(f func(*os.File) error) {
	r.fence.mu.Lock()
	defer r.fence.mu.Unlock()
	r.fence.marker.syncFile = f
}

func (s *syncRecorder) watchFor(r *testServer) {
	r.recordSyncs(func(f *os.File) error {
		st, err := f.Stat()
		require.NoError(s.t, err)
		what := filepath.Base(f.Name())
		if st.IsDir() {
			what = "directory without marker"
			if _, err := os.Stat(s.cfg.Marker); err == nil {
				what = "directory with marker"
			}
		} else {
			b, err := os.ReadFile(f.Name())
			require.NoError(s.t, err)
			what += " " + string(b)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, what)
		if what == s.fail {
			return errors.New("no room")
		}
		return f.Sync()
	})
}

// TestMarkerSynced checks that the marker and its directory entry are on stable
// storage before the first grant. After a while without grants, the marker is
// removed, and the removal is synced too.
func TestMarkerSynced(t *testing.T) {
	cfg := markerConfig(t)
	leaveMarker(t, cfg, "1s\n") // shorter than the lease of new grants
	runTest(t, cfg, func(t *testing.T, r *testServer) {
		s := &syncRecorder{t: t, cfg: cfg}
		s.watchFor(r)
		c := r.dialWithCounters()
		defer c.closeConn()
		time.Sleep(time.Second)
		for _, what := range []string{"grants.new 9s\n", "directory with marker"} {
			s.failSyncs(what)
			assert.Equal(t, delegation.ReasonLimit, c.acquireGrant("a"), what)
			assert.Zero(t, r.Stats().InForce)
		}
		s.failSyncs("")
		assert.Zero(t, c.acquireGrant("a"))
		made := []string{"grants.new 9s\n", "directory with marker"}
		assert.Equal(t, made, s.allSyncs())
		assert.Zero(t, c.acquireGrant("b"))
		assert.Equal(t, made, s.allSyncs(), "it is there")
		time.Sleep(2 * term) // the client is silent
		require.Zero(t, r.Stats().InForce)
		c.returnGrants()
		c.returnGrants()
		assert.FileExists(t, cfg.Marker)
		time.Sleep(2*markerIdle - 3*term)
		assert.FileExists(t, cfg.Marker)
		assert.Equal(t, made, s.allSyncs())
		time.Sleep(3 * term)
		assert.NoFileExists(t, cfg.Marker)
		assert.Equal(t, append(made, "directory without marker"), s.allSyncs())

		s.failSyncs("")
		assert.Zero(t, c.acquireGrant("a"))
		assert.Equal(t, made, s.allSyncs(), "it is made again")
	})
	assert.NoFileExists(t, cfg.Marker, "the client has closed its connection")
}

// TestMarkerFails checks that a marker that could not be written leaves no file
// in a directory that may be full.
func TestMarkerFails(t *testing.T) {
	full := errors.New("no room")
	m := grantMarker{filepath.Join(t.TempDir(), "grants"), func(*os.File) error { return full }}
	require.ErrorIs(t, m.writeLease(time.Second, true), full)
	entries, err := os.ReadDir(filepath.Dir(m.path))
	require.NoError(t, err)
	assert.Empty(t, entries)
	m.syncFile = (*os.File).Sync
	require.NoError(t, m.writeLease(time.Second, true))
}

// TestMarkerUnsynced checks that a marker that cannot be put on stable storage
// is removed, as nothing is granted, unless a marker was there before.
func TestMarkerUnsynced(t *testing.T) {
	for _, before := range []bool{false, true} {
		cfg := markerConfig(t)
		if before {
			leaveMarker(t, cfg, "1s\n")
		}
		runTest(t, cfg, func(t *testing.T, r *testServer) {
			s := &syncRecorder{t: t, cfg: cfg}
			s.watchFor(r)
			c := r.dialWithCounters()
			defer c.closeConn()
			time.Sleep(time.Second)
			for _, what := range []string{"grants.new 9s\n", "directory with marker"} {
				s.failSyncs(what)
				assert.Equal(t, delegation.ReasonLimit, c.acquireGrant("a"), what)
				assert.NoFileExists(t, cfg.Marker+".new", what)
				_, err := os.Stat(cfg.Marker)
				assert.Equal(t, before, err == nil, what)
			}
			s.failSyncs("")
			assert.Zero(t, c.acquireGrant("a"))
			c.returnGrants()
		})
	}
}

// TestMarkerOutlived checks that the marker of an earlier server is removed
// when its lease is over, even if no client sends an ACQUIRE.
func TestMarkerOutlived(t *testing.T) {
	cfg := markerConfig(t)
	leaveMarker(t, cfg, "20s\n")
	runTest(t, cfg, func(t *testing.T, r *testServer) {
		time.Sleep(markerIdle - 1)
		assert.FileExists(t, cfg.Marker)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.NoFileExists(t, cfg.Marker)
	})
}

// TestMarkerHung checks that if the disk does not respond, one call waits for
// the marker. Other calls are refused, and close returns. The marker is left
// for the next start.
func TestMarkerHung(t *testing.T) {
	cfg := markerConfig(t)
	f := newFence(cfg.Marker, term, func() int { return 0 }, quiet, readBootTime)
	defer f.closeFence()
	hung, goOn := make(chan struct{}, 10), make(chan struct{})
	f.marker.syncFile = func(d *os.File) error {
		if st, err := d.Stat(); err == nil && st.IsDir() {
			hung <- struct{}{}
			<-goOn
		}
		return nil
	}
	first, others := make(chan delegation.Reason, 1), make(chan delegation.Reason, 1)
	enter := func() delegation.Reason {
		why := f.beginGrant()
		if why == 0 {
			f.endGrant()
		}
		return why
	}
	go func() { first <- enter() }()
	<-hung
	go func() {
		why := enter()
		f.removeIfIdle()
		f.closeFence()
		others <- why
	}()
	select {
	case why := <-others:
		assert.Equal(t, delegation.ReasonContended, why)
	case <-time.After(10 * time.Second):
		t.Error("the disk delays more than one call")
	}
	assert.Empty(t, first)
	close(goOn)
	assert.Equal(t, delegation.ReasonOver, <-first)
	assert.FileExists(t, cfg.Marker)
}

// TestMarkerLeaseHung checks that a grant that reclaims others to make room
// does not hold the marker's lock while the file system releases their leases.
func TestMarkerLeaseHung(t *testing.T) {
	cfg := markerConfig(t)
	cfg.Grants = 1
	runTest(t, cfg, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		free := true
		r.take = func(func()) (func(), error) {
			return func() {
				if r.fence.mu.TryLock() {
					r.fence.mu.Unlock()
				} else {
					free = false
				}
			}, nil
		}
		require.Zero(t, c.acquireGrant("a"))
		require.NoError(t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(1), delegation.OpClose.Operands(), c, 0))
		synctest.Wait()
		require.Zero(t, c.acquireGrant("b"))
		assert.True(t, free)
	})
}

// TestMarkerStays checks that the marker stays while a client holds a grant.
func TestMarkerStays(t *testing.T) {
	cfg := markerConfig(t)
	runTest(t, cfg, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		assert.Zero(t, c.acquireGrant("a"))
		for range 100 {
			time.Sleep(term / 3)
			c.renewLease()
		}
		assert.Equal(t, 1, r.Stats().InForce)
		assert.FileExists(t, cfg.Marker)
	})
}

// TestMarkerRemovedMeanwhile checks that a grant is refused while the marker is
// being removed, however long the removal takes, and that the next grant
// creates the marker again.
func TestMarkerRemovedMeanwhile(t *testing.T) {
	cfg := markerConfig(t)
	runTest(t, cfg, func(t *testing.T, r *testServer) {
		c := r.dialWithCounters()
		defer c.closeConn()
		require.Zero(t, c.acquireGrant("a"))
		time.Sleep(2 * term)
		c.returnGrants()
		removing, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		r.recordSyncs(func(f *os.File) error {
			once.Do(func() {
				close(removing)
				<-goOn
			})
			return f.Sync()
		})
		<-removing
		assert.Equal(t, delegation.ReasonContended, c.acquireGrant("a"))
		assert.Zero(t, r.Stats().InForce)
		close(goOn)
		synctest.Wait()
		assert.Zero(t, c.acquireGrant("a"))
		assert.Equal(t, 1, r.Stats().InForce)
		assert.FileExists(t, cfg.Marker)
	})
}

// TestDrain checks that the marker is removed on Close if all grants were
// returned, and stays otherwise.
func TestDrain(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(r *testServer, c *fakeClient)
		took  time.Duration
		stays bool
	}{
		"returned":  {func(_ *testServer, c *fakeClient) { c.returnGrants() }, time.Millisecond, false},
		"closed":    {func(_ *testServer, c *fakeClient) { c.closeConn() }, time.Millisecond, false},
		"no answer": {func(*testServer, *fakeClient) {}, recall.MaxWait, true},
		"reset":     {func(_ *testServer, c *fakeClient) { c.conn.Conn().Abort(errors.New("enough")) }, recall.MaxWait, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := markerConfig(t)
			runTest(t, cfg, func(t *testing.T, r *testServer) {
				c := r.dialWithCounters()
				defer c.closeConn()
				require.Zero(t, c.acquireGrant("a"))
				start := time.Now()
				drained := make(chan struct{})
				go func() {
					r.Drain()
					assert.Equal(t, tt.took, time.Since(start))
					close(drained)
				}()
				time.Sleep(time.Millisecond)
				tt.end(r, c)
				<-drained
				if name != "closed" && name != "reset" {
					assert.Equal(t, delegation.ReasonOver, c.acquireGrant("b"), "no more grants")
				}
				synctest.Wait()
				require.NoError(t, r.srv.Shutdown(t.Context())) // before the client closes its connection
			})
			_, err := os.Stat(cfg.Marker)
			assert.Equal(t, tt.stays, err == nil)
		})
	}
}

// TestMarkerCloseHung checks that close waits for a bounded time if the disk
// does not respond, and that the disk can complete the removal later.
func TestMarkerCloseHung(t *testing.T) {
	cfg := markerConfig(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := newFence(cfg.Marker, term, func() int { return 0 }, quiet, func() time.Duration { return time.Since(start) })
		require.Zero(t, f.beginGrant())
		f.endGrant()
		goOn := make(chan struct{})
		f.marker.syncFile = func(*os.File) error {
			<-goOn
			return nil
		}
		closed := time.Now()
		f.closeFence()
		assert.Equal(t, closeTime, time.Since(closed))
		assert.Equal(t, delegation.ReasonOver, f.beginGrant())
		close(goOn)
	})
}
