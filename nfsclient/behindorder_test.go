package nfsclient

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// inBubble runs test with a rig in virtual time, which detects deadlocks.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t, cfg, true)) })
}

// A gate blocks calls of a procedure until it is opened.
type gate chan struct{}

func (g *rig) gate(proc uint32) gate {
	held := make(gate)
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Prog != nfs3.Program || x.Proc != proc {
			return nil, nil
		}
		select {
		case <-held:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return held
}

// later runs do in the background. The function returned reports whether do has
// returned, once all goroutines are blocked.
func later(do func() error) (returned func() bool) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() bool {
		synctest.Wait()
		return len(done) > 0
	}
}

// underWay returns how many calls are under way once all goroutines are
// blocked.
func (g *rig) underWay() int {
	synctest.Wait()
	g.wire.mu.Lock()
	defer g.wire.mu.Unlock()
	return g.under
}

func page(b byte) []byte { return bytes.Repeat([]byte{b}, 4096) }

// TestWriteBehindOverlapWaits checks that data are not sent before overlapping
// older data have arrived: the server may execute two WRITEs in either order.
func TestWriteBehindOverlapWaits(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *rig) {
		f, w := g.behind(plenty)
		held := g.gate(nfs3.ProcWrite)
		require.NoError(t, w.Write(t.Context(), page('a'), 0))
		assert.Equal(t, 1, g.underWay())
		require.NoError(t, w.Write(t.Context(), page('b'), 100))
		require.NoError(t, w.Write(t.Context(), page('c'), 50))
		require.NoError(t, w.Write(t.Context(), page('d'), 3*4096))
		assert.Equal(t, 3, g.underWay(), "pieces that overlap none go first: d, and the end of b")
		from, to, any := w.Pending()
		assert.True(t, any)
		assert.EqualValues(t, 0, from)
		assert.EqualValues(t, 4*4096, to)
		close(held)
		require.NoError(t, w.Sync(t.Context()))
		_, stable := g.content(f)
		var want image
		want.write(page('a'), 0)
		want.write(page('b'), 100)
		want.write(page('c'), 50)
		want.write(page('d'), 3*4096)
		assert.True(t, bytes.Equal(want, stable))
	})
}

// TestWriteBehindOverlapLost checks that data lost by the server are written
// again without undoing later writes, whether these are at the server, under
// way, or not sent yet.
func TestWriteBehindOverlapLost(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, g *rig, w *WriteBehind){
		"all at the server": func(t *testing.T, g *rig, w *WriteBehind) {
			require.NoError(t, w.Flush(t.Context()))
			g.mem.restart()
		},
		"later data are not sent": func(_ *testing.T, g *rig, _ *WriteBehind) { g.mem.restart() },
		"a later WRITE reports it": func(t *testing.T, g *rig, w *WriteBehind) {
			g.mem.restart()
			require.NoError(t, w.Flush(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, small, func(t *testing.T, g *rig) {
				f, w := g.behind(plenty)
				var want image
				for i, off := range []int{0, 4096, 8192} {
					p := page(byte('a' + i))
					want.write(p, off)
					require.NoError(t, w.Write(t.Context(), p, int64(off)))
				}
				require.NoError(t, w.Flush(t.Context()))
				for i, off := range []int{2000, 8192, 9000} {
					p := page(byte('A' + i))[:4000]
					want.write(p, off)
					require.NoError(t, w.Write(t.Context(), p, int64(off)))
				}
				between(t, g, w)
				require.NoError(t, w.Sync(t.Context()))
				_, stable := g.content(f)
				assert.True(t, bytes.Equal(want, stable))
			})
		})
	}
}

// TestWriteBehindLossNoticed checks that Flush does not return before data are
// back that a changed verifier shows as lost.
func TestWriteBehindLossNoticed(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *rig) {
		f, w := g.behind(plenty)
		require.NoError(t, w.Write(t.Context(), page('a'), 0))
		require.NoError(t, w.Flush(t.Context()))
		g.mem.restart()
		require.NoError(t, w.Write(t.Context(), page('b'), 4096))
		require.NoError(t, w.Flush(t.Context()))
		data, _ := g.content(f)
		assert.True(t, bytes.Equal(append(page('a'), page('b')...), data))
	})
}

// TestWriteBehindReplacedInCommit checks data that are replaced during their
// COMMIT.
func TestWriteBehindReplacedInCommit(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, small, func(t *testing.T, g *rig) {
			f, w := g.behind(plenty)
			held := g.gate(nfs3.ProcCommit)
			for off := range int64(4) { // half of the window
				require.NoError(t, w.Write(t.Context(), page('a'), off*4096))
			}
			assert.Equal(t, 1, g.underWay())
			require.NoError(t, w.Write(t.Context(), []byte("replaced"), 5000))
			require.NoError(t, w.Flush(t.Context()))
			if restart {
				g.mem.restart()
			}
			close(held)
			require.NoError(t, w.Sync(t.Context()))
			_, stable := g.content(f)
			want := image(bytes.Repeat([]byte("a"), 4*4096))
			want.write([]byte("replaced"), 5000)
			assert.True(t, bytes.Equal(want, stable), "restart: %v", restart)
		})
	}
}

// TestWriteBehindSyncedNotReplaced checks that a Write over data that a Sync
// waits for waits too. Otherwise neither would be on stable storage when Sync
// returns, and two writers could starve a Sync.
func TestWriteBehindSyncedNotReplaced(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *rig) {
		f, w := g.behind(plenty)
		held := g.gate(nfs3.ProcWrite)
		require.NoError(t, w.Write(t.Context(), page('a')[:100], 0))
		synced := later(func() error { return w.Sync(t.Context()) })
		assert.False(t, synced())
		wrote := later(func() error { return w.Write(t.Context(), []byte("b"), 50) })
		beside := later(func() error { return w.Write(t.Context(), []byte("c"), 100) })
		assert.False(t, wrote())
		assert.True(t, beside())
		held <- struct{}{}
		assert.True(t, synced())
		assert.True(t, wrote())
		_, stable := g.content(f)
		assert.Equal(t, page('a')[:100], stable)
		close(held)
		require.NoError(t, w.Sync(t.Context()))
	})
}

// TestWriteBehindAge checks that data get to stable storage after linger
// without a Sync, repeatedly.
func TestWriteBehindAge(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *rig) {
		f, w := g.behind(plenty)
		for _, line := range []string{"one", "two"} {
			old, _ := g.content(f)
			require.NoError(t, w.Write(t.Context(), []byte(line), int64(len(old))))
			data, _ := g.content(f)
			assert.Len(t, data, len(old), "more may follow")
			<-time.After(2 * linger)
			synctest.Wait()
			_, stable := g.content(f)
			assert.Equal(t, line, string(stable[len(old):]))
			assert.Zero(t, w.budget.used)
		}
	})
}

// TestWriteBehindRestarting checks that data get to stable storage in the end
// although the server restarts before each COMMIT.
func TestWriteBehindRestarting(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *rig) {
		f, w := g.behind(plenty)
		g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
			if x.Proc == nfs3.ProcCommit {
				g.mem.restart()
			}
			return nil, nil
		}
		data := sample(100 * 4096)
		require.NoError(t, w.Write(t.Context(), data, 0))
		require.NoError(t, w.Sync(t.Context()))
		_, stable := g.content(f)
		assert.True(t, bytes.Equal(data, stable))
	})
}
