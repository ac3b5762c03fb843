package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// CreateMode is a createmode4: how OPEN treats an existing file. NoCreate is
// opentype4's OPEN4_NOCREATE, which has no createmode4.
type CreateMode uint32

// The CreateMode values.
const (
	Unchecked CreateMode = iota
	Guarded
	Exclusive  // with a verifier and no attributes
	Exclusive1 // EXCLUSIVE4_1: with a verifier and attributes

	NoCreate CreateMode = 0xffffffff // not on the wire
)

// Claim is an open_claim_type4: the way in which OPEN refers to its object.
type Claim uint32

// The Claim values.
const (
	ClaimNull         Claim = iota // a name in the current directory
	ClaimPrevious                  // reclaim: the current file
	ClaimDelegateCur               // a name, with the file's delegation
	ClaimDelegatePrev              // a name, with an earlier client's delegation
	ClaimFH                        // the current file
	ClaimDelegCurFH                // the current file, with its delegation
	ClaimDelegPrevFH               // the current file, with an earlier client's delegation
)

// Delegation is an open_delegation_type4 (RFC 8881, Section 18.16; RFC 9754).
type Delegation uint32

// The Delegation values.
const (
	DelegateNone Delegation = iota
	DelegateRead
	DelegateWrite
	DelegateNoneExt // none, with a reason

	// With these delegations the client is the authority for the file's times, too.
	DelegateReadAttrs
	DelegateWriteAttrs
)

// reads and writes report whether d has the wire form of a read or write delegation.
func (d Delegation) reads() bool  { return d == DelegateRead || d == DelegateReadAttrs }
func (d Delegation) writes() bool { return d == DelegateWrite || d == DelegateWriteAttrs }

// OpenArgs are the OPEN arguments (RFC 8881, Section 18.16).
type OpenArgs struct {
	SeqID       uint32 // NFSv4.0 only
	ShareAccess uint32 // ShareRead, ShareWrite and the Want bits
	ShareDeny   uint32
	Owner       StateOwner
	How         CreateMode
	Attrs       Attrs    // with Unchecked, Guarded and Exclusive1
	Verf        Verifier // with Exclusive and Exclusive1
	Claim       Claim
	Name        []byte     // with ClaimNull, ClaimDelegateCur and ClaimDelegatePrev
	Delegation  Delegation // with ClaimPrevious
	StateID     StateID    // with ClaimDelegateCur and ClaimDelegCurFH
}

// AppendTo appends a's wire form to b.
func (a *OpenArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, a.SeqID), a.ShareAccess), a.ShareDeny)
	b = a.Owner.AppendTo(b)
	if a.How == NoCreate {
		b = xdr.AppendUint32(b, 0)
	} else {
		b = xdr.AppendUint32(xdr.AppendUint32(b, 1), uint32(a.How))
		if a.How == Exclusive || a.How == Exclusive1 {
			b = a.Verf.AppendTo(b)
		}
		if a.How != Exclusive {
			b = a.Attrs.AppendTo(b)
		}
	}
	b = xdr.AppendUint32(b, uint32(a.Claim))
	switch a.Claim {
	case ClaimNull, ClaimDelegatePrev:
		b = xdr.AppendOpaque(b, a.Name)
	case ClaimPrevious:
		b = xdr.AppendUint32(b, uint32(a.Delegation))
	case ClaimDelegateCur:
		b = xdr.AppendOpaque(a.StateID.AppendTo(b), a.Name)
	case ClaimDelegCurFH:
		b = a.StateID.AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *OpenArgs) Decode(r *xdr.Reader) {
	a.SeqID, a.ShareAccess, a.ShareDeny = r.Uint32(), r.Uint32(), r.Uint32()
	a.Owner.Decode(r)
	a.How, a.Attrs.Mask, a.Verf = NoCreate, Bitmap{}, Verifier{}
	if decodeEnum(r, "opentype4", 0, 1) == 1 {
		a.How = CreateMode(decodeEnum(r, "createmode4", uint32(Unchecked), uint32(Exclusive1)))
		if a.How == Exclusive || a.How == Exclusive1 {
			a.Verf.Decode(r)
		}
		if a.How != Exclusive {
			a.Attrs.Decode(r)
		}
	}
	a.Name, a.Delegation, a.StateID = nil, DelegateNone, StateID{}
	a.Claim = Claim(decodeEnum(r, "open_claim_type4", uint32(ClaimNull), uint32(ClaimDelegPrevFH)))
	switch a.Claim {
	case ClaimNull, ClaimDelegatePrev:
		a.Name = r.Opaque(unbounded)
	case ClaimPrevious:
		a.Delegation = Delegation(decodeEnum(r, "open_delegation_type4", uint32(DelegateNone), uint32(DelegateWriteAttrs)))
	case ClaimDelegateCur:
		a.StateID.Decode(r)
		a.Name = r.Opaque(unbounded)
	case ClaimDelegCurFH:
		a.StateID.Decode(r)
	}
}

// WhyNone is a why_no_delegation4.
type WhyNone uint32

// The WhyNone values.
const (
	WhyNotWanted WhyNone = iota
	WhyContention
	WhyResource
	WhyNotSuppFType
	WhyWriteDelegNotSuppFType
	WhyNotSuppUpgrade
	WhyNotSuppDowngrade
	WhyCancelled
	WhyIsDir
)

// A SpaceLimit is an nfs_space_limit4: how much the holder of a write
// delegation may buffer. It is a size in bytes or, with Blocks, a number of
// blocks.
type SpaceLimit struct {
	Size       uint64
	Blocks     bool
	NumBlocks  uint32
	BlockBytes uint32
}

// AppendTo appends l's wire form to b.
func (l *SpaceLimit) AppendTo(b []byte) []byte {
	if l.Blocks {
		return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, 2), l.NumBlocks), l.BlockBytes)
	}
	return xdr.AppendUint64(xdr.AppendUint32(b, 1), l.Size)
}

// Decode reads l.
func (l *SpaceLimit) Decode(r *xdr.Reader) {
	*l = SpaceLimit{}
	if l.Blocks = decodeEnum(r, "limit_by4", 1, 2) == 2; l.Blocks {
		l.NumBlocks, l.BlockBytes = r.Uint32(), r.Uint32()
	} else {
		l.Size = r.Uint64()
	}
}

// OpenDelegation is an open_delegation4: the delegation that comes with OPEN.
type OpenDelegation struct {
	Type        Delegation
	StateID     StateID    // with a read or write delegation, like Recall
	Recall      bool       // already recalled
	Limit       SpaceLimit // with a write delegation
	Permissions ACE        // with a read or write delegation
	Why         WhyNone    // with DelegateNoneExt
	Will        bool       // with WhyContention and WhyResource: the server will offer one
}

// AppendTo appends d's wire form to b.
func (d *OpenDelegation) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(d.Type))
	switch {
	case d.Type.reads(), d.Type.writes():
		b = xdr.AppendBool(d.StateID.AppendTo(b), d.Recall)
		if d.Type.writes() {
			b = d.Limit.AppendTo(b)
		}
		b = d.Permissions.AppendTo(b)
	case d.Type == DelegateNoneExt:
		b = xdr.AppendUint32(b, uint32(d.Why))
		if d.Why == WhyContention || d.Why == WhyResource {
			b = xdr.AppendBool(b, d.Will)
		}
	}
	return b
}

// Decode reads d.
func (d *OpenDelegation) Decode(r *xdr.Reader) {
	*d = OpenDelegation{Type: Delegation(decodeEnum(r, "open_delegation_type4", uint32(DelegateNone), uint32(DelegateWriteAttrs)))}
	switch {
	case d.Type.reads(), d.Type.writes():
		d.StateID.Decode(r)
		d.Recall = r.Bool()
		if d.Type.writes() {
			d.Limit.Decode(r)
		}
		d.Permissions.Decode(r)
	case d.Type == DelegateNoneExt:
		d.Why = WhyNone(decodeEnum(r, "why_no_delegation4", uint32(WhyNotWanted), uint32(WhyIsDir)))
		if d.Why == WhyContention || d.Why == WhyResource {
			d.Will = r.Bool()
		}
	}
}

// OpenRes are the OPEN results; all fields except Status are valid only if
// Status is OK.
type OpenRes struct {
	Status     Status
	StateID    StateID
	Dir        ChangeInfo
	Flags      uint32
	AttrSet    Bitmap
	Delegation OpenDelegation
}

// AppendTo appends s's wire form to b.
func (s *OpenRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = xdr.AppendUint32(s.Dir.AppendTo(s.StateID.AppendTo(b)), s.Flags)
		b = s.Delegation.AppendTo(s.AttrSet.AppendTo(b))
	}
	return b
}

// Decode reads s.
func (s *OpenRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.StateID.Decode(r)
		s.Dir.Decode(r)
		s.Flags = r.Uint32()
		s.AttrSet.Decode(r)
		s.Delegation.Decode(r)
	}
}

// CloseArgs are the CLOSE arguments.
type CloseArgs struct {
	SeqID   uint32 // NFSv4.0 only
	StateID StateID
}

// AppendTo appends a's wire form to b.
func (a *CloseArgs) AppendTo(b []byte) []byte {
	return a.StateID.AppendTo(xdr.AppendUint32(b, a.SeqID))
}

// Decode reads a.
func (a *CloseArgs) Decode(r *xdr.Reader) {
	a.SeqID = r.Uint32()
	a.StateID.Decode(r)
}

// OpenDowngradeArgs are the OPEN_DOWNGRADE arguments.
type OpenDowngradeArgs struct {
	StateID                StateID
	SeqID                  uint32 // NFSv4.0 only
	ShareAccess, ShareDeny uint32
}

// AppendTo appends a's wire form to b.
func (a *OpenDowngradeArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(a.StateID.AppendTo(b), a.SeqID)
	return xdr.AppendUint32(xdr.AppendUint32(b, a.ShareAccess), a.ShareDeny)
}

// Decode reads a.
func (a *OpenDowngradeArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.SeqID, a.ShareAccess, a.ShareDeny = r.Uint32(), r.Uint32(), r.Uint32()
}

// StateIDRes are the CLOSE, OPEN_DOWNGRADE and LOCKU results; StateID is valid
// only if Status is OK.
type StateIDRes struct {
	Status  Status
	StateID StateID
}

// AppendTo appends s's wire form to b.
func (s *StateIDRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.StateID.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *StateIDRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.StateID.Decode(r)
	}
}
