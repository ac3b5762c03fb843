package rpcbind

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// The portmapper (RFC 1833).
const (
	Program     uint32 = 100000
	PortmapVers uint32 = 2 // Section 3.1
	RPCBVers    uint32 = 3 // Section 2.1
	RPCBVers4   uint32 = 4

	// Port is the portmapper's port, over TCP and UDP.
	Port = 111
)

// Procedures. Those up to CALLIT are in all versions, those up to TADDR2UADDR in 3 and 4,
// and the rest only in version 4.
const (
	procNull        uint32 = 0
	procSet         uint32 = 1
	procUnset       uint32 = 2
	procGetPort     uint32 = 3 // version 2
	procGetAddr     uint32 = 3 // versions 3 and 4
	procDump        uint32 = 4
	procCallIt      uint32 = 5 // BCAST in version 4
	procGetTime     uint32 = 6
	procUaddr2Taddr uint32 = 7
	procTaddr2Uaddr uint32 = 8
	procGetVersAddr uint32 = 9
	procGetAddrList uint32 = 11
	procGetStat     uint32 = 12
)

// Values of Mapping.Prot.
const (
	TCP uint32 = 6
	UDP uint32 = 17
)

// A Mapping gives a program version's port (RFC 1833, Section 3.1).
type Mapping struct {
	Prog, Vers uint32
	Prot       uint32 // TCP or UDP
	Port       uint32
}

// mappingLen is a Mapping's length in bytes.
const mappingLen = 16

// AppendTo appends m's wire form to b.
func (m Mapping) AppendTo(b []byte) []byte {
	for _, v := range [...]uint32{m.Prog, m.Vers, m.Prot, m.Port} {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

// Decode reads m from r, which holds the error.
func (m *Mapping) Decode(r *xdr.Reader) {
	*m = Mapping{Prog: r.Uint32(), Vers: r.Uint32(), Prot: r.Uint32(), Port: r.Uint32()}
}

// appendList appends DUMP results.
func appendList(b []byte, list []Mapping) []byte {
	for _, m := range list {
		b = m.AppendTo(xdr.AppendBool(b, true))
	}
	return xdr.AppendBool(b, false)
}

// listLen returns the length in bytes of DUMP results with n mappings.
func listLen(n int) int { return n*(4+mappingLen) + 4 }

// decodeList reads DUMP results from r, which holds the error.
func decodeList(r *xdr.Reader) []Mapping {
	var list []Mapping
	for r.Bool() {
		var m Mapping
		m.Decode(r)
		if r.Err() != nil {
			return nil
		}
		list = append(list, m)
	}
	return list
}
