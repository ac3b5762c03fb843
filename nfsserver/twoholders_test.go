package nfsserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
)

// TestTwoHolders checks that a change to an object that one client holds with a counter and
// another with an NFSv4 delegation recalls both at once, and waits for both, whichever is
// returned first.
func TestTwoHolders(t *testing.T) {
	for _, last := range []string{"counter", "version 4"} {
		t.Run(last, func(t *testing.T) {
			runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
				holder, other := g.connectClient(), g.connectClient()
				defer holder.disconnect()
				defer other.disconnect()
				holder.acquireAll("f")
				holder.stopReturning()
				key, err := g.s.exports.Snapshot().List()[0].Keys.AppendKey(nil, g.hosts["f"])
				require.NoError(t, err)
				told := 0
				four := recall.Holder{Owner: 5, Recall: func(recall.Changer) { told++ }}
				require.True(t, g.s.exports.Holders().Hold(&four, key))
				require.True(t, four.Confirm())

				done := other.startCall(g.writeCall("f"))
				assert.Equal(t, []string{"f"}, holder.takeRecalls())
				assert.Equal(t, 1, told)
				returns := []func(){holder.returnPending, four.Return}
				if last == "counter" {
					returns = []func(){four.Return, holder.returnPending}
				}
				for _, give := range returns {
					synctest.Wait()
					assert.Empty(t, done, "one of them still holds the file")
					give()
				}
				synctest.Wait()
				require.Len(t, done, 1)
				assert.Equal(t, nfs3.OK, <-done)
			})
		})
	}
}

// TestTwoHoldersLate checks that a change waits for both kinds of holders together no longer than
// for one of them, and is then to be tried again.
func TestTwoHoldersLate(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		holder, other := g.connectClient(), g.connectClient()
		defer holder.disconnect()
		defer other.disconnect()
		holder.acquireAll("f")
		holder.stopReturning()
		key, err := g.s.exports.Snapshot().List()[0].Keys.AppendKey(nil, g.hosts["f"])
		require.NoError(t, err)
		four := recall.Holder{Owner: 5}
		four.Recall = func(recall.Changer) { time.AfterFunc(recall.MaxWait*3/4, four.Return) }
		require.True(t, g.s.exports.Holders().Hold(&four, key))
		require.True(t, four.Confirm())

		start := time.Now()
		assert.Equal(t, nfs3.ErrJukebox, other.callNFS(g.writeCall("f")))
		assert.Equal(t, recall.MaxWait, time.Since(start))
		assert.Equal(t, []string{"f"}, holder.takeRecalls())
		holder.returnPending()
		assert.Equal(t, nfs3.OK, other.callNFS(g.writeCall("f")))
		assert.Equal(t, recall.MaxWait, time.Since(start))
	})
}
