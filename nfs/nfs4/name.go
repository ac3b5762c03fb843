package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// NameArgs are the LOOKUP, LINK, REMOVE and SECINFO arguments: a name whose
// length only the message limits.
type NameArgs struct{ Name []byte }

// AppendTo appends a's wire form to b.
func (a *NameArgs) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, a.Name) }

// Decode reads a.
func (a *NameArgs) Decode(r *xdr.Reader) { a.Name = r.Opaque(unbounded) }

// ChangeRes are the LINK and REMOVE results: the directory's change, valid only
// if Status is OK.
type ChangeRes struct {
	Status Status
	Dir    ChangeInfo
}

// AppendTo appends s's wire form to b.
func (s *ChangeRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Dir.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *ChangeRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Dir.Decode(r)
	}
}

// RenameArgs are the RENAME arguments: a name in the saved directory, and one
// in the current.
type RenameArgs struct{ Old, New []byte }

// AppendTo appends a's wire form to b.
func (a *RenameArgs) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendOpaque(b, a.Old), a.New)
}

// Decode reads a.
func (a *RenameArgs) Decode(r *xdr.Reader) { a.Old, a.New = r.Opaque(unbounded), r.Opaque(unbounded) }

// RenameRes are the RENAME results; the changes are valid only if Status is OK.
type RenameRes struct {
	Status         Status
	Source, Target ChangeInfo
}

// AppendTo appends s's wire form to b.
func (s *RenameRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Target.AppendTo(s.Source.AppendTo(b))
	}
	return b
}

// Decode reads s.
func (s *RenameRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Source.Decode(r)
		s.Target.Decode(r)
	}
}

// CreateArgs are the CREATE arguments (RFC 8881, Section 18.4), which creates
// every type except a regular file. LinkData is a data item in the call.
type CreateArgs struct {
	Type     FileType // any value: the server returns NFS4ERR_BADTYPE
	LinkData []byte   // with TypeLnk
	Dev      SpecData // with TypeBlk and TypeChr
	Name     []byte
	Attrs    Attrs
}

// AppendTo appends a's wire form to b, with LinkData inline.
func (a *CreateArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(a.Type))
	switch a.Type {
	case TypeLnk:
		b = xdr.AppendOpaque(b, a.LinkData)
	case TypeBlk, TypeChr:
		b = a.Dev.AppendTo(b)
	}
	return a.Attrs.AppendTo(xdr.AppendOpaque(b, a.Name))
}

// Decode reads a.
func (a *CreateArgs) Decode(r *xdr.Reader) {
	a.LinkData, a.Dev = nil, SpecData{}
	a.Type = FileType(r.Uint32())
	switch a.Type {
	case TypeLnk:
		a.LinkData = r.Item(unbounded)
	case TypeBlk, TypeChr:
		a.Dev.Decode(r)
	}
	a.Name = r.Opaque(unbounded)
	a.Attrs.Decode(r)
}

// CreateRes are the CREATE results; all fields except Status are valid only if
// Status is OK.
type CreateRes struct {
	Status  Status
	Dir     ChangeInfo
	AttrSet Bitmap
}

// AppendTo appends s's wire form to b.
func (s *CreateRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.AttrSet.AppendTo(s.Dir.AppendTo(b))
	}
	return b
}

// Decode reads s.
func (s *CreateRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Dir.Decode(r)
		s.AttrSet.Decode(r)
	}
}

// ReadLinkRes are the READLINK results. Link is valid only if Status is OK. It
// is a data item in the reply; AppendTo writes only its length.
type ReadLinkRes struct {
	Status Status
	Link   []byte
}

// AppendTo appends s's wire form to b, up to and including the length of Link.
func (s *ReadLinkRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = xdr.AppendUint32(b, uint32(len(s.Link)))
	}
	return b
}

// Decode reads s.
func (s *ReadLinkRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Link = r.Item(unbounded)
	}
}
