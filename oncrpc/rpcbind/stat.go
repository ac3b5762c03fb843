package rpcbind

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

const (
	statVersions = 3  // RPCBVERS_STAT: 2, 3 and 4
	statProcs    = 13 // RPCBSTAT_HIGHPROC
)

// A callStats counts the calls in each version for GETSTAT (rpcb_stat_byvers; RFC 1833,
// Section 2.1). It does not count NULL, nor lookups of unknown programs: clients could
// make that list arbitrarily long.
type callStats struct {
	calls   [statVersions][statProcs]atomic.Uint32
	lookups [statVersions][]atomic.Uint32 // by index in the portmapper's list
}

func newCallStats(services int) *callStats {
	s := new(callStats)
	for i := range s.lookups {
		s.lookups[i] = make([]atomic.Uint32, services)
	}
	return s
}

// countCall counts a call.
func (s *callStats) countCall(vers, proc uint32) {
	if proc < statProcs {
		s.calls[vers-PortmapVers][proc].Add(1)
	}
}

// countLookup counts a lookup of the service at index i, unless i is negative.
func (s *callStats) countLookup(vers uint32, i int) {
	if i >= 0 {
		s.lookups[vers-PortmapVers][i].Add(1)
	}
}

// appendTo appends GETSTAT results.
func (s *callStats) appendTo(b []byte, services []Service) []byte {
	for v := range s.calls {
		for p := range s.calls[v] {
			b = xdr.AppendUint32(b, s.calls[v][p].Load())
		}
		b = xdr.AppendUint32(b, 0) // SETs that succeeded
		b = xdr.AppendUint32(b, 0) // UNSETs
		for i := range s.lookups[v] {
			n := s.lookups[v][i].Load()
			if n == 0 {
				continue
			}
			b = xdr.AppendBool(b, true)
			for _, w := range [...]uint32{services[i].Prog, services[i].Vers, n, 0} {
				b = xdr.AppendUint32(b, w)
			}
			b = xdr.AppendString(b, services[i].Netid)
		}
		b = xdr.AppendBool(b, false)
		b = xdr.AppendBool(b, false) // calls to other programs: none are made
	}
	return b
}
