package nfsacl

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// GetACLArgs are the GETACL arguments: an object, and a Mask that selects the
// lists.
type GetACLArgs struct {
	Object nfs3.FH
	Mask   uint32
}

// AppendTo appends a's wire form to b.
func (a *GetACLArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(a.Object.AppendTo(b), a.Mask)
}

// Decode reads a. It keeps undefined mask bits for the server to check.
func (a *GetACLArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Mask = r.Uint32()
}

// GetACLRes are the GETACL results. Mask, Access and Default are valid only if
// Status is OK. Decode sets a list to nil if Mask does not select its entries.
type GetACLRes struct {
	Status          nfs3.Status
	Attr            nfs3.PostOpAttr // its owner and group are added to the lists
	Mask            uint32          // the call's mask
	Access, Default ACL
}

// AppendTo appends s's wire form to b. It sends a list that Mask does not
// select at all as empty, as Linux does.
func (s *GetACLRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status != nfs3.OK {
		return b
	}
	b = xdr.AppendUint32(b, s.Mask)
	of := owner{s.Attr.Attr.UID, s.Attr.Attr.GID}
	b = ifRequested(s.Access, s.Mask, MaskAccess|MaskAccessCount).appendTo(b, s.Mask&MaskAccess != 0, 0, of)
	return ifRequested(s.Default, s.Mask, MaskDefault|MaskDefaultCount).appendTo(b, s.Mask&MaskDefault != 0, defaultFlag, of)
}

func ifRequested(a ACL, mask, bits uint32) ACL {
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
	s.Access.decodeList(r, s.Mask&MaskAccess != 0)
	s.Default.decodeList(r, s.Mask&MaskDefault != 0)
}
