package mount3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// PathArgs are the MNT and UMNT arguments.
type PathArgs struct {
	Path []byte // at most PathLen bytes
}

// AppendTo appends a's wire form to b.
func (a *PathArgs) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, a.Path) }

// Decode reads a.
func (a *PathArgs) Decode(r *xdr.Reader) { a.Path = r.Opaque(PathLen) }

// MntRes are the MNT results. Flavors are the authentication flavors that may
// be used with Handle. Handle and Flavors are valid only if Status is OK.
type MntRes struct {
	Status  Status
	Handle  []byte // at most FHSize bytes
	Flavors []uint32
}

// AppendTo appends s's wire form to b.
func (s *MntRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendOpaque(b, s.Handle), uint32(len(s.Flavors)))
	for _, f := range s.Flavors {
		b = xdr.AppendUint32(b, f)
	}
	return b
}

// Decode reads s.
func (s *MntRes) Decode(r *xdr.Reader) {
	*s = MntRes{Status: Status(r.Uint32())}
	if s.Status != OK {
		return
	}
	s.Handle = r.Opaque(FHSize)
	for n := r.Uint32(); n > 0 && r.Err() == nil; n-- {
		s.Flavors = append(s.Flavors, r.Uint32())
	}
}
