package nfsacl

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// SetACLArgs are the SETACL arguments: the lists that Mask selects replace the
// lists of an object. An empty list removes the object's list.
type SetACLArgs struct {
	Object          nfs3.FH
	Mask            uint32 // MaskAccess, MaskDefault
	Access, Default ACL
}

// AppendTo appends a's wire form to b. The entries of the owner and the owning
// group carry no ids, because servers know these.
func (a *SetACLArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(a.Object.AppendTo(b), a.Mask)
	b = a.Access.appendTo(b, a.Mask&MaskAccess != 0, 0, owner{})
	return a.Default.appendTo(b, a.Mask&MaskDefault != 0, defaultFlag, owner{})
}

// Decode reads a. It keeps undefined mask bits for the server to check.
func (a *SetACLArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Mask = r.Uint32()
	a.Access.decodeList(r, a.Mask&MaskAccess != 0)
	a.Default.decodeList(r, a.Mask&MaskDefault != 0)
}

// SetACLRes are the SETACL results.
type SetACLRes struct {
	Status nfs3.Status
	Attr   nfs3.PostOpAttr
}

// AppendTo appends s's wire form to b.
func (s *SetACLRes) AppendTo(b []byte) []byte {
	return s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
}

// Decode reads s.
func (s *SetACLRes) Decode(r *xdr.Reader) {
	s.Status = nfs3.Status(r.Uint32())
	s.Attr.Decode(r)
}
