package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// Stable is a stable_how: how durably the server must store written data.
type Stable uint32

// The Stable values.
const (
	Unstable Stable = iota
	DataSync
	FileSync
)

// ReadArgs are the READ arguments.
type ReadArgs struct {
	File   FH
	Offset uint64 // bytes
	Count  uint32 // bytes
}

// AppendTo appends a's wire form to b.
func (a *ReadArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(a.File.AppendTo(b), a.Offset), a.Count)
}

// Decode reads a.
func (a *ReadArgs) Decode(r *xdr.Reader) {
	a.File.Decode(r)
	a.Offset = r.Uint64()
	a.Count = r.Uint32()
}

// ReadRes are the READ results. Count, EOF and Data are valid only if Status is
// OK. Data is the reply's data item; AppendTo ignores Data, and Decode sets it.
type ReadRes struct {
	Status Status
	Attr   PostOpAttr
	Count  uint32 // bytes
	EOF    bool
	Data   []byte
}

// AppendTo appends s's wire form to b, up to and including the length of the
// data, which is Count.
func (s *ReadRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status == OK {
		b = xdr.AppendUint32(b, s.Count)
		b = xdr.AppendBool(b, s.EOF)
		b = xdr.AppendUint32(b, s.Count)
	}
	return b
}

// Decode reads s. The wire form contains the data's length twice; if they
// differ, Decode fails with xdr.ErrValue.
func (s *ReadRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Attr.Decode(r); s.Status == OK {
		s.Count = r.Uint32()
		s.EOF = r.Bool()
		s.Data = r.Item(unbounded)
		checkCount(r, s.Count, s.Data)
	}
}

// LocateRead reads READ results up to the data, and returns their length in bytes, or
// 0 (oncrpc.Exchange.Locate).
func LocateRead(r *xdr.Reader) int {
	var attr PostOpAttr
	status := Status(r.Uint32())
	if attr.Decode(r); status != OK {
		return 0
	}
	r.Uint32() // count
	r.Bool()   // EOF
	return int(r.Uint32())
}

// WriteArgs are the WRITE arguments. Data is the call's data item.
type WriteArgs struct {
	File   FH
	Offset uint64 // bytes
	Stable Stable
	Data   []byte
}

// AppendTo appends a's wire form to b, up to and including the length of Data.
func (a *WriteArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(a.File.AppendTo(b), a.Offset)
	b = xdr.AppendUint32(b, uint32(len(a.Data))) // count
	b = xdr.AppendUint32(b, uint32(a.Stable))
	return xdr.AppendUint32(b, uint32(len(a.Data)))
}

// Decode reads a. The wire form contains the data's length twice; if they
// differ, Decode fails with xdr.ErrValue, because such a call is invalid.
func (a *WriteArgs) Decode(r *xdr.Reader) {
	a.File.Decode(r)
	a.Offset = r.Uint64()
	count := r.Uint32()
	a.Stable = Stable(decodeEnum(r, "stable_how", uint32(Unstable), uint32(FileSync)))
	a.Data = r.Item(unbounded)
	checkCount(r, count, a.Data)
}

// WriteRes are the WRITE results. All fields except Wcc are valid only if
// Status is OK.
type WriteRes struct {
	Status    Status
	Wcc       WccData
	Count     uint32 // bytes
	Committed Stable
	Verf      uint64 // a writeverf3
}

// AppendTo appends s's wire form to b.
func (s *WriteRes) AppendTo(b []byte) []byte {
	b = s.Wcc.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status == OK {
		b = xdr.AppendUint32(b, s.Count)
		b = xdr.AppendUint32(b, uint32(s.Committed))
		b = xdr.AppendUint64(b, s.Verf)
	}
	return b
}

// Decode reads s.
func (s *WriteRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Wcc.Decode(r); s.Status == OK {
		s.Count = r.Uint32()
		s.Committed = Stable(decodeEnum(r, "stable_how", uint32(Unstable), uint32(FileSync)))
		s.Verf = r.Uint64()
	}
}

// CommitArgs are the COMMIT arguments; Count 0 means up to the end.
type CommitArgs struct {
	File   FH
	Offset uint64 // bytes
	Count  uint32 // bytes
}

// AppendTo appends a's wire form to b.
func (a *CommitArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(a.File.AppendTo(b), a.Offset), a.Count)
}

// Decode reads a.
func (a *CommitArgs) Decode(r *xdr.Reader) {
	a.File.Decode(r)
	a.Offset = r.Uint64()
	a.Count = r.Uint32()
}

// CommitRes are the COMMIT results; Verf is valid only if Status is OK.
type CommitRes struct {
	Status Status
	Wcc    WccData
	Verf   uint64 // a writeverf3
}

// AppendTo appends s's wire form to b.
func (s *CommitRes) AppendTo(b []byte) []byte {
	b = s.Wcc.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status == OK {
		b = xdr.AppendUint64(b, s.Verf)
	}
	return b
}

// Decode reads s.
func (s *CommitRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Wcc.Decode(r); s.Status == OK {
		s.Verf = r.Uint64()
	}
}
