package nfsclient

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestLot checks that the commitWindow grows to its limit while COMMITs are
// slow, and shrinks again afterwards.
func TestLot(t *testing.T) {
	const most = 6 * minCommitWindow
	l := commitWindow{bytes: minCommitWindow}
	l.recordWrite(time.Millisecond)
	for _, tt := range []struct {
		took time.Duration
		want int64
	}{
		{slowCommit * time.Millisecond, minCommitWindow},
		{slowCommit*time.Millisecond + 1, 2 * minCommitWindow},
		{time.Second, 4 * minCommitWindow},
		{time.Second, most},
		{time.Second, most},
		{time.Millisecond, most / 2},
		{0, most / 4},
		{0, minCommitWindow},
	} {
		l.recordCommit(tt.took, most)
		assert.Equal(t, tt.want, l.bytes)
	}
	l.recordCommit(0, 100)
	assert.EqualValues(t, minCommitWindow/2, l.bytes)
}

// TestLots checks that COMMITs are regular, and rarer if the server takes long
// for them.
func TestLots(t *testing.T) {
	for name, tt := range map[string]struct {
		commit  time.Duration
		commits int
	}{
		"in memory":             {0, 16},
		"with a disk":           {100 * time.Millisecond, 2}, // all data arrive during the first COMMIT
		"as slow as four":       {4 * time.Millisecond, 16},
		"as slow as six WRITEs": {6 * time.Millisecond, 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Depth: 1}, func(t *testing.T, g *testServer) {
				_, w := g.newWriteBehind(plenty)
				g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
					switch x.Proc {
					case nfs3.ProcWrite:
						time.Sleep(time.Millisecond)
					case nfs3.ProcCommit:
						time.Sleep(tt.commit)
					}
					return nil, nil
				}
				p := make([]byte, defaultTransfer)
				for i := range int64(64) {
					require.NoError(t, w.Write(t.Context(), p, i*int64(len(p))))
				}
				require.NoError(t, w.Sync(t.Context()))
				assert.Equal(t, tt.commits, g.callCount(nfs3.ProcCommit))
			})
		})
	}
}

// TestBacklog checks that a writer faster than the server waits before the data
// fill all memory.
func TestBacklog(t *testing.T) {
	inBubble(t, Config{Depth: 2}, func(t *testing.T, g *testServer) {
		_, w := g.newWriteBehind(plenty)
		held := g.blockProc(nfs3.ProcWrite)
		p := make([]byte, defaultTransfer)
		const capacity = 2 + maxBacklog/defaultTransfer // in progress, and waiting
		for i := range int64(capacity) {
			require.NoError(t, w.Write(t.Context(), p, i*int64(len(p))))
		}
		next := startLater(func() error { return w.Write(t.Context(), p, capacity*int64(len(p))) })
		assert.False(t, next())
		close(held)
		assert.True(t, next())
		require.NoError(t, w.Sync(t.Context()))
		assert.Zero(t, w.queuedBytes)
	})
}

// BenchmarkWriteBehind writes a file sequentially, with a server that does
// nothing. It measures the overhead, and the use of memory.
func BenchmarkWriteBehind(b *testing.B) {
	for name, size := range map[string]int{"1MiB": 1 << 20, "4KiB": 4 << 10} {
		b.Run(name, func(b *testing.B) {
			g := newTestServer(b, Config{}, true)
			f := g.putFile("f", nil)
			commit := (&nfs3.CommitRes{}).AppendTo(nil)
			g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
				if x.Proc == nfs3.ProcCommit {
					return commit, nil
				}
				res := nfs3.WriteRes{Count: uint32(len(x.Item))}
				return res.AppendTo(nil), nil
			}
			w := f.WriteBehind(NewBudget(plenty), g.lost.addFailure)
			defer w.Close()
			p := sampleData(size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			off := int64(0)
			for b.Loop() {
				if err := w.Write(b.Context(), p, off); err != nil {
					b.Fatal(err)
				}
				off = (off + int64(size)) % (256 << 20)
			}
			require.NoError(b, w.Sync(b.Context()))
		})
	}
}
