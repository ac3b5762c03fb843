package rpcbind

import (
	"net/netip"
	"os"
	"strconv"
)

// A Service is a version of a program that answers over a transport.
type Service struct {
	Prog, Vers uint32
	Netid      string         // one of the Netids of this package
	Addr       netip.AddrPort // 0.0.0.0 or [::]: at every address of the host
}

// Services are versions of a program, as they answer on a listener of a network,
// "tcp", "udp" or "rdma", whose address is at. One for every address takes clients
// of both kinds, IPv4 and IPv6, when its own address is IPv6's.
func Services(network string, at netip.AddrPort, prog uint32, versions ...uint32) (list []Service) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	addrs := []netip.AddrPort{at}
	if at.Addr() == netip.IPv6Unspecified() {
		addrs = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), at}
	}
	for _, a := range addrs {
		t := transportTo(network, a.Addr())
		if t == nil {
			continue
		}
		for _, v := range versions {
			list = append(list, Service{Prog: prog, Vers: v, Netid: t.netid, Addr: a})
		}
	}
	return list
}

// rpcb is how s is told to others.
func (s Service) rpcb(owner string) RPCB {
	return RPCB{Prog: s.Prog, Vers: s.Vers, Netid: s.Netid, Addr: Uaddr(s.Addr), Owner: owner}
}

// at is where a caller of t reaches s: where that caller has reached this host, if
// s answers at every address of the host.
func (s Service) at(local netip.AddrPort) netip.AddrPort {
	if a := local.Addr(); s.Addr.Addr().IsUnspecified() && a.IsValid() {
		return netip.AddrPortFrom(a, s.Addr.Port())
	}
	return s.Addr
}

// owner is this process, as rpcbind calls its users.
func owner() string {
	if uid := os.Geteuid(); uid != 0 {
		return strconv.Itoa(uid)
	}
	return "superuser"
}
