package realm

import (
	"context"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/stretchr/testify/require"
)

// nobody has names for no host.
type nobody struct{}

func (nobody) NamesOf(context.Context, netip.Addr) ([]string, error) { return nil, nil }
func (nobody) AddrsOf(context.Context, string) ([]netip.Addr, error) { return nil, nil }

// BenchmarkVerdict measures the cost of finding a call's client.
func BenchmarkVerdict(b *testing.B) {
	f, err := exports.Parse("x", []byte("/x *.example(ro,insecure) *(rw,insecure)"))
	require.NoError(b, err)
	s := newRealm(b, new(rootFS), func(c *Config) {
		c.Names = nobody{}
		c.Exports[0].Clients = f.Exports[0].Clients
	})
	peer, set := peerOf(1), s.Set()
	for b.Loop() {
		s.verdict(b.Context(), peer, set, set.list[0])
	}
}
