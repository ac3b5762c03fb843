package nfsacl

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// GetACLArgs are the arguments of GETACL: an object, and a Mask of the wanted
// lists.
type GetACLArgs struct {
	Object nfs3.FH
	Mask   uint32
}

// AppendTo appends the wire form of a to b.
func (a *GetACLArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(a.Object.AppendTo(b), a.Mask)
}

// Decode reads a. It keeps undefined bits of the mask for the server to judge.
func (a *GetACLArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Mask = r.Uint32()
}

// GetACLRes are the results of GETACL. Mask, Access and Default are valid only
// if Status is OK. Decode sets a list to nil if Mask does not select its
// entries.
type GetACLRes struct {
	Status          nfs3.Status
	Attr            nfs3.PostOpAttr // its owner and group go into the lists
	Mask            uint32          // the mask of the call
	Access, Default ACL
}

// AppendTo appends the wire form of s to b. It sends a list that Mask does not
// select at all as empty, as Linux does.
func (s *GetACLRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status != nfs3.OK {
		return b
	}
	b = xdr.AppendUint32(b, s.Mask)
	of := owner{s.Attr.Attr.UID, s.Attr.Attr.GID}
	b = meant(s.Access, s.Mask, MaskAccess|MaskAccessCount).appendTo(b, s.Mask&MaskAccess != 0, 0, of)
	return meant(s.Default, s.Mask, MaskDefault|MaskDefaultCount).appendTo(b, s.Mask&MaskDefault != 0, defaultFlag, of)
}

func meant(a ACL, mask, bits uint32) ACL {
	if mask&bits == 0 {
		return nil
	}
	return a
}

// Decode reads s.
func (s *GetACLRes) Decode(r *xdr.Reader) {
	s.Status = nfs3.Status(r.Uint32())
	if s.Attr.Decode(r); s.Status != nfs3.OK {
		return
	}
	s.Mask = r.Uint32()
	s.Access.decode(r, s.Mask&MaskAccess != 0)
	s.Default.decode(r, s.Mask&MaskDefault != 0)
}
