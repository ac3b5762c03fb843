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

// inBubble runs test with a test server in virtual time, which detects
// deadlocks.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, g *testServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newTestServer(t, cfg, true)) })
}

// A procGate blocks calls to a procedure until it is opened.
type procGate chan struct{}

func (g *testServer) blockProc(proc uint32) procGate {
	held := make(procGate)
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

// startLater runs do in the background. The function returned reports whether do has
// returned, once all goroutines are blocked.
func startLater(do func() error) (returned func() bool) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() bool {
		synctest.Wait()
		return len(done) > 0
	}
}

// callsInFlight returns the number of calls in flight once all goroutines are
// blocked.
func (g *testServer) callsInFlight() int {
	synctest.Wait()
	g.fakeConn.mu.Lock()
	defer g.fakeConn.mu.Unlock()
	return g.inFlight
}

func filledPage(b byte) []byte { return bytes.Repeat([]byte{b}, 4096) }

// TestWriteBehindOverlapWaits checks that data are not sent before overlapping
// older data have arrived: the server may execute two WRITEs in either order.
func TestWriteBehindOverlapWaits(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		held := g.blockProc(nfs3.ProcWrite)
		require.NoError(t, w.Write(t.Context(), filledPage('a'), 0))
		assert.Equal(t, 1, g.callsInFlight())
		require.NoError(t, w.Write(t.Context(), filledPage('b'), 100))
		require.NoError(t, w.Write(t.Context(), filledPage('c'), 50))
		require.NoError(t, w.Write(t.Context(), filledPage('d'), 3*4096))
		assert.Equal(t, 3, g.callsInFlight(), "pieces that overlap none go first: d, and the end of b")
		from, to, any := w.Pending()
		assert.True(t, any)
		assert.EqualValues(t, 0, from)
		assert.EqualValues(t, 4*4096, to)
		close(held)
		require.NoError(t, w.Sync(t.Context()))
		_, stable := g.fileContent(f)
		var want fileImage
		want.writeAt(filledPage('a'), 0)
		want.writeAt(filledPage('b'), 100)
		want.writeAt(filledPage('c'), 50)
		want.writeAt(filledPage('d'), 3*4096)
		assert.True(t, bytes.Equal(want, stable))
	})
}

// TestWriteBehindOverlapLost checks that data lost by the server are written
// again without undoing later writes, whether these are at the server, in
// progress, or not sent yet.
func TestWriteBehindOverlapLost(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, g *testServer, w *WriteBehind){
		"all at the server": func(t *testing.T, g *testServer, w *WriteBehind) {
			require.NoError(t, w.Flush(t.Context()))
			g.mem.loseUnstable()
		},
		"later data are not sent": func(_ *testing.T, g *testServer, _ *WriteBehind) { g.mem.loseUnstable() },
		"a later WRITE reports it": func(t *testing.T, g *testServer, w *WriteBehind) {
			g.mem.loseUnstable()
			require.NoError(t, w.Flush(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, small, func(t *testing.T, g *testServer) {
				f, w := g.newWriteBehind(plenty)
				var want fileImage
				for i, off := range []int{0, 4096, 8192} {
					p := filledPage(byte('a' + i))
					want.writeAt(p, off)
					require.NoError(t, w.Write(t.Context(), p, int64(off)))
				}
				require.NoError(t, w.Flush(t.Context()))
				for i, off := range []int{2000, 8192, 9000} {
					p := filledPage(byte('A' + i))[:4000]
					want.writeAt(p, off)
					require.NoError(t, w.Write(t.Context(), p, int64(off)))
				}
				between(t, g, w)
				require.NoError(t, w.Sync(t.Context()))
				_, stable := g.fileContent(f)
				assert.True(t, bytes.Equal(want, stable))
			})
		})
	}
}

// TestWriteBehindLossNoticed checks that Flush does not return before data are
// back that a changed verifier shows as lost.
func TestWriteBehindLossNoticed(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		require.NoError(t, w.Write(t.Context(), filledPage('a'), 0))
		require.NoError(t, w.Flush(t.Context()))
		g.mem.loseUnstable()
		require.NoError(t, w.Write(t.Context(), filledPage('b'), 4096))
		require.NoError(t, w.Flush(t.Context()))
		data, _ := g.fileContent(f)
		assert.True(t, bytes.Equal(append(filledPage('a'), filledPage('b')...), data))
	})
}

// TestWriteBehindReplacedInCommit checks data that are replaced during their
// COMMIT.
func TestWriteBehindReplacedInCommit(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, small, func(t *testing.T, g *testServer) {
			f, w := g.newWriteBehind(plenty)
			held := g.blockProc(nfs3.ProcCommit)
			for off := range int64(4) { // half the window
				require.NoError(t, w.Write(t.Context(), filledPage('a'), off*4096))
			}
			assert.Equal(t, 1, g.callsInFlight())
			require.NoError(t, w.Write(t.Context(), []byte("replaced"), 5000))
			require.NoError(t, w.Flush(t.Context()))
			if restart {
				g.mem.loseUnstable()
			}
			close(held)
			require.NoError(t, w.Sync(t.Context()))
			_, stable := g.fileContent(f)
			want := fileImage(bytes.Repeat([]byte("a"), 4*4096))
			want.writeAt([]byte("replaced"), 5000)
			assert.True(t, bytes.Equal(want, stable), "restart: %v", restart)
		})
	}
}

// TestWriteBehindSyncedNotReplaced checks that a Write over data that a Sync
// waits for waits too. Otherwise neither would be on stable storage when Sync
// returns, and two writers could starve a Sync.
func TestWriteBehindSyncedNotReplaced(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		held := g.blockProc(nfs3.ProcWrite)
		require.NoError(t, w.Write(t.Context(), filledPage('a')[:100], 0))
		synced := startLater(func() error { return w.Sync(t.Context()) })
		assert.False(t, synced())
		wrote := startLater(func() error { return w.Write(t.Context(), []byte("b"), 50) })
		beside := startLater(func() error { return w.Write(t.Context(), []byte("c"), 100) })
		assert.False(t, wrote())
		assert.True(t, beside())
		held <- struct{}{}
		assert.True(t, synced())
		assert.True(t, wrote())
		_, stable := g.fileContent(f)
		assert.Equal(t, filledPage('a')[:100], stable)
		close(held)
		require.NoError(t, w.Sync(t.Context()))
	})
}

// TestWriteBehindAge checks that data get to stable storage after linger
// without a Sync, repeatedly.
func TestWriteBehindAge(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		for _, line := range []string{"one", "two"} {
			old, _ := g.fileContent(f)
			require.NoError(t, w.Write(t.Context(), []byte(line), int64(len(old))))
			data, _ := g.fileContent(f)
			assert.Len(t, data, len(old), "more may follow")
			<-time.After(2 * linger)
			synctest.Wait()
			_, stable := g.fileContent(f)
			assert.Equal(t, line, string(stable[len(old):]))
			assert.Zero(t, w.budget.used)
		}
	})
}

// TestWriteBehindRestarting checks that data get to stable storage in the end
// although the server restarts before each COMMIT.
func TestWriteBehindRestarting(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
			if x.Proc == nfs3.ProcCommit {
				g.mem.loseUnstable()
			}
			return nil, nil
		}
		data := sampleData(100 * 4096)
		require.NoError(t, w.Write(t.Context(), data, 0))
		require.NoError(t, w.Sync(t.Context()))
		_, stable := g.fileContent(f)
		assert.True(t, bytes.Equal(data, stable))
	})
}
