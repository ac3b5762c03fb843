package nfs4

import "github.com/nfsrdma/nfsrdma/xdr"

// HandleArgs are the arguments of PUTFH (RFC 8881, Section 18.19). PUTROOTFH,
// PUTPUBFH, GETFH, SAVEFH, RESTOREFH, LOOKUPP and READLINK have none: Void.
type HandleArgs struct{ Object FH }

// AppendTo appends the wire form of a to b.
func (a *HandleArgs) AppendTo(b []byte) []byte { return a.Object.AppendTo(b) }

// Decode reads a.
func (a *HandleArgs) Decode(r *xdr.Reader) { a.Object.Decode(r) }

// HandleRes are the results of GETFH; Object is valid only if Status is OK.
type HandleRes struct {
	Status Status
	Object FH
}

// AppendTo appends the wire form of s to b.
func (s *HandleRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Object.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *HandleRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Object.Decode(r)
	}
}

// AccessArgs are the arguments of ACCESS: the rights asked for.
type AccessArgs struct{ Access uint32 }

// AppendTo appends the wire form of a to b.
func (a *AccessArgs) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, a.Access) }

// Decode reads a.
func (a *AccessArgs) Decode(r *xdr.Reader) { a.Access = r.Uint32() }

// AccessRes are the results of ACCESS: the rights that the server can judge,
// and those that the caller has. Both are valid only if Status is OK.
type AccessRes struct {
	Status            Status
	Supported, Access uint32
}

// AppendTo appends the wire form of s to b.
func (s *AccessRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = xdr.AppendUint32(xdr.AppendUint32(b, s.Supported), s.Access)
	}
	return b
}

// Decode reads s.
func (s *AccessRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Supported, s.Access = r.Uint32(), r.Uint32()
	}
}

// GetAttrArgs are the arguments of GETATTR.
type GetAttrArgs struct{ Request Bitmap }

// AppendTo appends the wire form of a to b.
func (a *GetAttrArgs) AppendTo(b []byte) []byte { return a.Request.AppendTo(b) }

// Decode reads a.
func (a *GetAttrArgs) Decode(r *xdr.Reader) { a.Request.Decode(r) }

// GetAttrRes are the results of GETATTR; Attrs is valid only if Status is OK.
type GetAttrRes struct {
	Status Status
	Attrs  Attrs
}

// AppendTo appends the wire form of s to b.
func (s *GetAttrRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Attrs.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *GetAttrRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Attrs.Decode(r)
	}
}

// SetAttrArgs are the arguments of SETATTR. StateID counts only for a change of
// the size.
type SetAttrArgs struct {
	StateID StateID
	Attrs   Attrs
}

// AppendTo appends the wire form of a to b.
func (a *SetAttrArgs) AppendTo(b []byte) []byte { return a.Attrs.AppendTo(a.StateID.AppendTo(b)) }

// Decode reads a.
func (a *SetAttrArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Attrs.Decode(r)
}

// SetAttrRes are the results of SETATTR. AttrsSet comes with an error, too: an
// operation may change a part.
type SetAttrRes struct {
	Status   Status
	AttrsSet Bitmap
}

// AppendTo appends the wire form of s to b.
func (s *SetAttrRes) AppendTo(b []byte) []byte {
	return s.AttrsSet.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
}

// Decode reads s.
func (s *SetAttrRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	s.AttrsSet.Decode(r)
}

// VerifyArgs are the arguments of VERIFY and NVERIFY.
type VerifyArgs struct{ Attrs Attrs }

// AppendTo appends the wire form of a to b.
func (a *VerifyArgs) AppendTo(b []byte) []byte { return a.Attrs.AppendTo(b) }

// Decode reads a.
func (a *VerifyArgs) Decode(r *xdr.Reader) { a.Attrs.Decode(r) }
