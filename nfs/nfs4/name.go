package nfs4

import "github.com/nfsrdma/nfsrdma/xdr"

// NameArgs are the arguments of LOOKUP, LINK, REMOVE and SECINFO: a name, of
// any length that the message allows.
type NameArgs struct{ Name []byte }

// AppendTo appends the wire form of a to b.
func (a *NameArgs) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, a.Name) }

// Decode reads a.
func (a *NameArgs) Decode(r *xdr.Reader) { a.Name = r.Opaque(unbounded) }

// ChangeRes are the results of LINK and REMOVE: the change of the directory,
// valid only if Status is OK.
type ChangeRes struct {
	Status Status
	Dir    ChangeInfo
}

// AppendTo appends the wire form of s to b.
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

// RenameArgs are the arguments of RENAME: a name in the saved directory, and
// one in the current.
type RenameArgs struct{ Old, New []byte }

// AppendTo appends the wire form of a to b.
func (a *RenameArgs) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendOpaque(b, a.Old), a.New)
}

// Decode reads a.
func (a *RenameArgs) Decode(r *xdr.Reader) { a.Old, a.New = r.Opaque(unbounded), r.Opaque(unbounded) }

// RenameRes are the results of RENAME; the changes are valid only if Status is
// OK.
type RenameRes struct {
	Status         Status
	Source, Target ChangeInfo
}

// AppendTo appends the wire form of s to b.
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

// CreateArgs are the arguments of CREATE (RFC 8881, Section 18.4), which makes
// every object but a regular file. LinkData is a data item of the call.
type CreateArgs struct {
	Type     FileType // any value: the server answers NFS4ERR_BADTYPE
	LinkData []byte   // of TypeLnk
	Dev      SpecData // of TypeBlk and TypeChr
	Name     []byte
	Attrs    Attrs
}

// AppendTo appends the wire form of a to b, with LinkData inline.
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

// CreateRes are the results of CREATE; all but Status is valid only if Status
// is OK.
type CreateRes struct {
	Status  Status
	Dir     ChangeInfo
	AttrSet Bitmap
}

// AppendTo appends the wire form of s to b.
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

// ReadLinkRes are the results of READLINK. Link is valid only if Status is OK.
// It is a data item of the reply; AppendTo writes its length alone.
type ReadLinkRes struct {
	Status Status
	Link   []byte
}

// AppendTo appends the wire form of s to b, up to and including the length of
// Link.
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
