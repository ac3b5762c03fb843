package lockserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
)

// TestNoCallsInClear checks that a client inside of TLS is not told in clear of the lock for which it
// waits, nor answered by a call: it asks again, and gets the lock then. A server that demands encryption
// calls nobody so.
func TestNoCallsInClear(t *testing.T) {
	for _, tt := range []struct {
		name     string
		security *oncrpc.Security
		only     bool
		called   bool
	}{{"in clear", nil, false, true}, {"by TLS", &oncrpc.Security{}, false, false}, {"with krb5p", nil, true, false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, func(_ *nfs4state.Config, c *Config, _ *realm.Config) { c.OnlyEncrypted = tt.only })
				a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
				b.peer.Security = tt.security
				h := g.host("192.0.2.2")
				require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
				require.Equal(t, nlm4.Denied, b.try(true, 0, 10))
				require.Equal(t, nlm4.Blocked, b.waits(true, 0, 10))
				require.Equal(t, nlm4.Blocked, b.waits(true, 0, 10))
				require.Equal(t, nlm4.Granted, a.unlock(0, 10))
				time.Sleep(time.Minute)
				assert.Equal(t, tt.called, len(h.grants()) == 1)
				require.Equal(t, nlm4.Granted, b.waits(true, 0, 10))
				require.Equal(t, nlm4.Granted, b.unlock(0, 10))
				b.raw(nlm4.Program, b.vers, nlm4.ProcTestMsg, (&nlm4.TestArgs{Cookie: cookie, Lock: b.over(0, 1)}).AppendTo(nil, b.vers))
				time.Sleep(time.Minute)
				synctest.Wait() // for what is not locked
				assert.Equal(t, tt.called, len(h.results) == 1)
				assert.Equal(t, tt.called, h.dialled() > 0)
				g.s.Close()
			})
		})
	}
}
