package rpcbind

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// An RPCB gives a program version's universal address over a transport (struct rpcb; RFC
// 1833, Section 2.1).
type RPCB struct {
	Prog, Vers uint32
	Netid      string // from RFC 5665, or another that the host has
	Addr       string // universal address
	Owner      string // the registrant: "superuser", or a user id
}

// AppendTo appends m's wire form to b.
func (m RPCB) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, m.Prog)
	b = xdr.AppendUint32(b, m.Vers)
	b = xdr.AppendString(b, m.Netid)
	b = xdr.AppendString(b, m.Addr)
	return xdr.AppendString(b, m.Owner)
}

// Decode reads m from r, which holds the error. A string longer than 1024 bytes is an
// error.
func (m *RPCB) Decode(r *xdr.Reader) {
	*m = RPCB{
		Prog: r.Uint32(), Vers: r.Uint32(),
		Netid: r.String(maxString), Addr: r.String(maxString), Owner: r.String(maxString),
	}
}

// appendRPCBs appends DUMP results, versions 3 and 4.
func appendRPCBs(b []byte, list []RPCB) []byte {
	for _, m := range list {
		b = m.AppendTo(xdr.AppendBool(b, true))
	}
	return xdr.AppendBool(b, false)
}

// decodeRPCBs reads DUMP results from r, which holds the error.
func decodeRPCBs(r *xdr.Reader) []RPCB {
	var list []RPCB
	for r.Bool() {
		var m RPCB
		m.Decode(r)
		if r.Err() != nil {
			return nil
		}
		list = append(list, m)
	}
	return list
}

// An addrEntry is a service's address and transport (struct rpcb_entry).
type addrEntry struct {
	maddr string
	*transport
}

// appendEntries appends GETADDRLIST results.
func appendEntries(b []byte, list []addrEntry) []byte {
	for _, e := range list {
		b = xdr.AppendBool(b, true)
		b = xdr.AppendString(b, e.maddr)
		b = xdr.AppendString(b, e.netid)
		b = xdr.AppendUint32(b, e.semantics)
		b = xdr.AppendString(b, e.family)
		b = xdr.AppendString(b, e.network)
	}
	return xdr.AppendBool(b, false)
}
