package realm

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
)

// TestClients checks the access of peers by address and port. A client given by
// address precedes one given by network, for any order of the clients.
func TestClients(t *testing.T) {
	e := newExport(&Export{Path: "/x", FS: new(rootFS), Clients: slices.Concat(
		hosts(exports.Options{ReadOnly: true, Insecure: true}, "10.1.0.0/16", "fe80::/10", "2001:db8::7/128"),
		hosts(exports.Options{}, "10.1.9.9/32"),
	)}, 0)
	s := new(Realm)
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
		v := s.decide(t.Context(), &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: "tcp"}, e)
		o, got := v.of(rpcmsg.AuthSys)
		if got == nil && o.ReadOnly {
			got = ReadOnly
		}
		assert.Equal(t, want, got, addr)
	}
	rdma := &oncrpc.Peer{Addr: netip.MustParseAddrPort("10.1.9.9:50000"), Network: "rdma"}
	assert.NoError(t, s.decide(t.Context(), rdma, e).denial, "ports mean nothing over RDMA")
	assert.Equal(t, Access, s.decide(t.Context(), nil, e).denial)
	assert.NoError(t, s.decide(t.Context(), nil, newExport(&Export{Path: "/x", FS: new(rootFS)}, 0)).denial, "everyone")
}
