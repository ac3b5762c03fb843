package lockserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestWritten checks that locks, TEST and SHARE wait for a client of version 4 that has
// locks of the file in its cache.
func TestWritten(t *testing.T) {
	for name, call := range map[string]func(c *client) nlm4.Status{
		"exclusive lock": func(c *client) nlm4.Status { return c.try(true, 0, 1) },
		"shared lock":    func(c *client) nlm4.Status { return c.try(false, 0, 1) },
		"TEST": func(c *client) nlm4.Status {
			status, _ := c.test(false, 0, 1)
			return status
		},
		"SHARE": func(c *client) nlm4.Status { return c.share(nlm4.ProcShare, nlm4.Read, 0, false) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				g := newRig(t, func(_ *nfs4state.Config, _ *Config, r *realm.Config) {
					r.Holders = recall.New(recall.Config{Now: func() time.Duration { return time.Since(start) }})
				})
				e := g.realm.Set().List()[0]
				f, _, _, err := e.FS.Lookup(t.Context(), &vfs.Cred{}, e.FS.Root(), "f")
				require.NoError(t, err)
				key, err := e.Keys.AppendKey(nil, f)
				require.NoError(t, err)
				h := &recall.Holder{Owner: 7, Mild: true, Writer: "client"}
				h.Recall = func() { time.AfterFunc(300*time.Millisecond, h.Return) }
				require.True(t, g.realm.Holders().Hold(h, key))
				require.True(t, h.Confirm())
				before := time.Now()
				assert.Equal(t, nlm4.Granted, call(g.client("192.0.2.1", "a")))
				assert.Equal(t, 300*time.Millisecond, time.Since(before))
				g.s.Close()
			})
		})
	}
}
