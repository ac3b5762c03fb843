package fairshare

import (
	"net"
	"net/netip"
	"strconv"
)

// A Party is a client group: the connected peers with one address.
type Party[P any] struct {
	Own   P   // its parts of the shared resources
	conns int // connection count, including one that is being established
	name  Name
}

// Parties are the parties with connections to a server. The server's lock
// guards them.
type Parties[P any] struct {
	own func() P
	all map[Name]*Party[P]
}

// NewParties returns Parties. own creates each party's parts.
func NewParties[P any](own func() P) Parties[P] {
	return Parties[P]{own: own, all: make(map[Name]*Party[P])}
}

// Enter adds a connection to a peer's party, and returns the party.
func (t *Parties[P]) Enter(a net.Addr) *Party[P] {
	name := PartyOf(a)
	p := t.all[name]
	if p == nil {
		p = &Party[P]{Own: t.own(), name: name}
		t.all[name] = p
	}
	p.conns++
	return p
}

// Leave removes a connection from p.
func (t *Parties[P]) Leave(p *Party[P]) {
	if p.conns--; p.conns == 0 {
		delete(t.all, p.name)
	}
}

// Len returns how many parties have connections.
func (t *Parties[P]) Len() int { return len(t.all) }

// Full reports whether the newcomer's next connection, which is already counted,
// requires that others close one when now out of limit connections are in use. The
// last ones are for parties with few connections.
func (t *Parties[P]) Full(newcomer *Party[P], now, limit int) bool {
	if !newcomer.Few() {
		limit -= limit / spareDivisor
	}
	return now >= limit
}

// Few reports whether a party has few connections. For such a party, others'
// connections are closed even if these have calls in flight.
func (p *Party[P]) Few() bool { return p.conns <= fewConns }

// MaxLeaving returns how many connections, out of limit, may still exist after they
// had to yield, because their calls do not complete.
func MaxLeaving(limit int) int { return max(1, limit/spareDivisor) }

// Yields returns the party that must close a connection for the newcomer's next
// one: the party with the most connections. It returns nil if that party would then
// have fewer than the newcomer.
func (t *Parties[P]) Yields(newcomer *Party[P]) *Party[P] {
	most := newcomer
	for _, p := range t.all {
		if p.conns > most.conns {
			most = p
		}
	}
	if most == newcomer {
		return nil
	}
	return most
}

// ipv6PartyBits is the length of the IPv6 prefix that identifies a party, because a
// host with one address can use all addresses with that prefix. All link-local
// addresses have the same prefix, and their hosts have only the link in common:
// such a party is one address on one link.
const ipv6PartyBits = 64

// A Name is a party's name. Names are comparable. The zero Name is the party for
// all addresses other than TCP's.
type Name struct {
	net  netip.Prefix
	zone string // zone for a link-local address; a Prefix has none
}

func (n Name) String() string {
	if n.zone == "" {
		return n.net.String()
	}
	return n.net.Addr().WithZone(n.zone).String() + "/" + strconv.Itoa(n.net.Bits())
}

// PartyOf returns a TCP address's party (PartyOfIP), or the zero Name.
func PartyOf(a net.Addr) Name {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return Name{}
	}
	return PartyOfIP(t.AddrPort().Addr())
}

// PartyOfIP returns an IP address's party: an IPv4 address, the first half of an
// IPv6 address, or a link-local IPv6 address with its zone. It returns the zero
// Name for the zero address.
func PartyOfIP(a netip.Addr) Name {
	a = a.Unmap()
	bits := min(a.BitLen(), ipv6PartyBits)
	if a.Is6() && a.IsLinkLocalUnicast() {
		bits = a.BitLen()
	}
	n := Name{zone: a.Zone()}
	if bits == ipv6PartyBits {
		n.zone = "" // other addresses do not depend on the link
	}
	n.net, _ = a.Prefix(bits) // the zero address has no prefix either
	return n
}
