package rpcbind

import (
	"context"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// version2 is the version 2 portmapper (RFC 1833, Section 3).
type version2 struct{ *Portmapper }

// ServeRPC serves one call (oncrpc.Handler).
func (p version2) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	p.stat.countCall(PortmapVers, c.Proc)
	switch c.Proc {
	case procSet, procUnset:
		var m Mapping
		m.Decode(&c.Args)
		r.Head = xdr.AppendBool(r.Head, false)
	case procGetPort:
		var want Mapping
		want.Decode(&c.Args)
		r.Head = xdr.AppendUint32(r.Head, p.findPort(want))
	case procDump:
		r.Head = appendList(r.Head, p.listMappings())
	case procCallIt: // no reply if nothing is executed (Section 3.2)
		return oncrpc.ErrNoAnswer
	default:
		return oncrpc.ErrProcUnavail
	}
	return c.Args.Done()
}

// findPort returns a program's port, or 0 if it is not registered.
func (p version2) findPort(want Mapping) uint32 {
	i := p.findService(want.Prog, want.Vers, transportOfProt(want.Prot))
	p.stat.countLookup(PortmapVers, i)
	if i < 0 {
		return 0
	}
	return uint32(p.services[i].Addr.Port())
}

// listMappings returns the services that version 2 can express.
func (p version2) listMappings() (list []Mapping) {
	for _, s := range p.services {
		if t := transportOf(s.Netid); t.prot != 0 {
			list = append(list, Mapping{s.Prog, s.Vers, t.prot, uint32(s.Addr.Port())})
		}
	}
	return list
}
