package exportset

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
)

// TestClients checks peers' access by address and port. A client given by address precedes one
// given by network, for any client order.
func TestClients(t *testing.T) {
	e := newExport(&Export{Path: "/x", FS: new(fakeRootFS), Clients: slices.Concat(
		clientsOf(exports.Options{ReadOnly: true, Insecure: true}, "10.1.0.0/16", "fe80::/10", "2001:db8::7/128"),
		clientsOf(exports.Options{}, "10.1.9.9/32"),
	)}, 0)
	s := new(Set)
	for addr, want := range map[string]error{
		"10.1.2.3:7000":            ReadOnly,
		"10.1.9.9:1023":            nil,
		"10.1.9.9:1024":            Perm,
		"10.2.2.3:700":             Access,
		"[::ffff:10.1.2.3]:700":    ReadOnly, // as from a socket for both families
		"[fe80::1%eth0]:700":       ReadOnly,
		"[2001:db8::7]:20049":      ReadOnly,
		"[2001:db8::8]:20049":      Access,
		"[::ffff:192.0.2.1]:2049":  Access,
		"[::ffff:10.1.9.9]:1024":   Perm,
		"[::ffff:10.1.9.9%a]:1023": nil,
	} {
		v := s.resolveAccess(t.Context(), &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: "tcp"}, e)
		o, got := v.forFlavor(rpcmsg.AuthSys)
		if got == nil && o.ReadOnly {
			got = ReadOnly
		}
		assert.Equal(t, want, got, addr)
	}
	rdma := &oncrpc.Peer{Addr: netip.MustParseAddrPort("10.1.9.9:50000"), Network: "rdma"}
	assert.NoError(t, s.resolveAccess(t.Context(), rdma, e).denial, "ports mean nothing over RDMA")
	assert.Equal(t, Access, s.resolveAccess(t.Context(), nil, e).denial)
	assert.NoError(t, s.resolveAccess(t.Context(), nil, newExport(&Export{Path: "/x", FS: new(fakeRootFS)}, 0)).denial, "everyone")
}
