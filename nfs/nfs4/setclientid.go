package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// Only NFSv4.0 has these operations: sessions replace them later (RFC 8881,
// Section 17). The arguments of RENEW are ClientIDArgs, and the results of
// OPEN_CONFIRM are StateIDRes.

// A ClientAddr is a clientaddr4: the transport and the universal address at
// which a client accepts callbacks (RFC 7530, Section 2.2.10).
type ClientAddr struct{ NetID, Addr []byte }

// AppendTo appends a's wire form to b.
func (a *ClientAddr) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendOpaque(b, a.NetID), a.Addr)
}

// Decode reads a.
func (a *ClientAddr) Decode(r *xdr.Reader) {
	a.NetID, a.Addr = r.Opaque(unbounded), r.Opaque(unbounded)
}

// SetClientIDArgs are the SETCLIENTID arguments (RFC 7530, Section 16.33).
type SetClientIDArgs struct {
	Verifier  Verifier
	ID        []byte // nfs_client_id4's id, at most OpaqueLimit bytes
	CBProgram uint32
	Callback  ClientAddr
	CBIdent   uint32
}

// AppendTo appends a's wire form to b.
func (a *SetClientIDArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(a.Verifier.AppendTo(b), a.ID), a.CBProgram)
	return xdr.AppendUint32(a.Callback.AppendTo(b), a.CBIdent)
}

// Decode reads a.
func (a *SetClientIDArgs) Decode(r *xdr.Reader) {
	a.Verifier.Decode(r)
	a.ID, a.CBProgram = r.Opaque(OpaqueLimit), r.Uint32()
	a.Callback.Decode(r)
	a.CBIdent = r.Uint32()
}

// SetClientIDRes are the SETCLIENTID results. ClientID and Confirm are valid
// only if Status is OK, Using only if it is ErrClidInUse.
type SetClientIDRes struct {
	Status   Status
	ClientID uint64
	Confirm  Verifier
	Using    ClientAddr // the address of the client that uses the name
}

// AppendTo appends s's wire form to b.
func (s *SetClientIDRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	switch s.Status {
	case OK:
		b = s.Confirm.AppendTo(xdr.AppendUint64(b, s.ClientID))
	case ErrClidInUse:
		b = s.Using.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *SetClientIDRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	switch s.Status {
	case OK:
		s.ClientID = r.Uint64()
		s.Confirm.Decode(r)
	case ErrClidInUse:
		s.Using.Decode(r)
	}
}

// SetClientIDConfirmArgs are the SETCLIENTID_CONFIRM arguments.
type SetClientIDConfirmArgs struct {
	ClientID uint64
	Confirm  Verifier
}

// AppendTo appends a's wire form to b.
func (a *SetClientIDConfirmArgs) AppendTo(b []byte) []byte {
	return a.Confirm.AppendTo(xdr.AppendUint64(b, a.ClientID))
}

// Decode reads a.
func (a *SetClientIDConfirmArgs) Decode(r *xdr.Reader) {
	a.ClientID = r.Uint64()
	a.Confirm.Decode(r)
}

// OpenConfirmArgs are the OPEN_CONFIRM arguments.
type OpenConfirmArgs struct {
	StateID StateID
	SeqID   uint32
}

// AppendTo appends a's wire form to b.
func (a *OpenConfirmArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(a.StateID.AppendTo(b), a.SeqID)
}

// Decode reads a.
func (a *OpenConfirmArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.SeqID = r.Uint32()
}

// ReleaseLockOwnerArgs are the RELEASE_LOCKOWNER arguments.
type ReleaseLockOwnerArgs struct{ Owner StateOwner }

// AppendTo appends a's wire form to b.
func (a *ReleaseLockOwnerArgs) AppendTo(b []byte) []byte { return a.Owner.AppendTo(b) }

// Decode reads a.
func (a *ReleaseLockOwnerArgs) Decode(r *xdr.Reader) { a.Owner.Decode(r) }
