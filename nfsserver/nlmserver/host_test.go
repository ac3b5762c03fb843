package nlmserver

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestManyHosts: RNLM-ASYNC-1: datagrams with forged addresses make the server call a bounded
// number of hosts at once, and queue a bounded number of results for each. Waiting owners still get
// their locks.
func TestManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t, func(_ *nfs4state.Config, c *Config, _ *exportset.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error) {
				if m.Addr.As4()[0] == 10 { // no host has the address
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return dial(ctx, m, prog, vers)
			}
		})
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		c := g.newClient("192.0.2.3", "stranger")
		c.cred = rpcmsg.Cred{}
		for i := range 4 * maxHosts {
			c.peer.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 700)
			c.mustCall(nlm4.ProcGrantedMsg, &nlm4.TestArgs{Cookie: cookie, Lock: c.lock})
		}
		assert.Equal(t, maxHosts, g.hostCount())
		c.peer.Addr = netip.MustParseAddrPort("10.0.0.0:700")
		for range 2 * maxResultJobs {
			c.mustCall(nlm4.ProcGrantedMsg, &nlm4.TestArgs{Cookie: cookie, Lock: c.lock})
		}
		g.s.mu.Lock()
		assert.Len(t, g.s.hosts[hostKey{c.peer.Addr.Addr(), c.peer.Local.Addr()}].jobs, maxResultJobs)
		g.s.mu.Unlock()
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
		time.Sleep(time.Hour)
		assert.Zero(t, g.hostCount())
	})
}

// TestCallsInOrder: RNLM-ASYNC-1, RNLM-GRANTED-4: a host is called in the order in which the calls
// become due, so that results do not delay a repeated GRANTED.
func TestCallsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		h := g.hostAt("192.0.2.2")
		answers := make(chan struct{})
		var order []string
		h.answer = func(a *nlm4.TestArgs) (nlm4.Status, bool) {
			if a.Lock.Offset == 1 {
				<-answers
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			order = append(order, fmt.Sprintf("%d behind %d answers", a.Lock.Offset, len(h.results)))
			if len(order) == 1 {
				return nlm4.DeniedGrace, true
			}
			return nlm4.Granted, true
		}
		for i := range uint64(2) {
			require.Equal(t, nlm4.Granted, a.tryLock(true, i, 1))
			require.Equal(t, nlm4.Blocked, b.waitLock(true, i, 1))
		}
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		synctest.Wait()
		require.Equal(t, nlm4.Granted, a.unlockRange(1, 1))
		time.Sleep(2 * time.Second) // GRANTED is in flight, and the first one due again
		b.mustCall(nlm4.ProcTestMsg, &nlm4.TestArgs{Cookie: cookie, Lock: b.lockOf(50, 1)})
		close(answers)
		synctest.Wait()
		assert.Equal(t, []string{"0 behind 0 answers", "1 behind 0 answers", "0 behind 0 answers"}, order)
		assert.Len(t, h.results, 1)
	})
}
