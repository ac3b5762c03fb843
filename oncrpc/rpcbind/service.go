package rpcbind

import (
	"net/netip"
	"os"
	"strconv"
)

// A Service is a program version that is available over a transport.
type Service struct {
	Prog, Vers uint32
	Netid      string         // one of this package's Netids
	Addr       netip.AddrPort // 0.0.0.0 or [::] means every address of the host
}

// Services returns program versions as they are available at a listener on a network,
// "tcp", "udp" or "rdma", with the address at. A listener at every address serves both
// IPv4 and IPv6 clients if its own address is IPv6.
func Services(network string, at netip.AddrPort, prog uint32, versions ...uint32) (list []Service) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	addrs := []netip.AddrPort{at}
	if at.Addr() == netip.IPv6Unspecified() {
		addrs = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), at}
	}
	for _, a := range addrs {
		t := transportForAddr(network, a.Addr())
		if t == nil {
			continue
		}
		for _, v := range versions {
			list = append(list, Service{Prog: prog, Vers: v, Netid: t.netid, Addr: a})
		}
	}
	return list
}

// toRPCB returns s as an RPCB.
func (s Service) toRPCB(owner string) RPCB {
	return RPCB{Prog: s.Prog, Vers: s.Vers, Netid: s.Netid, Addr: Uaddr(s.Addr), Owner: owner}
}

// addrFor returns the address at which a caller reaches s. If s listens on every address,
// that is the address local, at which the caller has reached this host.
func (s Service) addrFor(local netip.AddrPort) netip.AddrPort {
	if a := local.Addr(); s.Addr.Addr().IsUnspecified() && a.IsValid() {
		return netip.AddrPortFrom(a, s.Addr.Port())
	}
	return s.Addr
}

// currentOwner returns this process's user, in rpcbind's form.
func currentOwner() string {
	if uid := os.Geteuid(); uid != 0 {
		return strconv.Itoa(uid)
	}
	return "superuser"
}
