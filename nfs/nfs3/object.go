package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// GetAttrRes are the GETATTR results; Attr is valid only if Status is OK.
type GetAttrRes struct {
	Status Status
	Attr   Attr
}

// AppendTo appends s's wire form to b.
func (s *GetAttrRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Attr.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *GetAttrRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Attr.Decode(r)
	}
}

// LookupRes are the LOOKUP results. Object and ObjAttr are valid only if Status
// is OK.
type LookupRes struct {
	Status  Status
	Object  FH
	ObjAttr PostOpAttr
	DirAttr PostOpAttr
}

// AppendTo appends s's wire form to b.
func (s *LookupRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Object.AppendTo(b)
		b = s.ObjAttr.AppendTo(b)
	}
	return s.DirAttr.AppendTo(b)
}

// Decode reads s.
func (s *LookupRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Object.Decode(r)
		s.ObjAttr.Decode(r)
	}
	s.DirAttr.Decode(r)
}

// AccessArgs are the ACCESS arguments: an object, and the requested rights.
type AccessArgs struct {
	Object FH
	Access uint32
}

// AppendTo appends a's wire form to b.
func (a *AccessArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(a.Object.AppendTo(b), a.Access)
}

// Decode reads a.
func (a *AccessArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Access = r.Uint32()
}

// AccessRes are the ACCESS results; Access is valid only if Status is OK.
type AccessRes struct {
	Status Status
	Attr   PostOpAttr
	Access uint32
}

// AppendTo appends s's wire form to b.
func (s *AccessRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status == OK {
		b = xdr.AppendUint32(b, s.Access)
	}
	return b
}

// Decode reads s.
func (s *AccessRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Attr.Decode(r); s.Status == OK {
		s.Access = r.Uint32()
	}
}

// ReadLinkRes are the READLINK results. Path, the reply's data item, is valid
// only if Status is OK.
type ReadLinkRes struct {
	Status Status
	Attr   PostOpAttr
	Path   []byte
}

// AppendTo appends s's wire form to b, up to and including the length of Path.
func (s *ReadLinkRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status == OK {
		b = xdr.AppendUint32(b, uint32(len(s.Path)))
	}
	return b
}

// Decode reads s.
func (s *ReadLinkRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Attr.Decode(r); s.Status == OK {
		s.Path = r.Item(unbounded)
	}
}
