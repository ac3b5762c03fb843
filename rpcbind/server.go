package rpcbind

import (
	"context"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Portmapper is a server's side of version 2: it answers GETPORT and DUMP
// from its list. The list stays as it is while calls are served.
type Portmapper struct {
	// Mappings are what is registered. The portmapper itself is among them
	// where it shall be found.
	Mappings []Mapping
}

var _ oncrpc.Handler = (*Portmapper)(nil)

// Register makes p version 2 of the portmapper of m.
func (p *Portmapper) Register(m *oncrpc.Mux) { m.Register(Program, PortmapVers, p) }

// ServeRPC answers one call (oncrpc.Handler).
func (p *Portmapper) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	switch c.Proc {
	case procGetPort:
		var want Mapping
		want.Decode(&c.Args)
		r.Head = xdr.AppendUint32(r.Head, p.port(want))
	case procDump:
		r.Head = appendList(r.Head, p.Mappings)
	default:
		return oncrpc.ErrProcUnavail
	}
	return c.Args.Done()
}

// port returns the port of the version that is wanted, or of another one: the
// caller learns from the program which versions it has (RFC 5531, Section 9,
// PROG_MISMATCH). 0 is for a program that is not registered at all (RFC 1833,
// Section 3.2).
func (p *Portmapper) port(want Mapping) uint32 {
	other := uint32(0)
	for _, m := range p.Mappings {
		if m.Prog != want.Prog || m.Prot != want.Prot {
			continue
		}
		if m.Vers == want.Vers {
			return m.Port
		}
		other = m.Port
	}
	return other
}
