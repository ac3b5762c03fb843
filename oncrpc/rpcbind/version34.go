package rpcbind

import (
	"context"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// version34 is rpcbind version 3 or 4 (RFC 1833, Section 2).
type version34 struct {
	*Portmapper
	vers uint32
}

// ServeRPC serves one call (oncrpc.Handler).
func (p version34) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if p.vers == RPCBVers && c.Proc > procTaddr2Uaddr {
		return oncrpc.ErrProcUnavail
	}
	p.stat.countCall(p.vers, c.Proc)
	switch c.Proc {
	case procSet, procUnset:
		var m RPCB
		m.Decode(&c.Args)
		r.Head = xdr.AppendBool(r.Head, false)
	case procGetAddr, procGetVersAddr:
		var want RPCB
		want.Decode(&c.Args)
		r.Head = xdr.AppendString(r.Head, p.findAddr(want, c.Peer, c.Proc == procGetVersAddr))
	case procDump:
		r.Head = appendRPCBs(r.Head, p.listRPCBs())
	case procCallIt: // BCAST in version 4; no reply if nothing is executed (Section 2.2.1)
		return oncrpc.ErrNoAnswer
	case procGetTime:
		r.Head = xdr.AppendUint32(r.Head, uint32(p.now().Unix()))
	case procUaddr2Taddr:
		r.Head = appendTaddr(r.Head, parseForTransport(c.Peer, c.Args.String(maxString)))
	case procTaddr2Uaddr:
		r.Head = xdr.AppendString(r.Head, uaddrOf(c.Peer, decodeTaddr(&c.Args)))
	case procGetAddrList:
		var want RPCB
		want.Decode(&c.Args)
		r.Head = appendEntries(r.Head, p.listEntries(want, c.Peer))
	case procGetStat:
		r.Head = p.stat.appendTo(r.Head, p.services)
	default: // includes INDIRECT, which gets a reply even if nothing is executed
		return oncrpc.ErrProcUnavail
	}
	return c.Args.Done()
}

// findAddr returns the universal address for GETADDR and GETVERSADDR, or "". It ignores
// want's netid and address. The transport is the call's (RFC 1833, Section 2.2.1), and
// the address at which a caller without NAT has reached this host is certain, so that no
// hint is needed.
func (p version34) findAddr(want RPCB, peer *oncrpc.Peer, exact bool) string {
	i := p.findService(want.Prog, want.Vers, arrivalTransport(peer))
	if i >= 0 && exact && p.services[i].Vers != want.Vers {
		i = -1
	}
	p.stat.countLookup(p.vers, i)
	if i < 0 {
		return ""
	}
	return Uaddr(p.services[i].addrFor(peer.Local))
}

// listRPCBs returns the services for DUMP.
func (p version34) listRPCBs() (list []RPCB) {
	for _, s := range p.services {
		list = append(list, s.toRPCB(p.owner))
	}
	return list
}

// listEntries returns a program version's addresses over all transports in the call's
// protocol family.
func (p version34) listEntries(want RPCB, peer *oncrpc.Peer) (list []addrEntry) {
	in := arrivalTransport(peer)
	for _, s := range p.services {
		t := transportOf(s.Netid)
		if in != nil && t.family == in.family && s.Prog == want.Prog && s.Vers == want.Vers {
			list = append(list, addrEntry{Uaddr(s.addrFor(peer.Local)), t})
		}
	}
	return list
}

// parseForTransport parses a universal address for the call's transport; it returns zero
// for another transport's address.
func parseForTransport(peer *oncrpc.Peer, uaddr string) netip.AddrPort {
	a, err := ParseUaddr(uaddr)
	if in := arrivalTransport(peer); err != nil || in == nil || !in.supportsAddr(a.Addr()) {
		return netip.AddrPort{}
	}
	return a
}

// uaddrOf returns a's universal address if it belongs to the call's transport, or "".
func uaddrOf(peer *oncrpc.Peer, a netip.AddrPort) string {
	if in := arrivalTransport(peer); in == nil || !in.supportsAddr(a.Addr()) {
		return ""
	}
	return Uaddr(a)
}
