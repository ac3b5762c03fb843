package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// The ACE.Type values (RFC 8881, Section 6.2.1.1).
const (
	ACEAllow uint32 = iota
	ACEDeny
	ACEAudit
	ACEAlarm
)

// The bits of ACLSupport (RFC 8881, Section 6.2.1.2).
const (
	ACLSupportAllow uint32 = 1 << iota
	ACLSupportDeny
	ACLSupportAudit
	ACLSupportAlarm
)

// The bits of ACE.Flag (RFC 8881, Section 6.2.1.4).
const (
	ACEFileInherit uint32 = 1 << iota
	ACEDirectoryInherit
	ACENoPropagateInherit
	ACEInheritOnly
	ACESuccessfulAccess
	ACEFailedAccess
	ACEIdentifierGroup
	ACEInherited
)

// The bits of ACE.Mask (RFC 8881, Section 6.2.1.3). For directories the first
// three have other names: list, add a file, add a directory.
const (
	ACEReadData           uint32 = 0x1
	ACEWriteData          uint32 = 0x2
	ACEAppendData         uint32 = 0x4
	ACEReadNamedAttrs     uint32 = 0x8
	ACEWriteNamedAttrs    uint32 = 0x10
	ACEExecute            uint32 = 0x20
	ACEDeleteChild        uint32 = 0x40
	ACEReadAttributes     uint32 = 0x80
	ACEWriteAttributes    uint32 = 0x100
	ACEWriteRetention     uint32 = 0x200
	ACEWriteRetentionHold uint32 = 0x400
	ACEDelete             uint32 = 0x10000
	ACEReadACL            uint32 = 0x20000
	ACEWriteACL           uint32 = 0x40000
	ACEWriteOwner         uint32 = 0x80000
	ACESynchronize        uint32 = 0x100000
)

// The ACE.Who values for the owner, the owning group and everyone (RFC 8881,
// Section 6.2.1.5).
const (
	WhoOwner    = "OWNER@"
	WhoGroup    = "GROUP@"
	WhoEveryone = "EVERYONE@"
)

// An ACE is an nfsace4: an entry of an access control list.
type ACE struct {
	Type, Flag, Mask uint32
	Who              []byte
}

// aceLen is the length in bytes of an ACE with an empty Who.
const aceLen = 16

// AppendTo appends e's wire form to b.
func (e *ACE) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, e.Type), e.Flag), e.Mask), e.Who)
}

// Decode reads e.
func (e *ACE) Decode(r *xdr.Reader) {
	e.Type, e.Flag, e.Mask, e.Who = r.Uint32(), r.Uint32(), r.Uint32(), r.Opaque(unbounded)
}

// An ACL is the attribute acl: entries that are evaluated in order.
type ACL []ACE

// Len returns the length in bytes of the wire form of a.
func (a ACL) Len() int {
	n := 4 + aceLen*len(a)
	for i := range a {
		n += len(a[i].Who) + xdr.Pad(len(a[i].Who))
	}
	return n
}

// AppendTo appends a's wire form to b.
func (a *ACL) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(len(*a)))
	for i := range *a {
		b = (*a)[i].AppendTo(b)
	}
	return b
}

// Decode reads a. A list that is longer than the rest of the message fails
// before memory is allocated.
func (a *ACL) Decode(r *xdr.Reader) {
	*a = nil
	n := r.Uint32()
	if uint64(n)*aceLen > uint64(r.Left()) {
		r.Fail(xdr.ErrShort)
	}
	if n == 0 || r.Err() != nil {
		return
	}
	*a = make(ACL, n)
	for i := range *a {
		(*a)[i].Decode(r)
	}
}
