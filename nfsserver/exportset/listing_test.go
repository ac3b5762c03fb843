package exportset

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// fakeSlowNames is a name service that returns no reply before its end.
type fakeSlowNames struct{ asked atomic.Int32 }

func (n *fakeSlowNames) NamesOf(ctx context.Context, _ netip.Addr) ([]string, error) {
	n.asked.Add(1)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (n *fakeSlowNames) AddrsOf(ctx context.Context, _ string) ([]netip.Addr, error) {
	return nil, nil
}

// Datagrams, whose senders can have any address, take few name lookups: these are left to
// clients that connect. Datagrams from hosts that an address lists need none.
func TestListedByDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := new(fakeSlowNames)
		e := Export{Path: "/x", FS: &fakeRootFS{}}
		for _, h := range []string{"*.example", "192.0.2.1"} {
			host, err := exports.ParseHost(h)
			require.NoError(t, err)
			e.Clients = append(e.Clients, exports.Client{Host: host})
		}
		s, err := New(Config{Exports: []Export{e}, Names: names})
		require.NoError(t, err)
		listed := func(network, addr string) error {
			return s.CheckListed(t.Context(), &oncrpc.Peer{Network: network, Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 700)})
		}
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() { assert.Equal(t, Later, listed("udp", "198.51.100.66")) })
		}
		synctest.Wait()
		assert.EqualValues(t, maxPacketLookups, names.asked.Load())
		assert.NoError(t, listed("udp", "192.0.2.1"))
		calls.Go(func() { assert.Equal(t, Later, listed("tcp", "198.51.100.67")) })
		synctest.Wait()
		assert.EqualValues(t, maxPacketLookups+1, names.asked.Load())
		calls.Wait()
		assert.Equal(t, Later, listed("udp", "198.51.100.66"))
		assert.EqualValues(t, maxPacketLookups+2, names.asked.Load(), "the places are free again")
	})
}
