package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestBudgetTurns checks that memory is granted in order of arrival, so that
// small claims cannot starve a large claim, and that a withdrawn claim passes
// its turn on.
func TestBudgetTurns(t *testing.T) {
	inBubble(t, small, func(t *testing.T, _ *testServer) {
		b := NewBudget(10)
		assert.True(t, b.tryAcquireBytes(50), "a single block always fits")
		assert.False(t, b.tryAcquireBytes(1))
		b.releaseBytes(50)
		require.NoError(t, b.acquireBytes(t.Context(), 8))
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		large := startLater(func() error { return b.acquireBytes(ctx, 9) })
		assert.False(t, large())
		second := startLater(func() error { return b.acquireBytes(t.Context(), 2) })
		assert.False(t, second(), "it would fit, but another claim is first")
		assert.True(t, b.hasWaiters())
		assert.True(t, b.isHalfUsed())
		cancel(why)
		assert.True(t, large())
		assert.True(t, second())
		assert.EqualValues(t, 10, b.used)

		third := startLater(func() error { return b.acquireBytes(t.Context(), 3) })
		assert.False(t, third())
		b.releaseBytes(8)
		assert.True(t, third())
		assert.EqualValues(t, 5, b.used)
		assert.False(t, b.hasWaiters())

		last := startLater(func() error { return b.acquireBytes(t.Context(), 6) })
		assert.False(t, last())
		b.cancelClaim(&memoryClaim{bytes: 5}) // withdrawn just after it was granted
		assert.True(t, last())
		assert.EqualValues(t, 6, b.used)
	})
}

// TestBudgetHalf checks that a COMMIT frees memory before a writer waits for
// it.
func TestBudgetHalf(t *testing.T) {
	inBubble(t, Config{WriteSize: 4096, Depth: 4}, func(t *testing.T, g *testServer) {
		_, w := g.newWriteBehind(8 * 4096)
		require.True(t, w.budget.tryAcquireBytes(3*4096)) // memory for another file
		require.NoError(t, w.Write(t.Context(), filledPage('a'), 0))
		assert.Zero(t, g.callsInFlight())
		assert.Equal(t, 1, g.callCount(nfs3.ProcCommit))
		assert.EqualValues(t, 3*4096, w.budget.used)
	})
}

// TestBudgetOthersMakeRoom checks that a writer gets memory although the other
// files are not synced.
func TestBudgetOthersMakeRoom(t *testing.T) {
	for name, size := range map[string]int{"full pieces": 4 * 4096, "a growing piece": 4096 + 3000} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, small, func(t *testing.T, g *testServer) {
				budget := NewBudget(2 * 4096)
				var all []*WriteBehind
				for i := range 3 {
					w := g.putFile(fmt.Sprint(i), nil).WriteBehind(budget, g.lost.addFailure)
					defer w.Close()
					all = append(all, w)
					require.NoError(t, w.Write(t.Context(), sampleData(size), 0))
				}
				for _, w := range all {
					require.NoError(t, w.Sync(t.Context()))
					_, stable := g.fileContent(w.file)
					assert.Equal(t, sampleData(size), stable)
				}
				assert.Zero(t, budget.used)
			})
		})
	}
}

// TestWriteBehindMemory checks that the lent bytes stay within the budget, are
// about as many as the written bytes for scattered short writes, and are given
// back.
func TestWriteBehindMemory(t *testing.T) {
	g := newTestServer(t, Config{WriteSize: 64 << 10, Depth: 4, Window: 1 << 20}, true)
	budget := NewBudget(512 << 10)
	most := int64(0)
	g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
		budget.mu.Lock()
		defer budget.mu.Unlock()
		most = max(most, budget.used)
		return nil, nil
	}
	var wg sync.WaitGroup
	for i := range 4 {
		w := g.putFile(fmt.Sprint(i), nil).WriteBehind(budget, g.lost.addFailure)
		defer w.Close()
		wg.Go(func() {
			for j := range int64(500) {
				off := j * 700
				if j%3 == 0 {
					off = j * 7919 % (1 << 20)
				}
				assert.NoError(t, w.Write(t.Context(), make([]byte, 700), off))
			}
			assert.NoError(t, w.Sync(t.Context()))
		})
	}
	wg.Wait()
	assert.Zero(t, budget.used)
	assert.LessOrEqual(t, most, budget.limit)

	w := g.putFile("random", nil).WriteBehind(budget, g.lost.addFailure)
	defer w.Close()
	held := g.blockProc(nfs3.ProcWrite)
	for i := range int64(20) {
		require.NoError(t, w.Write(t.Context(), make([]byte, 4096), i*100000))
	}
	assert.EqualValues(t, 20*4096, budget.used)
	close(held)
	require.NoError(t, w.Sync(t.Context()))

	require.NoError(t, w.Write(t.Context(), make([]byte, 64<<10), 0))
	require.NoError(t, w.Sync(t.Context()))
	require.NoError(t, w.Write(t.Context(), make([]byte, 10), 64<<10)) // looks like the start of a long write,
	assert.EqualValues(t, 64<<10, budget.used)
	g.blockProc(nfs3.ProcWrite)
	require.NoError(t, w.Write(t.Context(), make([]byte, 10), 0)) // but is not
	assert.EqualValues(t, 2*4096, budget.used)
}

// TestWriteBehindManyFiles checks many writers with little memory, and a server
// that fails now and then and restarts repeatedly.
func TestWriteBehindManyFiles(t *testing.T) {
	g := newTestServer(t, small, true)
	budget := NewBudget(20 * 4096)
	var mu sync.Mutex
	calls := 0
	const files = 8
	var all [files]*WriteBehind
	for i := range all {
		all[i] = g.putFile(fmt.Sprint(i), nil).WriteBehind(budget, g.lost.addFailure)
		defer all[i].Close()
	}
	bad := all[0].file.Handle()
	g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%40 == 0 {
			g.mem.loseUnstable()
		}
		if x.Proc == nfs3.ProcWrite && string(x.Args[4:4+len(bad)]) == string(bad) {
			return failingCaller(nfs3.ProcWrite, nfs3.ErrNoSpc), nil
		}
		return nil, nil
	}
	data := sampleData(40*4096 + 5)
	var wg sync.WaitGroup
	for i, w := range all {
		wg.Go(func() {
			for off := 0; off < len(data); off += 1000 {
				assert.NoError(t, w.Write(t.Context(), data[off:min(len(data), off+1000)], int64(off)))
			}
			assert.NoError(t, w.Sync(t.Context()))
			if i == 0 {
				return
			}
			_, stable := g.fileContent(w.file)
			assert.Equal(t, data, stable)
		})
	}
	wg.Wait()
	assert.Zero(t, budget.used)
	lost := g.lost.takeAll()
	assert.NotEmpty(t, lost)
	for _, err := range lost {
		assert.ErrorIs(t, err, nfs3.ErrNoSpc, "the others lose no data")
	}
}
