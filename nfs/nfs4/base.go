package nfs4

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// An FH is an nfs_fh4: at most FHSize bytes that only the server can interpret.
type FH []byte

// AppendTo appends h's wire form to b. The caller must keep h within FHSize.
func (h FH) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, h) }

// Decode reads h, which aliases the Reader's input.
func (h *FH) Decode(r *xdr.Reader) { *h = r.Opaque(FHSize) }

// A StateID is a stateid4: it identifies an open, locks or a delegation, and
// counts its changes (RFC 8881, Section 8.2).
type StateID struct {
	SeqID uint32
	Other [OtherSize]byte
}

// AppendTo appends s's wire form to b.
func (s *StateID) AppendTo(b []byte) []byte {
	return append(xdr.AppendUint32(b, s.SeqID), s.Other[:]...)
}

// Decode reads s.
func (s *StateID) Decode(r *xdr.Reader) {
	s.SeqID = r.Uint32()
	copy(s.Other[:], r.Fixed(OtherSize))
}

// The special values of StateID (RFC 8881, Section 8.2.3).
var (
	// AnonymousStateID refers to no open.
	AnonymousStateID = StateID{}
	// BypassStateID lets READ bypass deny modes. For other operations it is the
	// same as AnonymousStateID.
	BypassStateID = StateID{SeqID: ^uint32(0), Other: ones}
	// CurrentStateID refers to the stateid that an earlier operation in the
	// same COMPOUND returned.
	CurrentStateID = StateID{SeqID: 1}
	// InvalidStateID is never valid. Operations use it as "no stateid".
	InvalidStateID = StateID{SeqID: ^uint32(0)}
)

var ones = [OtherSize]byte{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// Special reports whether Other is all zeros or all ones, which servers must
// not assign.
func (s *StateID) Special() bool { return s.Other == [OtherSize]byte{} || s.Other == ones }

// A SessionID is a sessionid4.
type SessionID [SessionIDSize]byte

// AppendTo appends s's wire form to b.
func (s *SessionID) AppendTo(b []byte) []byte { return append(b, s[:]...) }

// Decode reads s.
func (s *SessionID) Decode(r *xdr.Reader) { copy(s[:], r.Fixed(SessionIDSize)) }

// A Verifier is a verifier4.
type Verifier [VerifierSize]byte

// AppendTo appends v's wire form to b.
func (v *Verifier) AppendTo(b []byte) []byte { return append(b, v[:]...) }

// Decode reads v.
func (v *Verifier) Decode(r *xdr.Reader) { copy(v[:], r.Fixed(VerifierSize)) }

// A Time is an nfstime4: a point in time since 1970 (UTC).
type Time struct {
	Sec  int64
	Nsec uint32
}

// AppendTo appends t's wire form to b.
func (t *Time) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(b, uint64(t.Sec)), t.Nsec)
}

// Decode reads t.
func (t *Time) Decode(r *xdr.Reader) { t.Sec, t.Nsec = int64(r.Uint64()), r.Uint32() }

// A ChangeInfo is a change_info4: a directory's change attribute before and
// after a change. Atomic says that no other change happened in between.
type ChangeInfo struct {
	Atomic        bool
	Before, After uint64
}

// AppendTo appends c's wire form to b.
func (c *ChangeInfo) AppendTo(b []byte) []byte {
	return xdr.AppendUint64(xdr.AppendUint64(xdr.AppendBool(b, c.Atomic), c.Before), c.After)
}

// Decode reads c.
func (c *ChangeInfo) Decode(r *xdr.Reader) {
	c.Atomic, c.Before, c.After = r.Bool(), r.Uint64(), r.Uint64()
}

// A StateOwner is an open_owner4 or a lock_owner4. With a session the server
// ignores ClientID in arguments (RFC 8881, Section 8.1.2).
type StateOwner struct {
	ClientID uint64
	Owner    []byte // at most OpaqueLimit bytes
}

// AppendTo appends o's wire form to b.
func (o *StateOwner) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendUint64(b, o.ClientID), o.Owner)
}

// Decode reads o.
func (o *StateOwner) Decode(r *xdr.Reader) { o.ClientID, o.Owner = r.Uint64(), r.Opaque(OpaqueLimit) }

// A Message holds an operation's arguments or results.
type Message interface {
	AppendTo(b []byte) []byte
	Decode(r *xdr.Reader)
}

// A StatusRes holds the results of an operation that returns only a status.
type StatusRes struct{ Status Status }

// AppendTo appends s's wire form to b.
func (s *StatusRes) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, uint32(s.Status)) }

// Decode reads s.
func (s *StatusRes) Decode(r *xdr.Reader) { s.Status = Status(r.Uint32()) }

// Void holds the arguments of an operation that has none.
type Void struct{}

// AppendTo appends nothing.
func (*Void) AppendTo(b []byte) []byte { return b }

// Decode reads nothing.
func (*Void) Decode(*xdr.Reader) {}

// decodeEnum reads an enumeration named name and fails unless low <= value <= high.
func decodeEnum(r *xdr.Reader, name string, low, high uint32) uint32 {
	v := r.Uint32()
	if r.Err() == nil && (v < low || v > high) {
		r.Fail(fmt.Errorf("%w: %s %d", xdr.ErrValue, name, v))
	}
	return v
}
