package nlmserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestWritten checks that locks, TEST and SHARE wait for an NFSv4 client that has locks
// of the file in its cache.
func TestWritten(t *testing.T) {
	for name, call := range map[string]func(c *testClient) nlm4.Status{
		"exclusive lock": func(c *testClient) nlm4.Status { return c.tryLock(true, 0, 1) },
		"shared lock":    func(c *testClient) nlm4.Status { return c.tryLock(false, 0, 1) },
		"TEST": func(c *testClient) nlm4.Status {
			status, _ := c.testLock(false, 0, 1)
			return status
		},
		"SHARE": func(c *testClient) nlm4.Status { return c.shareFile(nlm4.ProcShare, nlm4.Read, 0, false) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, r *exportset.Config) {
					r.Holders = recall.New(recall.Config{Now: func() time.Duration { return time.Since(start) }})
				})
				e := g.realm.Snapshot().List()[0]
				f, _, _, err := e.FS.Lookup(t.Context(), &vfs.Cred{}, e.FS.Root(), "f")
				require.NoError(t, err)
				key, err := e.Keys.AppendKey(nil, f)
				require.NoError(t, err)
				h := &recall.Holder{Owner: 7, IgnoreOwner: true, Writer: "client"}
				h.Recall = func(recall.Changer) { time.AfterFunc(300*time.Millisecond, h.Return) }
				require.True(t, g.realm.Holders().Hold(h, key))
				require.True(t, h.Confirm())
				before := time.Now()
				assert.Equal(t, nlm4.Granted, call(g.newClient("192.0.2.1", "a")))
				assert.Equal(t, 300*time.Millisecond, time.Since(before))
				g.s.Close()
			})
		})
	}
}
