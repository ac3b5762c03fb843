package fairshare

import (
	"net"
	"net/netip"
)

// A Party is the peers of one address, which are connected.
type Party[P any] struct {
	Own   P   // its parts of what is shared out
	conns int // that it has, or is about to have
	name  netip.Prefix
}

// Parties are those that have connections to a server, whose lock guards it.
type Parties[P any] struct {
	own func() P
	all map[netip.Prefix]*Party[P]
}

// NewParties returns Parties, of which each gets the parts that own makes.
func NewParties[P any](own func() P) Parties[P] {
	return Parties[P]{own: own, all: make(map[netip.Prefix]*Party[P])}
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

// Leave notes that a connection of p is gone.
func (t *Parties[P]) Leave(p *Party[P]) {
	if p.conns--; p.conns == 0 {
		delete(t.all, p.name)
	}
}

// Len returns how many parties have connections.
func (t *Parties[P]) Len() int { return len(t.all) }

// Full reports whether one more connection of a newcomer, which is counted already,
// has to find a place where now of limit are taken. The last of them are for those
// who have few.
func (t *Parties[P]) Full(newcomer *Party[P], now, limit int) bool {
	if !newcomer.Few() {
		limit -= limit / spared
	}
	return now >= limit
}

// Few reports whether a party has few connections, for which those of others go even
// where they have calls under way.
func (p *Party[P]) Few() bool { return p.conns <= few }

// MaxLeaving returns how many connections, of limit, may have lost their places and
// be there still, for the sake of calls that do not end.
func MaxLeaving(limit int) int { return max(1, limit/spared) }

// Yields returns the party that is to give a place to the newcomer, one of whose
// connections is to come: the one that has most; nil where that would leave it
// fewer than the newcomer has then.
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

// bits6 is how many bits of an IPv6 address stand for a party: who has one
// address has the 64 bits behind them as well.
const bits6 = 64

// PartyOf returns the party that an address belongs to: an IPv4 address, or half of
// an IPv6 one. All that are not TCP's are of one party, the zero Prefix.
func PartyOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return PartyOfIP(t.AddrPort().Addr())
}

// PartyOfIP returns the party of an IP address; the zero Prefix where there is none.
func PartyOfIP(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	p, _ := a.Prefix(min(a.BitLen(), bits6)) // no address has no prefix either
	return p
}
