package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// HandleArgs are the PUTFH arguments (RFC 8881, Section 18.19). PUTROOTFH,
// PUTPUBFH, GETFH, SAVEFH, RESTOREFH, LOOKUPP and READLINK have none: Void.
type HandleArgs struct{ Object FH }

// AppendTo appends a's wire form to b.
func (a *HandleArgs) AppendTo(b []byte) []byte { return a.Object.AppendTo(b) }

// Decode reads a.
func (a *HandleArgs) Decode(r *xdr.Reader) { a.Object.Decode(r) }

// HandleRes are the GETFH results; Object is valid only if Status is OK.
type HandleRes struct {
	Status Status
	Object FH
}

// AppendTo appends s's wire form to b.
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

// AccessArgs are the ACCESS arguments: the requested rights.
type AccessArgs struct{ Access uint32 }

// AppendTo appends a's wire form to b.
func (a *AccessArgs) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, a.Access) }

// Decode reads a.
func (a *AccessArgs) Decode(r *xdr.Reader) { a.Access = r.Uint32() }

// AccessRes are the ACCESS results: the rights that the server can check, and
// those that the caller has. Both are valid only if Status is OK.
type AccessRes struct {
	Status            Status
	Supported, Access uint32
}

// AppendTo appends s's wire form to b.
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

// GetAttrArgs are the GETATTR arguments.
type GetAttrArgs struct{ Request Bitmap }

// AppendTo appends a's wire form to b.
func (a *GetAttrArgs) AppendTo(b []byte) []byte { return a.Request.AppendTo(b) }

// Decode reads a.
func (a *GetAttrArgs) Decode(r *xdr.Reader) { a.Request.Decode(r) }

// GetAttrRes are the GETATTR results; Attrs is valid only if Status is OK.
type GetAttrRes struct {
	Status Status
	Attrs  Attrs
}

// AppendTo appends s's wire form to b.
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

// SetAttrArgs are the SETATTR arguments. StateID matters only for a change of
// the size.
type SetAttrArgs struct {
	StateID StateID
	Attrs   Attrs
}

// AppendTo appends a's wire form to b.
func (a *SetAttrArgs) AppendTo(b []byte) []byte { return a.Attrs.AppendTo(a.StateID.AppendTo(b)) }

// Decode reads a.
func (a *SetAttrArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Attrs.Decode(r)
}

// SetAttrRes are the SETATTR results. AttrsSet is also valid with an error: an
// operation may change some attributes.
type SetAttrRes struct {
	Status   Status
	AttrsSet Bitmap
}

// AppendTo appends s's wire form to b.
func (s *SetAttrRes) AppendTo(b []byte) []byte {
	return s.AttrsSet.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
}

// Decode reads s.
func (s *SetAttrRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	s.AttrsSet.Decode(r)
}

// VerifyArgs are the VERIFY and NVERIFY arguments.
type VerifyArgs struct{ Attrs Attrs }

// AppendTo appends a's wire form to b.
func (a *VerifyArgs) AppendTo(b []byte) []byte { return a.Attrs.AppendTo(b) }

// Decode reads a.
func (a *VerifyArgs) Decode(r *xdr.Reader) { a.Attrs.Decode(r) }
