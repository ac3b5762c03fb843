package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// CreateMode is a createmode3: how CREATE treats an existing file.
type CreateMode uint32

// The CreateMode values.
const (
	Unchecked CreateMode = iota
	Guarded
	Exclusive
)

// CreateArgs are the CREATE arguments. Verf, a createverf3, is used if Mode is
// Exclusive, and Attr otherwise.
type CreateArgs struct {
	Where DirOpArgs
	Mode  CreateMode
	Attr  SetAttr
	Verf  uint64
}

// AppendTo appends a's wire form to b.
func (a *CreateArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(a.Where.AppendTo(b), uint32(a.Mode))
	if a.Mode == Exclusive {
		return xdr.AppendUint64(b, a.Verf)
	}
	return a.Attr.AppendTo(b)
}

// Decode reads a.
func (a *CreateArgs) Decode(r *xdr.Reader) {
	a.Where.Decode(r)
	a.Mode = CreateMode(decodeEnum(r, "createmode3", uint32(Unchecked), uint32(Exclusive)))
	if a.Mode == Exclusive {
		a.Verf = r.Uint64()
	} else {
		a.Attr.Decode(r)
	}
}

// MkdirArgs are the MKDIR arguments.
type MkdirArgs struct {
	Where DirOpArgs
	Attr  SetAttr
}

// AppendTo appends a's wire form to b.
func (a *MkdirArgs) AppendTo(b []byte) []byte { return a.Attr.AppendTo(a.Where.AppendTo(b)) }

// Decode reads a.
func (a *MkdirArgs) Decode(r *xdr.Reader) {
	a.Where.Decode(r)
	a.Attr.Decode(r)
}

// SymlinkArgs are the SYMLINK arguments. Path is the call's data item. Only the
// message limits its length; see MaxPath.
type SymlinkArgs struct {
	Where DirOpArgs
	Attr  SetAttr
	Path  []byte
}

// AppendTo appends a's wire form to b, up to and including the length of Path.
func (a *SymlinkArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(a.Attr.AppendTo(a.Where.AppendTo(b)), uint32(len(a.Path)))
}

// Decode reads a.
func (a *SymlinkArgs) Decode(r *xdr.Reader) {
	a.Where.Decode(r)
	a.Attr.Decode(r)
	a.Path = r.Item(unbounded)
}

// MknodArgs are the MKNOD arguments. Attr is used for the types that MKNOD
// creates, and Spec for TypeBlk and TypeChr. Decode accepts any other Type, for
// which the server returns NFS3ERR_BADTYPE.
type MknodArgs struct {
	Where DirOpArgs
	Type  Type
	Attr  SetAttr
	Spec  SpecData
}

// AppendTo appends a's wire form to b.
func (a *MknodArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(a.Where.AppendTo(b), uint32(a.Type))
	switch a.Type {
	case TypeBlk, TypeChr:
		b = a.Attr.AppendTo(b)
		b = xdr.AppendUint32(b, a.Spec.Major)
		b = xdr.AppendUint32(b, a.Spec.Minor)
	case TypeSock, TypeFIFO:
		b = a.Attr.AppendTo(b)
	default: // void
	}
	return b
}

// Decode reads a.
func (a *MknodArgs) Decode(r *xdr.Reader) {
	a.Where.Decode(r)
	a.Type = Type(r.Uint32())
	switch a.Type {
	case TypeBlk, TypeChr:
		a.Attr.Decode(r)
		a.Spec = SpecData{Major: r.Uint32(), Minor: r.Uint32()}
	case TypeSock, TypeFIFO:
		a.Attr.Decode(r)
	default: // void
	}
}

// MakeRes are the CREATE, MKDIR, SYMLINK and MKNOD results. Object and Attr are
// valid only if Status is OK; Object is nil if the server returns no handle.
type MakeRes struct {
	Status Status
	Object FH
	Attr   PostOpAttr
	Dir    WccData
}

// AppendTo appends s's wire form to b.
func (s *MakeRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Object.appendPost(b)
		b = s.Attr.AppendTo(b)
	}
	return s.Dir.AppendTo(b)
}

// Decode reads s.
func (s *MakeRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Object.decodePost(r)
		s.Attr.Decode(r)
	}
	s.Dir.Decode(r)
}
