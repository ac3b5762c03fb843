package nfsclient

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newWriteBehind returns a WriteBehind for a new file, with its own budget.
func (g *testServer) newWriteBehind(size int64) (*File, *WriteBehind) {
	f := g.putFile("f", nil)
	w := f.WriteBehind(NewBudget(size), g.lost.addFailure)
	g.t.(*testing.T).Cleanup(w.Close) // before the test server counts buffers
	return f, w
}

const plenty = 1 << 30

// A fileImage is a file's expected content.
type fileImage []byte

func (m *fileImage) writeAt(p []byte, off int) { *m = putAt(*m, p, off) }

// TestWriteBehind checks overlapping writes of all sizes, with servers that
// accept little at a time and restart at any moment. In the end, the last write
// counts.
func TestWriteBehind(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			g := newTestServer(t, small, seed%2 == 0)
			f, w := g.newWriteBehind([]int64{plenty, 9 * 4096, 100}[seed%3])
			at := make(map[int]bool)
			for range seed % 4 * 5 {
				at[random.IntN(150)] = true
			}
			if seed%5 == 0 {
				g.limitWrites(1000)
			}
			short, calls := g.before, 0
			g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
				if short != nil {
					_, _ = short(ctx, x)
				}
				g.fakeConn.mu.Lock()
				defer g.fakeConn.mu.Unlock()
				if calls++; at[calls] {
					g.mem.loseUnstable()
				}
				return nil, nil
			}
			var want fileImage
			data := sampleData(100000)
			at2 := 0
			for i := range 300 {
				n := []int{1, 100, 4096, 3000, 9000}[random.IntN(5)]
				if random.IntN(2) == 0 {
					at2 = random.IntN(60000)
				}
				p := bytes.Clone(data[i*37 : i*37+n])
				want.writeAt(p, at2)
				require.NoError(t, w.Write(t.Context(), p, int64(at2)))
				clear(p) // p is the caller's again
				at2 += n
				if random.IntN(60) == 0 {
					require.NoError(t, w.Sync(t.Context()))
					_, stable := g.fileContent(f)
					require.True(t, bytes.Equal(want, stable), "after Sync")
				}
			}
			require.NoError(t, w.Sync(t.Context()))
			_, _, pending := w.Pending()
			assert.False(t, pending)
			_, stable := g.fileContent(f)
			assert.True(t, bytes.Equal(want, stable))
			assert.LessOrEqual(t, g.maxInFlight, small.Depth+1, "and a COMMIT")
		})
	}
}

func TestWriteBehindBadOffset(t *testing.T) {
	_, w := newTestServer(t, small, true).newWriteBehind(plenty)
	assert.ErrorIs(t, w.Write(t.Context(), []byte("x"), -1), syscall.EINVAL)
	assert.ErrorIs(t, w.Write(t.Context(), []byte("x"), math.MaxInt64), syscall.EFBIG)
	assert.NoError(t, w.Write(t.Context(), nil, math.MaxInt64))
	assert.NoError(t, w.Sync(t.Context()))
}

// TestWriteBehindCalls checks that adjacent writes are one WRITE, and that a
// single WRITE needs no COMMIT.
func TestWriteBehindCalls(t *testing.T) {
	for _, tt := range []struct {
		name            string
		size, n         int
		writes, commits int
	}{
		{"nothing", 1, 0, 0, 0},
		{"a byte", 1, 1, 1, 0},
		{"lines", 80, 50, 1, 0},
		{"a full piece, sent at once", 4096, 1, 1, 1},
		{"pages of many lines", 64, 640, 10, 1},
		{"long", 4096 * 3, 1, 3, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newTestServer(t, Config{WriteSize: 4096, Depth: 4}, true)
			_, w := g.newWriteBehind(plenty)
			for i := range tt.n {
				require.NoError(t, w.Write(t.Context(), make([]byte, tt.size), int64(i*tt.size)))
			}
			require.NoError(t, w.Sync(t.Context()))
			require.NoError(t, w.Sync(t.Context()))
			assert.Equal(t, tt.writes, g.callCount(nfs3.ProcWrite))
			assert.Equal(t, tt.commits, g.callCount(nfs3.ProcCommit))
		})
	}
}

// TestAs checks that calls carry the given credential, even if the caller
// reuses its slice, and that the original Client keeps its own.
func TestAs(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	var names []uint32
	g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		names = append(names, x.Cred.UID, x.Cred.GID)
		names = append(names, x.Cred.GIDs...)
		return nil, nil
	}
	gids := []uint32{7, 8}
	c := g.c.As(rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 5, GID: 6, GIDs: gids})
	h := f.As(rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 50, GID: 60, GIDs: gids})
	gids[0] = 9
	_, err := c.GetAttr(t.Context(), f.Handle())
	require.NoError(t, err)
	_, err = h.Stat(t.Context())
	require.NoError(t, err)
	_, err = h.WriteAt(t.Context(), []byte("x"), 0)
	require.NoError(t, err)
	_, err = f.Stat(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []uint32{5, 6, 7, 8, 50, 60, 7, 8, 50, 60, 7, 8, 1000, 100}, names)
	assert.Equal(t, f.Handle(), h.Handle())
}
