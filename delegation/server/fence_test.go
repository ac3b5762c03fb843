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
	"github.com/nfsrdma/nfsrdma/rdma"
)

// quiet discards its messages.
var quiet = slog.New(slog.DiscardHandler)

// marked is a Config with a marker in a temporary directory.
func marked(t *testing.T) Config {
	return Config{Marker: filepath.Join(t.TempDir(), "grants"), Log: quiet}
}

// leave writes a marker, as a crashed server leaves it.
func leave(t *testing.T, c Config, text string) {
	require.NoError(t, os.WriteFile(c.Marker, []byte(text), 0o600))
}

// passes reports whether a change is made at once; otherwise the change must be
// put off.
func (r *rig) passes(key string) bool {
	var ch Change
	defer r.Done(&ch)
	if r.Blind(&ch) || r.Begin(&ch, nil, []byte(key)) {
		return true
	}
	start := time.Now()
	assert.ErrorIs(r.t, r.Wait(r.t.Context(), &ch, nil), ErrPutOff)
	assert.Zero(r.t, time.Since(start))
	return false
}

// TestFence checks that after a crash of the server, changes wait for the whole
// lease of that server, no less and no more, even if the next server's lease is
// shorter. Nothing is granted in that time.
func TestFence(t *testing.T) {
	for text, wait := range map[string]time.Duration{
		"20s\n": 20 * time.Second, "1s\n": time.Second, "5m0s": MaxLease,
		"": MaxLease, "20": MaxLease, "0s": MaxLease, "-5s\n": MaxLease, "1h\n": MaxLease, "20s\n20s\n": MaxLease,
	} {
		t.Run(text, func(t *testing.T) {
			cfg := marked(t)
			leave(t, cfg, text)
			run(t, cfg, func(t *testing.T, r *rig) {
				assert.Equal(t, wait, r.Left())
				assert.False(t, r.passes("a"))
				c := r.counting()
				defer c.close()
				assert.Equal(t, delegation.ReasonLimit, c.ask("a"))
				time.Sleep(r.Left() - 1)
				assert.False(t, r.passes("a"))
				assert.Equal(t, delegation.ReasonLimit, c.ask("a"))
				assert.FileExists(t, cfg.Marker)
				time.Sleep(time.Nanosecond)
				assert.True(t, r.passes("a"))
				assert.Zero(t, r.Left())
				synctest.Wait() // the removal of the marker may be due at this very moment
				assert.Zero(t, c.ask("a"))
				assert.False(t, r.passesSoon("a"), "it is held")
				c.returns()
			})
		})
	}
}

// passesSoon is passes for a change that may have to wait for a client.
func (r *rig) passesSoon(key string) bool {
	var ch Change
	defer r.Done(&ch)
	return r.Blind(&ch) || r.Begin(&ch, nil, []byte(key))
}

// TestFenceUnread checks that an unreadable marker counts as a marker with the
// longest lease.
func TestFenceUnread(t *testing.T) {
	cfg := marked(t)
	require.NoError(t, os.Mkdir(cfg.Marker, 0o700))
	run(t, cfg, func(t *testing.T, r *rig) { assert.Equal(t, MaxLease, r.Left()) })
}

// TestFenceAgain checks that a server that ends within the wait leaves the
// whole wait to the next server.
func TestFenceAgain(t *testing.T) {
	cfg := marked(t)
	leave(t, cfg, "20s\n")
	for range 3 {
		run(t, cfg, func(t *testing.T, r *rig) {
			time.Sleep(19 * time.Second)
			assert.Equal(t, time.Second, r.Left())
			assert.False(t, r.passes("a"))
			r.Drain()
		})
		assert.FileExists(t, cfg.Marker)
	}
}

// syncs records the syncs of a marker.
type syncs struct {
	t   *testing.T
	cfg Config

	mu   sync.Mutex
	seen []string
	fail string // the sync to fail
}

// refuse clears the record, and sets the sync to fail from now on.
func (s *syncs) refuse(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.fail = nil, what
}

func (s *syncs) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// syncs replaces the marker's sync function.
func (r *rig) syncs(f func(*os.File) error) {
	r.fence.mu.Lock()
	defer r.fence.mu.Unlock()
	r.fence.mark.sync = f
}

func (s *syncs) watch(r *rig) {
	r.syncs(func(f *os.File) error {
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
	cfg := marked(t)
	leave(t, cfg, "1s\n") // shorter than the lease of new grants
	run(t, cfg, func(t *testing.T, r *rig) {
		s := &syncs{t: t, cfg: cfg}
		s.watch(r)
		c := r.counting()
		defer c.close()
		time.Sleep(time.Second)
		for _, what := range []string{"grants.new 9s\n", "directory with marker"} {
			s.refuse(what)
			assert.Equal(t, delegation.ReasonLimit, c.ask("a"), what)
			assert.Zero(t, r.Stats().InForce)
		}
		s.refuse("")
		assert.Zero(t, c.ask("a"))
		made := []string{"grants.new 9s\n", "directory with marker"}
		assert.Equal(t, made, s.all())
		assert.Zero(t, c.ask("b"))
		assert.Equal(t, made, s.all(), "it is there")
		time.Sleep(2 * term) // the client is silent
		require.Zero(t, r.Stats().InForce)
		c.returns()
		c.returns()
		assert.FileExists(t, cfg.Marker)
		time.Sleep(2*markerIdle - 3*term)
		assert.FileExists(t, cfg.Marker)
		assert.Equal(t, made, s.all())
		time.Sleep(3 * term)
		assert.NoFileExists(t, cfg.Marker)
		assert.Equal(t, append(made, "directory without marker"), s.all())

		s.refuse("")
		assert.Zero(t, c.ask("a"))
		assert.Equal(t, made, s.all(), "it is made again")
	})
	assert.NoFileExists(t, cfg.Marker, "the client has closed its connection")
}

// TestMarkerFails checks that a marker that could not be written leaves no file
// in a directory that may be full.
func TestMarkerFails(t *testing.T) {
	full := errors.New("no room")
	m := marker{filepath.Join(t.TempDir(), "grants"), func(*os.File) error { return full }}
	require.ErrorIs(t, m.write(time.Second, true), full)
	entries, err := os.ReadDir(filepath.Dir(m.path))
	require.NoError(t, err)
	assert.Empty(t, entries)
	m.sync = (*os.File).Sync
	require.NoError(t, m.write(time.Second, true))
}

// TestMarkerUnsynced checks that a marker that cannot be put on stable storage
// is removed, as nothing is granted, unless a marker was there before.
func TestMarkerUnsynced(t *testing.T) {
	for _, before := range []bool{false, true} {
		cfg := marked(t)
		if before {
			leave(t, cfg, "1s\n")
		}
		run(t, cfg, func(t *testing.T, r *rig) {
			s := &syncs{t: t, cfg: cfg}
			s.watch(r)
			c := r.counting()
			defer c.close()
			time.Sleep(time.Second)
			for _, what := range []string{"grants.new 9s\n", "directory with marker"} {
				s.refuse(what)
				assert.Equal(t, delegation.ReasonLimit, c.ask("a"), what)
				assert.NoFileExists(t, cfg.Marker+".new", what)
				_, err := os.Stat(cfg.Marker)
				assert.Equal(t, before, err == nil, what)
			}
			s.refuse("")
			assert.Zero(t, c.ask("a"))
			c.returns()
		})
	}
}

// TestMarkerOutlived checks that the marker of an earlier server is removed when
// its lease is over, even if no client asks for anything meanwhile.
func TestMarkerOutlived(t *testing.T) {
	cfg := marked(t)
	leave(t, cfg, "20s\n")
	run(t, cfg, func(t *testing.T, r *rig) {
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
	cfg := marked(t)
	f := newFence(cfg.Marker, term, func() int { return 0 }, quiet, boottime)
	defer f.close()
	hung, goOn := make(chan struct{}, 10), make(chan struct{})
	f.mark.sync = func(d *os.File) error {
		if st, err := d.Stat(); err == nil && st.IsDir() {
			hung <- struct{}{}
			<-goOn
		}
		return nil
	}
	first, others := make(chan delegation.Reason, 1), make(chan delegation.Reason, 1)
	enter := func() delegation.Reason {
		why := f.enter()
		if why == 0 {
			f.leave()
		}
		return why
	}
	go func() { first <- enter() }()
	<-hung
	go func() {
		why := enter()
		f.check()
		f.close()
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

// TestMarkerLeaseHung checks that a grant that reclaims others for room does
// not hold the marker's lock while the file system releases their leases.
func TestMarkerLeaseHung(t *testing.T) {
	cfg := marked(t)
	cfg.Grants = 1
	run(t, cfg, func(t *testing.T, r *rig) {
		c := r.counting()
		defer c.close()
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
		require.Zero(t, c.ask("a"))
		require.NoError(t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(1), delegation.OpClose.Operands(), c, 0))
		synctest.Wait()
		require.Zero(t, c.ask("b"))
		assert.True(t, free)
	})
}

// TestMarkerStays checks that the marker stays while a client holds a grant.
func TestMarkerStays(t *testing.T) {
	cfg := marked(t)
	run(t, cfg, func(t *testing.T, r *rig) {
		c := r.counting()
		defer c.close()
		assert.Zero(t, c.ask("a"))
		for range 100 {
			time.Sleep(term / 3)
			c.renews()
		}
		assert.Equal(t, 1, r.Stats().InForce)
		assert.FileExists(t, cfg.Marker)
	})
}

// TestMarkerRemovedMeanwhile checks that a grant is refused while the marker is
// being removed, however long the removal takes, and that the next grant
// creates the marker again.
func TestMarkerRemovedMeanwhile(t *testing.T) {
	cfg := marked(t)
	run(t, cfg, func(t *testing.T, r *rig) {
		c := r.counting()
		defer c.close()
		require.Zero(t, c.ask("a"))
		time.Sleep(2 * term)
		c.returns()
		removing, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		r.syncs(func(f *os.File) error {
			once.Do(func() {
				close(removing)
				<-goOn
			})
			return f.Sync()
		})
		<-removing
		assert.Equal(t, delegation.ReasonContended, c.ask("a"))
		assert.Zero(t, r.Stats().InForce)
		close(goOn)
		synctest.Wait()
		assert.Zero(t, c.ask("a"))
		assert.Equal(t, 1, r.Stats().InForce)
		assert.FileExists(t, cfg.Marker)
	})
}

// TestDrain checks that the marker is removed at the end if all grants were
// returned, and stays otherwise.
func TestDrain(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(r *rig, c *client)
		took  time.Duration
		stays bool
	}{
		"returned":  {func(_ *rig, c *client) { c.returns() }, time.Millisecond, false},
		"closed":    {func(_ *rig, c *client) { c.close() }, time.Millisecond, false},
		"no answer": {func(*rig, *client) {}, delegation.Patience, true},
		"reset":     {func(_ *rig, c *client) { c.c.Conn().Abort(errors.New("enough")) }, delegation.Patience, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := marked(t)
			run(t, cfg, func(t *testing.T, r *rig) {
				c := r.counting()
				defer c.close()
				require.Zero(t, c.ask("a"))
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
					assert.Equal(t, delegation.ReasonOver, c.ask("b"), "no more grants")
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
// does not answer, and that the disk can finish the removal later.
func TestMarkerCloseHung(t *testing.T) {
	cfg := marked(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := newFence(cfg.Marker, term, func() int { return 0 }, quiet, func() time.Duration { return time.Since(start) })
		require.Zero(t, f.enter())
		f.leave()
		goOn := make(chan struct{})
		f.mark.sync = func(*os.File) error {
			<-goOn
			return nil
		}
		closed := time.Now()
		f.close()
		assert.Equal(t, closeTime, time.Since(closed))
		assert.Equal(t, delegation.ReasonOver, f.enter())
		close(goOn)
	})
}
