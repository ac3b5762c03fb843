package nfsclient

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestSyncStat checks that SyncStat returns the attributes from the reply to
// the last call about the file's data, and none if other calls were in progress
// or must follow.
func TestSyncStat(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f, w := g.newWriteBehind(plenty)
		write := func(pages ...int64) {
			for _, i := range pages {
				require.NoError(t, w.Write(t.Context(), filledPage('a'), i*4096))
			}
		}
		sync := func() nfs3.PostOpAttr {
			a, err := w.SyncStat(t.Context())
			require.NoError(t, err)
			return a
		}
		said := func(name string) {
			t.Helper()
			a := sync()
			want, err := f.Stat(t.Context())
			require.NoError(t, err)
			assert.Equal(t, nfs3.PostOpAttr{OK: true, Attr: want}, a, name)
			assert.False(t, sync().OK, "no call")
		}
		require.NoError(t, w.Write(t.Context(), []byte("x"), 5))
		said("a single WRITE")
		write(0, 1, 2, 5)
		said("a COMMIT")

		// A COMMIT in flight when Sync is called does not count as made by
		// Sync.
		held := g.blockProc(nfs3.ProcCommit)
		write(0, 1)
		first := startLater(func() error { _, err := w.SyncStat(t.Context()); return err })
		assert.False(t, first())
		second := make(chan nfs3.PostOpAttr, 1)
		go func() { second <- sync() }()
		g.callsInFlight()
		close(held)
		assert.False(t, (<-second).OK)
		assert.True(t, first())

		// Data lost by the server are sent after the COMMIT that shows the
		// loss.
		write(0, 1, 2)
		require.NoError(t, w.Flush(t.Context()))
		g.mem.loseUnstable()
		assert.False(t, sync().OK)
	})
}
