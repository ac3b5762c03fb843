package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// StateIDArgs are the FREE_STATEID and DELEGRETURN arguments.
type StateIDArgs struct{ StateID StateID }

// AppendTo appends a's wire form to b.
func (a *StateIDArgs) AppendTo(b []byte) []byte { return a.StateID.AppendTo(b) }

// Decode reads a.
func (a *StateIDArgs) Decode(r *xdr.Reader) { a.StateID.Decode(r) }

// TestStateIDArgs are the TEST_STATEID arguments up to the first of N stateids.
type TestStateIDArgs struct{ N uint32 }

// AppendTo appends a's wire form to b.
func (a *TestStateIDArgs) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, a.N) }

// Decode reads a, and fails with xdr.ErrShort if the message cannot hold N
// stateids.
func (a *TestStateIDArgs) Decode(r *xdr.Reader) {
	if a.N = r.Uint32(); r.Err() == nil && int64(a.N)*(4+OtherSize) > int64(r.Left()) {
		r.Fail(xdr.ErrShort)
	}
}

// TestStateIDRes are the TEST_STATEID results up to the first of N status
// codes. N is valid only if Status is OK.
type TestStateIDRes struct {
	Status Status
	N      uint32
}

// AppendTo appends s's wire form to b.
func (s *TestStateIDRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status == OK {
		b = xdr.AppendUint32(b, s.N)
	}
	return b
}

// Decode reads s, and fails with xdr.ErrShort if the message cannot hold N status
// codes.
func (s *TestStateIDRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	if s.N = r.Uint32(); r.Err() == nil && int64(s.N)*4 > int64(r.Left()) {
		r.Fail(xdr.ErrShort)
	}
}
