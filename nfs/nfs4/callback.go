package nfs4

import (
	"strconv"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A CBOp is an nfs_cb_opnum4: an operation in a CB_COMPOUND, with which a
// server calls its client (RFC 8881, Section 20; RFC 7862, Section 16).
type CBOp uint32

// The CBOp values. This package does not support CB_NOTIFY, CB_LAYOUTRECALL,
// and the callbacks for layouts, devices and wanted delegations.
const (
	CBOpGetAttr    CBOp = 3
	CBOpRecall     CBOp = 4
	CBOpRecallAny  CBOp = 8
	CBOpRecallSlot CBOp = 10
	CBOpSequence   CBOp = 11
	CBOpNotifyLock CBOp = 13
	CBOpOffload    CBOp = 15

	// CBOpIllegal represents an undefined operation in results.
	CBOpIllegal CBOp = 10044
)

// The callback program's procedures and version. The client chooses its number
// (CREATE_SESSION, SETCLIENTID).
const (
	CBVersion      = 1
	CBProcNull     = 0
	CBProcCompound = 1
)

// String returns the standard's name for o, or its number.
func (o CBOp) String() string {
	switch o {
	case CBOpGetAttr:
		return "CB_GETATTR"
	case CBOpRecall:
		return "CB_RECALL"
	case CBOpRecallAny:
		return "CB_RECALL_ANY"
	case CBOpRecallSlot:
		return "CB_RECALL_SLOT"
	case CBOpSequence:
		return "CB_SEQUENCE"
	case CBOpNotifyLock:
		return "CB_NOTIFY_LOCK"
	case CBOpOffload:
		return "CB_OFFLOAD"
	case CBOpIllegal:
		return "CB_ILLEGAL"
	}
	return "nfs_cb_opnum4(" + strconv.FormatUint(uint64(o), 10) + ")"
}

// AppendCBOp appends operation op with arguments or results m to b.
func AppendCBOp(b []byte, op CBOp, m Message) []byte {
	return m.AppendTo(xdr.AppendUint32(b, uint32(op)))
}

// CBCompoundArgs are the CB_COMPOUND arguments, up to the first operation (RFC
// 8881, Section 20.2). N operations follow, each as its number and its arguments.
// Results begin with a CompoundRes.
type CBCompoundArgs struct {
	Tag   []byte // at most OpaqueLimit bytes
	Minor uint32
	Ident uint32 // from SETCLIENTID in minor version 0, otherwise 0
	N     uint32
}

// AppendTo appends a's wire form to b.
func (a *CBCompoundArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(b, a.Tag), a.Minor)
	return xdr.AppendUint32(xdr.AppendUint32(b, a.Ident), a.N)
}

// Decode reads a.
func (a *CBCompoundArgs) Decode(r *xdr.Reader) {
	a.Tag, a.Minor, a.Ident, a.N = r.Opaque(OpaqueLimit), r.Uint32(), r.Uint32(), r.Uint32()
}

// A ReferringCall is a referring_call4: a client's call, identified by its
// place in a session.
type ReferringCall struct{ Sequence, Slot uint32 }

// ReferringCalls is a referring_call_list4: calls whose replies the client must
// have received before it executes a callback.
type ReferringCalls struct {
	Session SessionID
	Calls   []ReferringCall
}

// AppendTo appends c's wire form to b.
func (c *ReferringCalls) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(c.Session.AppendTo(b), uint32(len(c.Calls)))
	for _, call := range c.Calls {
		b = xdr.AppendUint32(xdr.AppendUint32(b, call.Sequence), call.Slot)
	}
	return b
}

// Decode reads c.
func (c *ReferringCalls) Decode(r *xdr.Reader) {
	c.Session.Decode(r)
	c.Calls = nil
	for n := listLen(r); n > 0 && r.Err() == nil; n-- {
		c.Calls = append(c.Calls, ReferringCall{Sequence: r.Uint32(), Slot: r.Uint32()})
	}
}

// CBSequenceArgs are the CB_SEQUENCE arguments (RFC 8881, Section 20.9).
type CBSequenceArgs struct {
	Session        SessionID
	Sequence, Slot uint32
	HighestSlotID  uint32
	CacheThis      bool
	Referring      []ReferringCalls
}

// AppendTo appends a's wire form to b.
func (a *CBSequenceArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendUint32(a.Session.AppendTo(b), a.Sequence), a.Slot)
	b = xdr.AppendBool(xdr.AppendUint32(b, a.HighestSlotID), a.CacheThis)
	b = xdr.AppendUint32(b, uint32(len(a.Referring)))
	for i := range a.Referring {
		b = a.Referring[i].AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *CBSequenceArgs) Decode(r *xdr.Reader) {
	a.Session.Decode(r)
	a.Sequence, a.Slot, a.HighestSlotID, a.CacheThis = r.Uint32(), r.Uint32(), r.Uint32(), r.Bool()
	a.Referring = nil
	for n := listLen(r); n > 0 && r.Err() == nil; n-- {
		var c ReferringCalls
		c.Decode(r)
		a.Referring = append(a.Referring, c)
	}
}

// CBSequenceRes are the CB_SEQUENCE results; all fields except Status are valid
// only if Status is OK.
type CBSequenceRes struct {
	Status                             Status
	Session                            SessionID
	Sequence, Slot                     uint32
	HighestSlotID, TargetHighestSlotID uint32
}

// AppendTo appends s's wire form to b.
func (s *CBSequenceRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendUint32(s.Session.AppendTo(b), s.Sequence), s.Slot)
	return xdr.AppendUint32(xdr.AppendUint32(b, s.HighestSlotID), s.TargetHighestSlotID)
}

// Decode reads s.
func (s *CBSequenceRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.Session.Decode(r)
	s.Sequence, s.Slot, s.HighestSlotID, s.TargetHighestSlotID = r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()
}

// CBRecallArgs are the CB_RECALL arguments (RFC 8881, Section 20.2): the server
// recalls a delegation. Truncate says that the file is about to become empty.
type CBRecallArgs struct {
	StateID  StateID
	Truncate bool
	Object   FH
}

// AppendTo appends a's wire form to b.
func (a *CBRecallArgs) AppendTo(b []byte) []byte {
	return a.Object.AppendTo(xdr.AppendBool(a.StateID.AppendTo(b), a.Truncate))
}

// Decode reads a.
func (a *CBRecallArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Truncate = r.Bool()
	a.Object.Decode(r)
}

// The bits of CBRecallAnyArgs.Types (RFC 8881, Section 20.6).
const (
	RecallAnyRead  uint32 = 1 << 0
	RecallAnyWrite uint32 = 1 << 1
)

// CBRecallAnyArgs are the CB_RECALL_ANY arguments (RFC 8881, Section 20.6): the
// client may keep Keep objects of the given types of recallable state.
type CBRecallAnyArgs struct {
	Keep  uint32
	Types Bitmap
}

// AppendTo appends a's wire form to b.
func (a *CBRecallAnyArgs) AppendTo(b []byte) []byte {
	return a.Types.AppendTo(xdr.AppendUint32(b, a.Keep))
}

// Decode reads a.
func (a *CBRecallAnyArgs) Decode(r *xdr.Reader) {
	a.Keep = r.Uint32()
	a.Types.Decode(r)
}

// CBRecallSlotArgs are the CB_RECALL_SLOT arguments (RFC 8881, Section 20.8).
type CBRecallSlotArgs struct{ TargetHighestSlotID uint32 }

// AppendTo appends a's wire form to b.
func (a *CBRecallSlotArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(b, a.TargetHighestSlotID)
}

// Decode reads a.
func (a *CBRecallSlotArgs) Decode(r *xdr.Reader) { a.TargetHighestSlotID = r.Uint32() }

// CBGetAttrArgs are the CB_GETATTR arguments (RFC 8881, Section 20.1), whose
// results are a GetAttrRes.
type CBGetAttrArgs struct {
	Object  FH
	Request Bitmap
}

// AppendTo appends a's wire form to b.
func (a *CBGetAttrArgs) AppendTo(b []byte) []byte { return a.Request.AppendTo(a.Object.AppendTo(b)) }

// Decode reads a.
func (a *CBGetAttrArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Request.Decode(r)
}

// CBNotifyLockArgs are the CB_NOTIFY_LOCK arguments (RFC 8881, Section 20.11): a
// lock that Owner was denied may now be free.
type CBNotifyLockArgs struct {
	Object FH
	Owner  StateOwner
}

// AppendTo appends a's wire form to b.
func (a *CBNotifyLockArgs) AppendTo(b []byte) []byte { return a.Owner.AppendTo(a.Object.AppendTo(b)) }

// Decode reads a.
func (a *CBNotifyLockArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Owner.Decode(r)
}

// CBOffloadArgs are the CB_OFFLOAD arguments (RFC 7862, Section 16.1): the copy
// with a stateid has finished. Response is valid if Status is OK, and otherwise
// Copied, a number of bytes.
type CBOffloadArgs struct {
	Object   FH
	StateID  StateID
	Status   Status
	Response WriteResponse
	Copied   uint64
}

// AppendTo appends a's wire form to b.
func (a *CBOffloadArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(a.StateID.AppendTo(a.Object.AppendTo(b)), uint32(a.Status))
	if a.Status == OK {
		return a.Response.AppendTo(b)
	}
	return xdr.AppendUint64(b, a.Copied)
}

// Decode reads a.
func (a *CBOffloadArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.StateID.Decode(r)
	a.Copied = 0
	if a.Status = Status(r.Uint32()); a.Status == OK {
		a.Response.Decode(r)
		return
	}
	a.Copied = r.Uint64()
}
