package rpcbind

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Portmapper is the server's side of versions 2, 3 and 4. It replies from a list that
// never changes. It rejects SET and UNSET, and does not call other programs for CALLIT,
// BCAST and INDIRECT. With such calls a client could hide behind the portmapper, reach
// services meant only for the host itself, and have replies sent to a forged source
// address.
type Portmapper struct {
	services []Service
	owner    string
	now      func() time.Time
	stat     *callStats
}

// NewPortmapper returns a Portmapper for the given services. To make the
// portmapper itself known, include Listener.Services.
func NewPortmapper(services []Service) *Portmapper {
	return &Portmapper{services: services, owner: currentOwner(), now: time.Now, stat: newCallStats(len(services))}
}

// Register registers p with m.
func (p *Portmapper) Register(m *oncrpc.Mux) {
	m.Register(Program, PortmapVers, version2{p})
	m.Register(Program, RPCBVers, version34{p, RPCBVers})
	m.Register(Program, RPCBVers4, version34{p, RPCBVers4})
}

// findService returns the index of the service over a transport, or -1. If
// the program lacks that version, find returns the index of another version:
// the caller learns from the program which versions exist (RFC 5531, Section 9,
// PROG_MISMATCH).
func (p *Portmapper) findService(prog, vers uint32, t *transport) int {
	other := -1
	for i, s := range p.services {
		if t == nil || s.Prog != prog || s.Netid != t.netid {
			continue
		}
		if s.Vers == vers {
			return i
		}
		other = i
	}
	return other
}
