package rpcbind

import (
	"context"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// version2 is the portmapper of RFC 1833, Section 3.
type version2 struct{ *Portmapper }

// ServeRPC answers one call (oncrpc.Handler).
func (p version2) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	p.stat.count(PortmapVers, c.Proc)
	switch c.Proc {
	case procSet, procUnset:
		var m Mapping
		m.Decode(&c.Args)
		r.Head = xdr.AppendBool(r.Head, false)
	case procGetPort:
		var want Mapping
		want.Decode(&c.Args)
		r.Head = xdr.AppendUint32(r.Head, p.port(want))
	case procDump:
		r.Head = appendList(r.Head, p.mappings())
	case procCallIt: // no reply if nothing is executed (Section 3.2)
		return oncrpc.ErrNoAnswer
	default:
		return oncrpc.ErrProcUnavail
	}
	return c.Args.Done()
}

// port returns 0 for a program that is not registered.
func (p version2) port(want Mapping) uint32 {
	i := p.find(want.Prog, want.Vers, transportOfProt(want.Prot))
	p.stat.looked(PortmapVers, i)
	if i < 0 {
		return 0
	}
	return uint32(p.services[i].Addr.Port())
}

// mappings returns the services that version 2 can express.
func (p version2) mappings() (list []Mapping) {
	for _, s := range p.services {
		if t := transportOf(s.Netid); t.prot != 0 {
			list = append(list, Mapping{s.Prog, s.Vers, t.prot, uint32(s.Addr.Port())})
		}
	}
	return list
}
