package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeHungFS is on storage that does not answer until gate is closed. Its methods
// hang only if their fields say so.
type fakeHungFS struct {
	vfs.FS
	gate        chan struct{}
	hangGetAttr *atomic.Bool
	hangClose   bool
	closeCount  *atomic.Int32
}

func (f fakeHungFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if f.hangGetAttr.Load() {
		<-f.gate
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f fakeHungFS) Close() error {
	f.closeCount.Add(1)
	if f.hangClose {
		<-f.gate
	}
	return f.FS.Close()
}

// A hungShareTest has shares without directories, in a synctest bubble. The opener
// opens a fakeHungFS; for /hung it hangs if opening is set.
type hungShareTest struct {
	*shareSet
	fs       fakeHungFS
	hangOpen bool
}

func newHungShareTest(t *testing.T) *hungShareTest {
	st, err := openState(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	r := &hungShareTest{
		shareSet: newShareSet(st, slog.New(slog.DiscardHandler)),
		fs:       fakeHungFS{gate: make(chan struct{}), hangGetAttr: new(atomic.Bool), closeCount: new(atomic.Int32)},
	}
	r.openExport = func(e *exportSpec) (vfs.FS, error) {
		if r.hangOpen && e.name == "/hung" {
			<-r.fs.gate
		}
		fs := r.fs
		if e.name != "/hung" {
			fs.hangGetAttr, fs.hangClose = new(atomic.Bool), false
		}
		fs.FS = mem.New(mem.Options{})
		return fs, nil
	}
	return r
}

// tolerateNone makes acquireShares open all exports, or none.
func tolerateNone(*exportSpec) bool { return false }

// newExportSpecs returns the exports of some names.
func newExportSpecs(names ...string) (list []exportSpec) {
	for _, name := range names {
		list = append(list, exportSpec{dir: name, name: name, clients: exports.Everyone(exports.Options{Insecure: true})})
	}
	return list
}

// isUnlocked reports whether calls that end would be held up.
func (r *hungShareTest) isUnlocked() bool {
	free := r.mu.TryLock()
	if free {
		r.mu.Unlock()
	}
	return free
}

// measureTime runs f, and returns how long that took.
func measureTime(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// TestCloseHung checks that a directory that hangs while it is closed delays
// the end of the daemon for a bounded time only, and is closed once, even if a
// call there ends later.
func TestCloseHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHungShareTest(t)
		r.fs.hangClose = true
		taken, keep, _, err := r.acquireShares(newExportSpecs("/hung", "/other"), tolerateNone)
		require.NoError(t, err)
		keep()
		assert.Equal(t, closeTimeout, measureTime(func() {
			err := r.Close()
			assert.ErrorContains(t, err, "/hung was not closed, because its storage does not respond")
			assert.NotContains(t, err.Error(), "/other")
		}))
		for _, e := range taken {
			e.Released()
		}
		close(r.fs.gate)
		synctest.Wait()
		assert.EqualValues(t, 2, r.fs.closeCount.Load())
		assert.Empty(t, r.open)
	})
}

// TestOpenHung checks that a directory that hangs while it is opened delays
// neither calls in other directories nor the end of the daemon, and is closed
// if it opens after that.
func TestOpenHung(t *testing.T) {
	for name, hang := range map[string]func(r *hungShareTest, e *exportSpec){
		"opening": func(r *hungShareTest, _ *exportSpec) { r.hangOpen = true },
		"placement": func(r *hungShareTest, _ *exportSpec) {
			r.findPlacement = func(e *exportSpec) (at placement) {
				if e.name == "/hung" {
					<-r.fs.gate
				}
				return at
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHungShareTest(t)
				list := newExportSpecs("/other", "/hung", "/last")
				hang(r, &list[1])
				failed := make(chan error, 1)
				go func() {
					_, _, _, err := r.acquireShares(list, tolerateNone)
					failed <- err
				}()
				synctest.Wait()
				if assert.True(t, r.isUnlocked()) {
					assert.Less(t, measureTime(func() { assert.NoError(t, r.Close()) }), closeTimeout)
				}
				close(r.fs.gate)
				assert.ErrorIs(t, <-failed, errClosing)
				synctest.Wait()
				assert.Empty(t, r.open)
				opened := int32(1) // and closed: /other
				if r.hangOpen {
					opened++
				}
				assert.Equal(t, opened, r.fs.closeCount.Load(), "nothing is opened after the end")
			})
		})
	}
}

// TestReopenHung checks that the end of the daemon ends a reload that waits for
// a directory that hangs while it is closed.
func TestReopenHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHungShareTest(t)
		r.fs.hangClose = true
		taken, keep, _, err := r.acquireShares(newExportSpecs("/hung"), tolerateNone)
		require.NoError(t, err)
		keep()
		_, keep, _, err = r.acquireShares(nil, tolerateNone)
		require.NoError(t, err)
		keep()
		taken[0].Released()
		failed := make(chan error, 1)
		go func() {
			_, _, _, err := r.acquireShares(newExportSpecs("/hung"), tolerateNone)
			failed <- err
		}()
		synctest.Wait()
		assert.True(t, r.isUnlocked())
		ended := make(chan error, 1)
		go func() { ended <- r.Close() }()
		assert.ErrorIs(t, <-failed, errClosing)
		assert.ErrorContains(t, <-ended, "/hung was not closed")
		close(r.fs.gate)
		synctest.Wait()
		assert.EqualValues(t, 1, r.fs.closeCount.Load())
	})
}

// TestReloadHung checks that the end of the daemon waits for a reload, but not
// for longer than closeTimeout.
func TestReloadHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ takes, waits time.Duration }{
			{0, 0}, {closeTimeout - 1, closeTimeout - 1}, {time.Hour, closeTimeout},
		} {
			var log strings.Builder
			signals := make(chan os.Signal, 1)
			end := serveReloads(t.Context(), signals, nil, func(reloadOrder) error { time.Sleep(tt.takes); return nil }, func() {}, nil, slog.New(slog.NewTextHandler(&log, nil)))
			signals <- os.Interrupt
			synctest.Wait()
			assert.Equal(t, tt.waits, measureTime(end))
			assert.Equal(t, tt.takes > closeTimeout, strings.Contains(log.String(), "storage does not respond"))
			time.Sleep(tt.takes)
		}
	})
}

// TestPermitsHung checks a reload, and the end of the daemon, while calls have
// used up the permits of an export whose storage does not answer. Other exports
// are served, and the reload is done at once. The export is closed after its last
// call; if there is no answer, the end of the daemon does not wait for that.
func TestPermitsHung(t *testing.T) {
	const calls = 300 // more than a party may have at work in one file system
	for name, answers := range map[string]bool{"storage answers": true, "storage does not answer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := newHungShareTest(t), serveOptions{exports: newExportSpecs("/hung", "/other")}
				r.fs.hangClose = true
				taken, err := o.openExports(t.Context(), r.shareSet, r.log)
				require.NoError(t, err)
				server, err := o.newServer(taken, r.state.dir, nil, r.log)
				require.NoError(t, err)
				defer func() { assert.NoError(t, server.Close()) }()
				g := &reloadTest{t: t, replyCache: o.daemon.replies}
				hung, _ := g.callMnt(hostA, "/hung")
				other, _ := g.callMnt(hostA, "/other")

				r.fs.hangGetAttr.Store(true)
				var waiting sync.WaitGroup
				for range calls {
					waiting.Go(func() { g.callGetAttr(hostA, hung) })
				}
				synctest.Wait()
				assert.Zero(t, measureTime(func() {
					assert.NoError(t, applyExports(o.daemon.server, r.shareSet, newExportSpecs("/other", "/new")))
					assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, other))
					assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostB, hung))
					_, status := g.callMnt(hostA, "/new")
					assert.Equal(t, mount3.OK, status)
				}))
				assert.Zero(t, r.fs.closeCount.Load(), "calls use it")

				if answers {
					close(r.fs.gate)
					waiting.Wait()
					synctest.Wait()
					assert.EqualValues(t, 1, r.fs.closeCount.Load())
					assert.Zero(t, measureTime(func() { assert.NoError(t, r.Close()) }))
				} else {
					assert.Equal(t, closeTimeout, measureTime(func() { assert.ErrorContains(t, r.Close(), "/hung was not closed") }))
					close(r.fs.gate)
					waiting.Wait()
				}
				synctest.Wait()
				assert.EqualValues(t, 3, r.fs.closeCount.Load(), "each was closed once")
			})
		})
	}
}
