package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestWriteBehindRefused checks that a failure is reported once, before Sync
// returns, that the other data are written, and that the WriteBehind still
// works.
func TestWriteBehindRefused(t *testing.T) {
	data := sampleData(10 * 4096)
	for name, tt := range map[string]struct {
		fail func(g *testServer)
		want error
		kept func(stable []byte) bool
	}{
		"a WRITE": {
			func(g *testServer) { g.failAt(nfs3.ProcWrite, nfs3.ErrNoSpc, 3*4096) }, nfs3.ErrNoSpc,
			func(stable []byte) bool {
				return bytes.Equal(data[:3*4096], stable[:3*4096]) && bytes.Equal(data[4*4096:], stable[4*4096:])
			},
		},
		"the first WRITE": {func(g *testServer) { g.failProc(nfs3.ProcWrite, nfs3.ErrStale, 1) }, nfs3.ErrStale, nil},
		"the COMMIT":      {func(g *testServer) { g.failProc(nfs3.ProcCommit, nfs3.ErrIO, 1) }, nfs3.ErrIO, nil},
		"a WRITE of lost data": {
			func(g *testServer) {
				g.restartAtCall(nfs3.ProcCommit, 1)
				restart := g.before
				g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
					if x.Proc == nfs3.ProcWrite && stableOf(x) == nfs3.FileSync {
						return failingCaller(nfs3.ProcWrite, nfs3.ErrDQuot), nil
					}
					return restart(ctx, x)
				}
			}, nfs3.ErrDQuot, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{WriteSize: 4096, Depth: 4}, func(t *testing.T, g *testServer) {
				f, w := g.newWriteBehind(plenty)
				tt.fail(g)
				for off := 0; off < len(data); off += 4096 {
					require.NoError(t, w.Write(t.Context(), data[off:off+4096], int64(off)))
				}
				assert.NoError(t, w.Sync(t.Context()))
				lost := g.lost.takeAll()
				assert.NotEmpty(t, lost)
				for _, err := range lost {
					assert.ErrorIs(t, err, tt.want)
				}
				assert.Zero(t, w.budget.used)
				if tt.kept != nil {
					_, stable := g.fileContent(f)
					assert.True(t, tt.kept(stable))
				}
				g.before = nil
				require.NoError(t, w.Write(t.Context(), data, 0))
				require.NoError(t, w.Sync(t.Context()))
				_, stable := g.fileContent(f)
				assert.True(t, bytes.Equal(data, stable))
			})
		})
	}
}

// TestWriteBehindFlushFailed checks that Flush, too, returns after a failure
// was reported, and that the failure is reported even if the waiting caller has
// given up.
func TestWriteBehindFlushFailed(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		_, w := g.newWriteBehind(plenty)
		g.failProc(nfs3.ProcWrite, nfs3.ErrNoSpc, 1)
		require.NoError(t, w.Write(t.Context(), filledPage('a'), 0))
		require.NoError(t, w.Flush(t.Context()))
		require.Len(t, g.lost.takeAll(), 1)

		held := make(chan struct{})
		g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
			<-held
			return failingCaller(nfs3.ProcWrite, nfs3.ErrDQuot), nil
		}
		require.NoError(t, w.Write(t.Context(), filledPage('a'), 0))
		ctx, cancel := context.WithCancel(t.Context())
		synced := startLater(func() error { return w.Sync(ctx) })
		assert.False(t, synced())
		cancel()
		assert.True(t, synced())
		assert.Empty(t, g.lost.takeAll())
		close(held)
		require.NoError(t, w.Sync(t.Context()))
		lost := g.lost.takeAll()
		require.Len(t, lost, 1)
		assert.ErrorIs(t, lost[0], nfs3.ErrDQuot)
	})
}

// TestWriteBehindUnreachable checks that without a server, the WriteBehind does
// not try call after call.
func TestWriteBehindUnreachable(t *testing.T) {
	inBubble(t, Config{WriteSize: 4096, Depth: 4}, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		gone, tries := errors.New("no server"), 0
		held := g.blockProc(nfs3.ProcWrite)
		wait := g.before
		g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
			_, _ = wait(ctx, x)
			g.fakeConn.mu.Lock()
			defer g.fakeConn.mu.Unlock()
			tries++
			return nil, gone
		}
		require.NoError(t, w.Write(t.Context(), sampleData(100*4096), 0))
		synced := startLater(func() error { return w.Sync(t.Context()) })
		assert.False(t, synced())
		close(held)
		assert.True(t, synced())
		assert.LessOrEqual(t, tries, 2*4)
		assert.Zero(t, w.budget.used)
		assert.Zero(t, w.window.used)
		g.before = nil
		for _, err := range g.lost.takeAll() {
			assert.ErrorIs(t, err, gone)
		}
		require.NoError(t, w.Write(t.Context(), filledPage('b'), 0))
		require.NoError(t, w.Sync(t.Context()))
		_, stable := g.fileContent(f)
		assert.Equal(t, filledPage('b'), stable)
	})
}

// TestWriteBehindCancelled checks that a cancelled context stops the wait, and
// not the calls.
func TestWriteBehindCancelled(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		held := g.blockProc(nfs3.ProcWrite)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		var got []error
		require.NoError(t, w.Write(ctx, filledPage('a')[:100], 0))
		for _, wait := range []func() error{
			func() error { return w.Flush(ctx) },
			func() error { return w.Sync(ctx) },
			func() error { return w.Write(ctx, filledPage('b')[:100], 0) }, // overlaps data that are waited for
			func() error { return w.Write(ctx, sampleData(100*4096), 4096) },
		} {
			returned := startLater(func() error {
				err := wait()
				g.fakeConn.mu.Lock()
				defer g.fakeConn.mu.Unlock()
				got = append(got, err)
				return err
			})
			assert.False(t, returned())
		}
		cancel(why)
		g.callsInFlight()
		assert.Equal(t, []error{why, why, why, why}, got)
		close(held)
		require.NoError(t, w.Sync(t.Context()))
		_, stable := g.fileContent(f)
		assert.Equal(t, filledPage('a')[:100], stable[:100])
		assert.Zero(t, w.budget.used)
	})
}

// TestWriteBehindGivenUp checks that a Write over data that a Sync waits for
// continues when no Sync waits any more.
func TestWriteBehindGivenUp(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		_, w := g.newWriteBehind(plenty)
		g.blockProc(nfs3.ProcWrite)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, w.Write(ctx, filledPage('a'), 0))
		synced := startLater(func() error { return w.Sync(ctx) })
		assert.False(t, synced())
		wrote := startLater(func() error { return w.Write(t.Context(), []byte("b"), 0) })
		assert.False(t, wrote())
		cancel()
		assert.True(t, synced())
		assert.True(t, wrote())
	})
}

// TestWriteBehindChangedWhileWaiting checks that a Write that waited for memory
// sees a Close, and a Sync of the data it overlaps.
func TestWriteBehindChangedWhileWaiting(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		_, w := g.newWriteBehind(2 * 4096)
		require.True(t, w.budget.tryAcquireBytes(4096)) // memory for another file
		held := g.blockProc(nfs3.ProcWrite)
		require.NoError(t, w.Write(t.Context(), filledPage('a'), 0))
		wrote := startLater(func() error { return w.Write(t.Context(), []byte("b"), 0) })
		assert.False(t, wrote())
		synced := startLater(func() error { return w.Sync(t.Context()) })
		assert.False(t, synced())
		w.budget.releaseBytes(4096)
		assert.False(t, wrote(), "it has space now, and waits for Sync")
		held <- struct{}{}
		assert.True(t, synced())
		assert.True(t, wrote())
		require.True(t, w.budget.tryAcquireBytes(4096))
		late := startLater(func() error { return w.Write(t.Context(), filledPage('c'), 3*4096) })
		assert.False(t, late())
		w.Close()
		assert.True(t, late())
		assert.EqualValues(t, 4096, w.budget.used)
	})
}

// TestWriteBehindClose checks that Close and waiting callers return even if the
// server does not reply.
func TestWriteBehindClose(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		_, w := g.newWriteBehind(9 * 4096)
		g.blockProc(nfs3.ProcWrite)
		require.NoError(t, w.Write(t.Context(), sampleData(6*4096+10), 0))
		returned := []func() bool{
			startLater(func() error { return w.Sync(t.Context()) }),
			startLater(func() error { return w.Write(t.Context(), sampleData(100*4096), 4096) }),
		}
		for _, r := range returned {
			assert.False(t, r())
		}
		w.Close()
		for _, r := range returned {
			assert.True(t, r())
		}
		w.Close()
		assert.Zero(t, w.budget.used)
		assert.Empty(t, w.budget.users)
		for _, err := range []error{w.Write(t.Context(), filledPage('a'), 0), w.Flush(t.Context()), w.Sync(t.Context())} {
			assert.ErrorIs(t, err, fs.ErrClosed)
		}
		_, _, any := w.Pending()
		assert.False(t, any)
	})
}
