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
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestNoCallsInClear checks that the server does not call a client that uses TLS over an
// unencrypted connection, neither about the lock for which it waits nor with results: the client
// polls, and then gets the lock. A server that requires encryption calls no client that way.
func TestNoCallsInClear(t *testing.T) {
	for _, tt := range []struct {
		name     string
		security *oncrpc.Security
		only     bool
		called   bool
	}{{"in clear", nil, false, true}, {"by TLS", &oncrpc.Security{}, false, false}, {"with krb5p", nil, true, false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestServer(t, func(_ *nfs4state.Config, c *Config, _ *exportset.Config) { c.OnlyEncrypted = tt.only })
				a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
				b.peer.Security = tt.security
				h := g.hostAt("192.0.2.2")
				require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
				require.Equal(t, nlm4.Denied, b.tryLock(true, 0, 10))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 10))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 10))
				require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
				time.Sleep(time.Minute)
				assert.Equal(t, tt.called, len(h.takeGranted()) == 1)
				require.Equal(t, nlm4.Granted, b.waitLock(true, 0, 10))
				require.Equal(t, nlm4.Granted, b.unlockRange(0, 10))
				b.callRaw(nlm4.Program, b.vers, nlm4.ProcTestMsg, (&nlm4.TestArgs{Cookie: cookie, Lock: b.lockOf(0, 1)}).AppendTo(nil, b.vers))
				time.Sleep(time.Minute)
				synctest.Wait() // for what is not locked
				assert.Equal(t, tt.called, len(h.results) == 1)
				assert.Equal(t, tt.called, h.dialCount() > 0)
				g.s.Close()
			})
		})
	}
}
