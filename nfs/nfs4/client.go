package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// ProtectHow is a state_protect_how4: how a client protects its state.
type ProtectHow uint32

// The ProtectHow values.
const (
	ProtectNone ProtectHow = iota
	ProtectMachCred
	ProtectSSV
)

// A StateProtect is a state_protect4_a or state_protect4_r (RFC 8881, Section
// 18.35). Decode accepts ProtectSSV's arguments and drops their other fields,
// because the server rejects it.
type StateProtect struct {
	How                    ProtectHow
	MustEnforce, MustAllow Bitmap // sets of operations; with ProtectMachCred and ProtectSSV

	// Void says that ProtectSSV's arguments lack hash algorithms, encryption
	// algorithms, or a window.
	Void bool
}

// AppendTo appends p's wire form to b. How must not be ProtectSSV.
func (p *StateProtect) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(p.How))
	if p.How == ProtectMachCred {
		b = p.MustAllow.AppendTo(p.MustEnforce.AppendTo(b))
	}
	return b
}

// decodeForm reads p. result selects the form of results, whose SSV arm differs.
func (p *StateProtect) decodeForm(r *xdr.Reader, result bool) {
	*p = StateProtect{How: ProtectHow(decodeEnum(r, "state_protect_how4", uint32(ProtectNone), uint32(ProtectSSV)))}
	if p.How == ProtectNone {
		return
	}
	p.MustEnforce.Decode(r)
	p.MustAllow.Decode(r)
	switch {
	case p.How != ProtectSSV:
	case result:
		r.Uint32() // hash algorithm
		r.Uint32() // encryption algorithm
		r.Uint32() // length of the SSV
		r.Uint32() // window
		skipOpaques(r)
	default:
		hash, encryption, window := skipOpaques(r), skipOpaques(r), r.Uint32()
		p.Void = hash == 0 || encryption == 0 || window == 0
		r.Uint32() // number of handles
	}
}

// skipOpaques reads a list of opaque items, and returns its length.
func skipOpaques(r *xdr.Reader) uint32 {
	length := r.Uint32()
	for n := length; n > 0 && r.Err() == nil; n-- {
		r.Opaque(unbounded)
	}
	return length
}

// An ImplID is an nfs_impl_id4: a client's or server's implementation, for
// logs.
type ImplID struct {
	Set          bool // the list has an element
	Domain, Name []byte
	Date         Time
}

// AppendTo appends i's wire form to b.
func (i *ImplID) AppendTo(b []byte) []byte {
	if b = xdr.AppendBool(b, i.Set); i.Set {
		b = i.Date.AppendTo(xdr.AppendOpaque(xdr.AppendOpaque(b, i.Domain), i.Name))
	}
	return b
}

// Decode reads i.
func (i *ImplID) Decode(r *xdr.Reader) {
	*i = ImplID{Set: decodeEnum(r, "length of nfs_impl_id4", 0, 1) == 1}
	if i.Set {
		i.Domain, i.Name = r.Opaque(unbounded), r.Opaque(unbounded)
		i.Date.Decode(r)
	}
}

// ExchangeIDArgs are the EXCHANGE_ID arguments (RFC 8881, Section 18.35).
type ExchangeIDArgs struct {
	Verifier Verifier // changes when the client restarts
	Owner    []byte   // at most OpaqueLimit bytes
	Flags    uint32
	Protect  StateProtect
	Impl     ImplID
}

// AppendTo appends a's wire form to b.
func (a *ExchangeIDArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(a.Verifier.AppendTo(b), a.Owner), a.Flags)
	return a.Impl.AppendTo(a.Protect.AppendTo(b))
}

// Decode reads a.
func (a *ExchangeIDArgs) Decode(r *xdr.Reader) {
	a.Verifier.Decode(r)
	a.Owner, a.Flags = r.Opaque(OpaqueLimit), r.Uint32()
	a.Protect.decodeForm(r, false)
	a.Impl.Decode(r)
}

// ExchangeIDRes are the EXCHANGE_ID results; all fields except Status are valid
// only if Status is OK.
type ExchangeIDRes struct {
	Status     Status
	ClientID   uint64
	SequenceID uint32 // csa_sequence for the first CREATE_SESSION
	Flags      uint32
	Protect    StateProtect
	MinorID    uint64 // server_owner4
	MajorID    []byte
	Scope      []byte
	Impl       ImplID
}

// AppendTo appends s's wire form to b.
func (s *ExchangeIDRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint64(b, s.ClientID), s.SequenceID), s.Flags)
	b = xdr.AppendUint64(s.Protect.AppendTo(b), s.MinorID)
	return s.Impl.AppendTo(xdr.AppendOpaque(xdr.AppendOpaque(b, s.MajorID), s.Scope))
}

// Decode reads s.
func (s *ExchangeIDRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.ClientID, s.SequenceID, s.Flags = r.Uint64(), r.Uint32(), r.Uint32()
	s.Protect.decodeForm(r, true)
	s.MinorID, s.MajorID, s.Scope = r.Uint64(), r.Opaque(OpaqueLimit), r.Opaque(OpaqueLimit)
	s.Impl.Decode(r)
}

// ClientIDArgs are the DESTROY_CLIENTID arguments.
type ClientIDArgs struct{ ClientID uint64 }

// AppendTo appends a's wire form to b.
func (a *ClientIDArgs) AppendTo(b []byte) []byte { return xdr.AppendUint64(b, a.ClientID) }

// Decode reads a.
func (a *ClientIDArgs) Decode(r *xdr.Reader) { a.ClientID = r.Uint64() }

// ReclaimCompleteArgs are the RECLAIM_COMPLETE arguments. OneFS limits it to
// the file system of the current filehandle.
type ReclaimCompleteArgs struct{ OneFS bool }

// AppendTo appends a's wire form to b.
func (a *ReclaimCompleteArgs) AppendTo(b []byte) []byte { return xdr.AppendBool(b, a.OneFS) }

// Decode reads a.
func (a *ReclaimCompleteArgs) Decode(r *xdr.Reader) { a.OneFS = r.Bool() }
