package fairshare

import (
	"net"
	"net/netip"
)

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
