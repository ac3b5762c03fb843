package fairshare

import (
	"net"
	"net/netip"
	"strconv"
)

// A Party is the connected peers of one address.
type Party[P any] struct {
	Own   P   // its parts of the shared resources
	conns int // connections, including one that is being made
	name  Name
}

// Parties are the parties with connections to a server. The server's lock
// guards them.
type Parties[P any] struct {
	own func() P
	all map[Name]*Party[P]
}

// NewParties returns Parties. Each party gets the parts that own makes.
func NewParties[P any](own func() P) Parties[P] {
	return Parties[P]{own: own, all: make(map[Name]*Party[P])}
}

// Enter returns the party of a peer, with one connection more.
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

// Leave notes the end of a connection of p.
func (t *Parties[P]) Leave(p *Party[P]) {
	if p.conns--; p.conns == 0 {
		delete(t.all, p.name)
	}
}

// Len returns the number of parties with connections.
func (t *Parties[P]) Len() int { return len(t.all) }

// Full reports whether another connection of the newcomer, which is already
// counted, needs a place from others when now of limit places are in use. The
// last places are for parties with few connections.
func (t *Parties[P]) Full(newcomer *Party[P], now, limit int) bool {
	if !newcomer.Few() {
		limit -= limit / spared
	}
	return now >= limit
}

// Few reports whether a party has few connections. For such a party,
// connections of others are closed even if these have calls under way.
func (p *Party[P]) Few() bool { return p.conns <= few }

// MaxLeaving returns how many connections, of limit, may have lost their places
// and still exist because of calls that do not end.
func MaxLeaving(limit int) int { return max(1, limit/spared) }

// Yields returns the party that must give a place to the newcomer, whose next
// connection is about to come: the party with the most connections. It returns
// nil if that party would then have fewer than the newcomer.
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

// bits6 is the length of the prefix of an IPv6 address that identifies a party,
// because a holder of one address also has the 64 bits after the prefix. All
// link-local addresses have the same prefix, and their holders have nothing but
// the link in common: such a party is one address on one link.
const bits6 = 64

// A Name is the name of a party. Names are comparable. The zero Name is the
// party of all addresses other than TCP's.
type Name struct {
	net  netip.Prefix
	zone string // of a link-local address; a Prefix has none
}

func (n Name) String() string {
	if n.zone == "" {
		return n.net.String()
	}
	return n.net.Addr().WithZone(n.zone).String() + "/" + strconv.Itoa(n.net.Bits())
}

// PartyOf returns the party of an address of TCP, as PartyOfIP does, or the zero
// Name.
func PartyOf(a net.Addr) Name {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return Name{}
	}
	return PartyOfIP(t.AddrPort().Addr())
}

// PartyOfIP returns the party of an IP address: an IPv4 address, half of an IPv6
// address, or a link-local IPv6 address with its zone. It returns the zero Name
// for the zero address.
func PartyOfIP(a netip.Addr) Name {
	a = a.Unmap()
	bits := min(a.BitLen(), bits6)
	if a.Is6() && a.IsLinkLocalUnicast() {
		bits = a.BitLen()
	}
	n := Name{zone: a.Zone()}
	if bits == bits6 {
		n.zone = "" // no other address means another host on another link
	}
	n.net, _ = a.Prefix(bits) // the zero address has no prefix either
	return n
}
