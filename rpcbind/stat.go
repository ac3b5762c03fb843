package rpcbind

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	statVersions = 3  // RPCBVERS_STAT: 2, 3 and 4
	statProcs    = 13 // RPCBSTAT_HIGHPROC
)

// A stat counts the calls of each version for GETSTAT (rpcb_stat_byvers; RFC
// 1833, Section 2.1). It does not count NULL, which asks for nothing, nor
// lookups of unknown programs: clients could make that list arbitrarily long.
type stat struct {
	info  [statVersions][statProcs]atomic.Uint32
	found [statVersions][]atomic.Uint32 // by the place in the portmapper's list
}

func newStat(services int) *stat {
	s := new(stat)
	for i := range s.found {
		s.found[i] = make([]atomic.Uint32, services)
	}
	return s
}

// count counts a call.
func (s *stat) count(vers, proc uint32) {
	if proc < statProcs {
		s.info[vers-PortmapVers][proc].Add(1)
	}
}

// looked counts a lookup of the service at index i, unless i is negative.
func (s *stat) looked(vers uint32, i int) {
	if i >= 0 {
		s.found[vers-PortmapVers][i].Add(1)
	}
}

// appendTo appends the results of GETSTAT.
func (s *stat) appendTo(b []byte, services []Service) []byte {
	for v := range s.info {
		for p := range s.info[v] {
			b = xdr.AppendUint32(b, s.info[v][p].Load())
		}
		b = xdr.AppendUint32(b, 0) // SETs that succeeded
		b = xdr.AppendUint32(b, 0) // UNSETs
		for i := range s.found[v] {
			n := s.found[v][i].Load()
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
		b = xdr.AppendBool(b, false) // calls of other programs: none are made
	}
	return b
}
