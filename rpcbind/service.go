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

// Services returns versions of a program as they answer on a listener of a
// network, "tcp", "udp" or "rdma", with the address at. A listener at every
// address serves both IPv4 and IPv6 clients if its own address is IPv6.
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

// rpcb returns s as an RPCB.
func (s Service) rpcb(owner string) RPCB {
	return RPCB{Prog: s.Prog, Vers: s.Vers, Netid: s.Netid, Addr: Uaddr(s.Addr), Owner: owner}
}

// at returns the address at which a caller reaches s. If s answers at every
// address of the host, that is the address local, at which the caller has
// reached this host.
func (s Service) at(local netip.AddrPort) netip.AddrPort {
	if a := local.Addr(); s.Addr.Addr().IsUnspecified() && a.IsValid() {
		return netip.AddrPortFrom(a, s.Addr.Port())
	}
	return s.Addr
}

// owner returns this process's user, in rpcbind's form.
func owner() string {
	if uid := os.Geteuid(); uid != 0 {
		return strconv.Itoa(uid)
	}
	return "superuser"
}
