package nfsserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/recall"
)

// TestTwoHolders checks that a change of an object that one client holds by a counter
// and another by a delegation of version 4 recalls both at once, and waits for both,
// whichever is returned first.
func TestTwoHolders(t *testing.T) {
	for _, last := range []string{"counter", "version 4"} {
		t.Run(last, func(t *testing.T) {
			withHolders := func(c *Config) {
				c.Holders = recall.New(recall.Config{Now: func() time.Duration { return time.Since(time.Unix(0, 0)) }})
			}
			withGrants(t, withHolders, func(t *testing.T, g *grantRig) {
				holder, other := g.play(), g.play()
				defer holder.leave()
				defer other.leave()
				holder.hold("f")
				holder.hush()
				key, err := g.s.realm.Set().List()[0].Keys.AppendKey(nil, g.hosts["f"])
				require.NoError(t, err)
				told := 0
				four := recall.Holder{Owner: 5, Recall: func() { told++ }}
				require.True(t, g.s.realm.Holders().Hold(&four, key))
				require.True(t, four.Confirm())

				done := other.begin(g.write("f"))
				assert.Equal(t, []string{"f"}, holder.recalls())
				assert.Equal(t, 1, told)
				returns := []func(){holder.answer, four.Return}
				if last == "counter" {
					returns = []func(){four.Return, holder.answer}
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
