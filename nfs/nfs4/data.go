package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// Stable is a stable_how4: how durably the server must store written data.
type Stable uint32

// The Stable values.
const (
	Unstable Stable = iota
	DataSync
	FileSync
)

// ReadArgs are the READ arguments (RFC 8881, Section 18.22).
type ReadArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Count   uint32 // bytes
}

// AppendTo appends a's wire form to b.
func (a *ReadArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(a.StateID.AppendTo(b), a.Offset), a.Count)
}

// Decode reads a.
func (a *ReadArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Offset, a.Count = r.Uint64(), r.Uint32()
}

// ReadRes are the READ results. Count, EOF and Data are valid only if Status is
// OK. Data is a data item in the reply; AppendTo writes Count as its length and
// ignores Data, and Decode sets both.
type ReadRes struct {
	Status Status
	EOF    bool
	Count  uint32 // bytes
	Data   []byte
}

// AppendTo appends s's wire form to b, up to and including the length of the
// data.
func (s *ReadRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = xdr.AppendUint32(xdr.AppendBool(b, s.EOF), s.Count)
	}
	return b
}

// Decode reads s.
func (s *ReadRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.EOF = r.Bool()
		s.Data = r.Item(unbounded)
		s.Count = uint32(len(s.Data))
	}
}

// WriteArgs are the WRITE arguments (RFC 8881, Section 18.32). Data is a data
// item in the call.
type WriteArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Stable  Stable
	Data    []byte
}

// AppendTo appends a's wire form to b, up to and including the length of Data.
func (a *WriteArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(a.StateID.AppendTo(b), a.Offset)
	return xdr.AppendUint32(xdr.AppendUint32(b, uint32(a.Stable)), uint32(len(a.Data)))
}

// Decode reads a.
func (a *WriteArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Offset = r.Uint64()
	a.Stable = Stable(decodeEnum(r, "stable_how4", uint32(Unstable), uint32(FileSync)))
	a.Data = r.Item(unbounded)
}

// WriteRes are the WRITE results. All fields except Status are valid only if
// Status is OK.
type WriteRes struct {
	Status    Status
	Count     uint32 // bytes
	Committed Stable
	Verf      Verifier
}

// AppendTo appends s's wire form to b.
func (s *WriteRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Verf.AppendTo(xdr.AppendUint32(xdr.AppendUint32(b, s.Count), uint32(s.Committed)))
	}
	return b
}

// Decode reads s.
func (s *WriteRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Count = r.Uint32()
		s.Committed = Stable(decodeEnum(r, "stable_how4", uint32(Unstable), uint32(FileSync)))
		s.Verf.Decode(r)
	}
}

// CommitArgs are the COMMIT arguments (RFC 8881, Section 18.3); Count 0 means
// up to the end.
type CommitArgs struct {
	Offset uint64 // bytes
	Count  uint32 // bytes
}

// AppendTo appends a's wire form to b.
func (a *CommitArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(b, a.Offset), a.Count)
}

// Decode reads a.
func (a *CommitArgs) Decode(r *xdr.Reader) { a.Offset, a.Count = r.Uint64(), r.Uint32() }

// CommitRes are the COMMIT results; Verf is valid only if Status is OK.
type CommitRes struct {
	Status Status
	Verf   Verifier
}

// AppendTo appends s's wire form to b.
func (s *CommitRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Verf.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *CommitRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Verf.Decode(r)
	}
}
