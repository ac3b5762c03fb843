package rpcbind

import (
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Portmapper is a server's side of versions 2, 3 and 4: it answers from a list
// that never changes. SET and UNSET are refused, and calls to other programs by
// CALLIT, BCAST and INDIRECT are not made: whoever may have a portmapper call
// others in its name hides behind it, comes past what is for the host itself alone,
// and has it send answers to those whose address he gives as his own.
type Portmapper struct {
	services []Service
	owner    string
	now      func() time.Time
	stat     *stat
}

// NewPortmapper returns one that knows the given services. The portmapper itself is
// among them where it shall be found: see Services.
func NewPortmapper(services []Service) *Portmapper {
	return &Portmapper{services: services, owner: owner(), now: time.Now, stat: newStat(len(services))}
}

// Register makes p the portmapper of m.
func (p *Portmapper) Register(m *oncrpc.Mux) {
	m.Register(Program, PortmapVers, version2{p})
	m.Register(Program, RPCBVers, version34{p, RPCBVers})
	m.Register(Program, RPCBVers4, version34{p, RPCBVers4})
}

// find returns the place in the list of the service over a transport, or -1. For
// a program without that version it is one of another version: the caller learns
// from the program which versions it has (RFC 5531, Section 9, PROG_MISMATCH).
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
