package exportset

import (
	"context"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/stretchr/testify/require"
)

// fakeNoNames has names for no host.
type fakeNoNames struct{}

func (fakeNoNames) NamesOf(context.Context, netip.Addr) ([]string, error) { return nil, nil }
func (fakeNoNames) AddrsOf(context.Context, string) ([]netip.Addr, error) { return nil, nil }

// BenchmarkVerdict measures the cost of finding a call's client.
func BenchmarkVerdict(b *testing.B) {
	f, err := exports.Parse("x", []byte("/x *.example(ro,insecure) *(rw,insecure)"))
	require.NoError(b, err)
	s := newTestSet(b, new(fakeRootFS), func(c *Config) {
		c.Names = fakeNoNames{}
		c.Exports[0].Clients = f.Exports[0].Clients
	})
	peer, set := peerAt(1), s.Snapshot()
	for b.Loop() {
		s.accessFor(b.Context(), peer, set, set.list[0])
	}
}
