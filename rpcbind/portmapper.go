package rpcbind

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Portmapper is a server's side of versions 2, 3 and 4. It answers from a
// list that never changes. It refuses SET and UNSET, and makes no calls to
// other programs for CALLIT, BCAST and INDIRECT. With such calls a client could
// hide behind the portmapper, reach services that are for the host itself
// alone, and have replies sent to a false source address.
type Portmapper struct {
	services []Service
	owner    string
	now      func() time.Time
	stat     *stat
}

// NewPortmapper returns a Portmapper of the given services. To make the
// portmapper itself known, include Listener.Services.
func NewPortmapper(services []Service) *Portmapper {
	return &Portmapper{services: services, owner: owner(), now: time.Now, stat: newStat(len(services))}
}

// Register makes p the portmapper of m.
func (p *Portmapper) Register(m *oncrpc.Mux) {
	m.Register(Program, PortmapVers, version2{p})
	m.Register(Program, RPCBVers, version34{p, RPCBVers})
	m.Register(Program, RPCBVers4, version34{p, RPCBVers4})
}

// find returns the index in the list of the service over a transport, or -1. If
// the program lacks that version, find returns the index of another version:
// the caller learns from the program which versions exist (RFC 5531, Section 9,
// PROG_MISMATCH).
func (p *Portmapper) find(prog, vers uint32, t *transport) int {
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
