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

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A hungFS is on storage that does not answer until gate is closed. Its methods
// hang only if their fields say so.
type hungFS struct {
	vfs.FS
	gate    chan struct{}
	attrs   *atomic.Bool
	closing bool
	closes  *atomic.Int32
}

func (f hungFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if f.attrs.Load() {
		<-f.gate
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f hungFS) Close() error {
	f.closes.Add(1)
	if f.closing {
		<-f.gate
	}
	return f.FS.Close()
}

// A hungRig has shares without directories, in a synctest bubble. The opener
// opens a hungFS; for /hung it hangs if opening is set.
type hungRig struct {
	*shares
	fs      hungFS
	opening bool
}

func newHungRig(t *testing.T) *hungRig {
	st, err := openState(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	r := &hungRig{
		shares: newShares(st, slog.New(slog.DiscardHandler)),
		fs:     hungFS{gate: make(chan struct{}), attrs: new(atomic.Bool), closes: new(atomic.Int32)},
	}
	r.opener = func(e *export) (vfs.FS, error) {
		if r.opening && e.name == "/hung" {
			<-r.fs.gate
		}
		fs := r.fs
		if e.name != "/hung" {
			fs.attrs, fs.closing = new(atomic.Bool), false
		}
		fs.FS = mem.New(mem.Options{})
		return fs, nil
	}
	return r
}

// exporting returns the exports of some names.
func exporting(names ...string) (list []export) {
	for _, name := range names {
		list = append(list, export{dir: name, name: name, clients: exports.Everyone(exports.Options{Insecure: true})})
	}
	return list
}

// free reports whether calls that end would be held up.
func (r *hungRig) free() bool {
	free := r.mu.TryLock()
	if free {
		r.mu.Unlock()
	}
	return free
}

// took runs f, and returns how long that took.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// TestCloseHung checks that a directory that hangs while it is closed delays
// the end of the daemon for a bounded time only, and is closed once, even if a
// call there ends later.
func TestCloseHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHungRig(t)
		r.fs.closing = true
		taken, keep, _, err := r.take(exporting("/hung", "/other"))
		require.NoError(t, err)
		keep()
		assert.Equal(t, closeTime, took(func() {
			err := r.Close()
			assert.ErrorContains(t, err, "/hung was not closed, for its storage does not answer")
			assert.NotContains(t, err.Error(), "/other")
		}))
		for _, e := range taken {
			e.Released()
		}
		close(r.fs.gate)
		synctest.Wait()
		assert.EqualValues(t, 2, r.fs.closes.Load())
		assert.Empty(t, r.open)
	})
}

// TestOpenHung checks that a directory that hangs while it is opened delays
// neither calls in other directories nor the end of the daemon, and is closed
// if it opens after that.
func TestOpenHung(t *testing.T) {
	for name, hang := range map[string]func(r *hungRig, e *export){
		"opening": func(r *hungRig, _ *export) { r.opening = true },
		"crossing": func(r *hungRig, e *export) {
			e.clients = exports.Everyone(exports.Options{Insecure: true, CrossMnt: true})
			r.crossing = func(string) error {
				<-r.fs.gate
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHungRig(t)
				list := exporting("/other", "/hung", "/last")
				hang(r, &list[1])
				failed := make(chan error, 1)
				go func() {
					_, _, _, err := r.take(list)
					failed <- err
				}()
				synctest.Wait()
				if assert.True(t, r.free()) {
					assert.Less(t, took(func() { assert.NoError(t, r.Close()) }), closeTime)
				}
				close(r.fs.gate)
				assert.ErrorIs(t, <-failed, errOver)
				synctest.Wait()
				assert.Empty(t, r.open)
				opened := int32(1) // and closed: /other
				if r.opening {
					opened++
				}
				assert.Equal(t, opened, r.fs.closes.Load(), "nothing is opened after the end")
			})
		})
	}
}

// TestReopenHung checks that the end of the daemon ends a reload that waits for
// a directory that hangs while it is closed.
func TestReopenHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHungRig(t)
		r.fs.closing = true
		taken, keep, _, err := r.take(exporting("/hung"))
		require.NoError(t, err)
		keep()
		_, keep, _, err = r.take(nil)
		require.NoError(t, err)
		keep()
		taken[0].Released()
		failed := make(chan error, 1)
		go func() {
			_, _, _, err := r.take(exporting("/hung"))
			failed <- err
		}()
		synctest.Wait()
		assert.True(t, r.free())
		ended := make(chan error, 1)
		go func() { ended <- r.Close() }()
		assert.ErrorIs(t, <-failed, errOver)
		assert.ErrorContains(t, <-ended, "/hung was not closed")
		close(r.fs.gate)
		synctest.Wait()
		assert.EqualValues(t, 1, r.fs.closes.Load())
	})
}

// TestReloadHung checks that the end of the daemon waits for a reload, but not
// for longer than closeTime.
func TestReloadHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ takes, waits time.Duration }{
			{0, 0}, {closeTime - 1, closeTime - 1}, {time.Hour, closeTime},
		} {
			var log strings.Builder
			signals := make(chan os.Signal, 1)
			end := onSignals(t.Context(), signals, nil, func(bool) error { time.Sleep(tt.takes); return nil }, slog.New(slog.NewTextHandler(&log, nil)))
			signals <- os.Interrupt
			synctest.Wait()
			assert.Equal(t, tt.waits, took(end))
			assert.Equal(t, tt.takes > closeTime, strings.Contains(log.String(), "storage does not answer"))
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
				r, o := newHungRig(t), serveOptions{exports: exporting("/hung", "/other")}
				r.fs.closing = true
				taken, err := o.openExports(t.Context(), r.shares, r.log)
				require.NoError(t, err)
				server, err := o.newServer(taken, r.state.dir, nil, r.log)
				require.NoError(t, err)
				defer func() { assert.NoError(t, server.Close()) }()
				g := &reloadRig{t: t, programs: o.ops.replies}
				hung, _ := g.mnt(hostA, "/hung")
				other, _ := g.mnt(hostA, "/other")

				r.fs.attrs.Store(true)
				var waiting sync.WaitGroup
				for range calls {
					waiting.Go(func() { g.getAttr(hostA, hung) })
				}
				synctest.Wait()
				assert.Zero(t, took(func() {
					assert.NoError(t, apply(o.ops.server, r.shares, exporting("/other", "/new")))
					assert.Equal(t, nfs3.OK, g.getAttr(hostA, other))
					assert.Equal(t, nfs3.ErrStale, g.getAttr(hostB, hung))
					_, status := g.mnt(hostA, "/new")
					assert.Equal(t, mount3.OK, status)
				}))
				assert.Zero(t, r.fs.closes.Load(), "calls use it")

				if answers {
					close(r.fs.gate)
					waiting.Wait()
					synctest.Wait()
					assert.EqualValues(t, 1, r.fs.closes.Load())
					assert.Zero(t, took(func() { assert.NoError(t, r.Close()) }))
				} else {
					assert.Equal(t, closeTime, took(func() { assert.ErrorContains(t, r.Close(), "/hung was not closed") }))
					close(r.fs.gate)
					waiting.Wait()
				}
				synctest.Wait()
				assert.EqualValues(t, 3, r.fs.closes.Load(), "each was closed once")
			})
		})
	}
}
