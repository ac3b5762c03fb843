package rpcbind

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// Netids (RFC 5665, Section 5.1.1, Table 2; for RDMA, RFC 8166, Section 9).
const (
	NetidTCP   = "tcp"
	NetidTCP6  = "tcp6"
	NetidUDP   = "udp"
	NetidUDP6  = "udp6"
	NetidRDMA  = "rdma"
	NetidRDMA6 = "rdma6"
)

// Transport semantics (r_nc_semantics, RFC 1833, Section 2.1).
const (
	semanticsCLTS    uint32 = 1 // connectionless
	semanticsCOTSOrd uint32 = 3 // connection oriented with graceful close
)

// A transport is the transport that a netid names (RFC 1833, Section 2.1,
// rpcb_entry).
type transport struct {
	netid     string
	network   string // as in oncrpc.Peer, and r_nc_proto
	family    string // r_nc_protofmly
	semantics uint32
	prot      uint32 // in version 2, which knows only TCP and UDP over IPv4; otherwise 0
}

var transports = [...]transport{
	{NetidTCP, "tcp", "inet", semanticsCOTSOrd, TCP},
	{NetidTCP6, "tcp", "inet6", semanticsCOTSOrd, 0},
	{NetidUDP, "udp", "inet", semanticsCLTS, UDP},
	{NetidUDP6, "udp", "inet6", semanticsCLTS, 0},
	{NetidRDMA, "rdma", "inet", semanticsCOTSOrd, 0},
	{NetidRDMA6, "rdma", "inet6", semanticsCOTSOrd, 0},
}

// transportOf returns the transport that a netid names, or nil.
func transportOf(netid string) *transport {
	for i := range transports {
		if transports[i].netid == netid {
			return &transports[i]
		}
	}
	return nil
}

// transportOfProt returns the transport for an IP protocol in version 2, or nil.
func transportOfProt(prot uint32) *transport {
	for i := range transports {
		if t := &transports[i]; t.prot != 0 && t.prot == prot {
			return t
		}
	}
	return nil
}

// transportForAddr returns the transport for a network and an address, or nil.
func transportForAddr(network string, a netip.Addr) *transport {
	for i := range transports {
		if t := &transports[i]; t.network == network && t.supportsAddr(a) {
			return t
		}
	}
	return nil
}

// supportsAddr reports whether a belongs to the transport's protocol family.
func (t *transport) supportsAddr(a netip.Addr) bool {
	return a.IsValid() && a.Is4() == (t.family == "inet")
}

// arrivalTransport returns the transport on which a call arrived, or nil.
func arrivalTransport(p *oncrpc.Peer) *transport {
	if p == nil {
		return nil
	}
	return transportForAddr(p.Network, p.Local.Addr())
}
