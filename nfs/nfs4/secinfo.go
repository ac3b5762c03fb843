package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// Styles of SECINFO_NO_NAME (RFC 8881, Section 18.45).
const (
	SecInfoCurrentFH uint32 = iota
	SecInfoParent
)

// SecInfoNoNameArgs are the SECINFO_NO_NAME arguments.
type SecInfoNoNameArgs struct{ Style uint32 }

// AppendTo appends a's wire form to b.
func (a *SecInfoNoNameArgs) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, a.Style) }

// Decode reads a.
func (a *SecInfoNoNameArgs) Decode(r *xdr.Reader) {
	a.Style = decodeEnum(r, "secinfo_style4", SecInfoCurrentFH, SecInfoParent)
}

// FlavorGSS is the flavor of a SecInfo that has more fields (RFC 2203).
const FlavorGSS uint32 = 6

// A SecInfo is a secinfo4: a flavor that a server accepts. OID, QOP and Service
// are used only with FlavorGSS.
type SecInfo struct {
	Flavor       uint32
	OID          []byte
	QOP, Service uint32
}

// SecInfoRes are the SECINFO and SECINFO_NO_NAME results. Flavors is valid only
// if Status is OK, in the server's order of preference.
type SecInfoRes struct {
	Status  Status
	Flavors []SecInfo
}

// maxFlavors is the maximum number of flavors that Decode accepts.
const maxFlavors = 64

// AppendTo appends s's wire form to b.
func (s *SecInfoRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(b, uint32(len(s.Flavors)))
	for _, f := range s.Flavors {
		if b = xdr.AppendUint32(b, f.Flavor); f.Flavor == FlavorGSS {
			b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendOpaque(b, f.OID), f.QOP), f.Service)
		}
	}
	return b
}

// Decode reads s.
func (s *SecInfoRes) Decode(r *xdr.Reader) {
	s.Flavors = nil
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	n := r.Uint32()
	if n > maxFlavors {
		r.Fail(xdr.ErrLong)
	}
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		f := SecInfo{Flavor: r.Uint32()}
		if f.Flavor == FlavorGSS {
			f.OID, f.QOP, f.Service = r.Opaque(OpaqueLimit), r.Uint32(), r.Uint32()
		}
		s.Flavors = append(s.Flavors, f)
	}
}
