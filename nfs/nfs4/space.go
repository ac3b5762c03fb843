package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// RangeArgs are the ALLOCATE and DEALLOCATE arguments (RFC 7862, Sections 15.1
// and 15.4).
type RangeArgs struct {
	StateID        StateID
	Offset, Length uint64 // bytes
}

// AppendTo appends a's wire form to b.
func (a *RangeArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint64(xdr.AppendUint64(a.StateID.AppendTo(b), a.Offset), a.Length)
}

// Decode reads a.
func (a *RangeArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Offset, a.Length = r.Uint64(), r.Uint64()
}

// Content is a data_content4: the kind of content in part of a file.
type Content uint32

// The Content values.
const (
	ContentData Content = iota
	ContentHole
)

// SeekArgs are the SEEK arguments (RFC 7862, Section 15.11). What may have any
// value: the server returns ErrUnionNotSupp for an unknown one.
type SeekArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	What    Content
}

// AppendTo appends a's wire form to b.
func (a *SeekArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(a.StateID.AppendTo(b), a.Offset), uint32(a.What))
}

// Decode reads a.
func (a *SeekArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Offset, a.What = r.Uint64(), Content(r.Uint32())
}

// SeekRes are the SEEK results. EOF and Offset are valid only if Status is OK.
type SeekRes struct {
	Status Status
	EOF    bool
	Offset uint64 // bytes
}

// AppendTo appends s's wire form to b.
func (s *SeekRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status == OK {
		b = xdr.AppendUint64(xdr.AppendBool(b, s.EOF), s.Offset)
	}
	return b
}

// Decode reads s.
func (s *SeekRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.EOF, s.Offset = r.Bool(), r.Uint64()
	}
}

// ReadPlusRes are the READ_PLUS results (RFC 7862, Section 15.10), whose
// arguments are ReadArgs, up to the first of N Segments. EOF and N are valid
// only if Status is OK.
type ReadPlusRes struct {
	Status Status
	EOF    bool
	N      uint32
}

// AppendTo appends s's wire form to b.
func (s *ReadPlusRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status == OK {
		b = xdr.AppendUint32(xdr.AppendBool(b, s.EOF), s.N)
	}
	return b
}

// Decode reads s, and fails with xdr.ErrShort if the message cannot hold N
// Segments.
func (s *ReadPlusRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.EOF = r.Bool()
	if s.N = r.Uint32(); r.Err() == nil && int64(s.N)*minSegment > int64(r.Left()) {
		r.Fail(xdr.ErrShort)
	}
}

// minSegment is the minimum length of a Segment in bytes.
const minSegment = 4 + 8 + 4

// A Segment is a read_plus_content: data or a hole in a file. No part of it is
// DDP-eligible (RFC 8267, Section 6.1).
type Segment struct {
	What   Content
	Offset uint64 // bytes
	Length uint64 // a hole's length in bytes
	Data   []byte
}

// AppendTo appends s's wire form to b.
func (s *Segment) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(xdr.AppendUint32(b, uint32(s.What)), s.Offset)
	if s.What == ContentHole {
		return xdr.AppendUint64(b, s.Length)
	}
	return xdr.AppendOpaque(b, s.Data)
}

// Decode reads s. The Data aliases the Reader's input.
func (s *Segment) Decode(r *xdr.Reader) {
	s.What = Content(decodeEnum(r, "data_content4", uint32(ContentData), uint32(ContentHole)))
	s.Offset, s.Length, s.Data = r.Uint64(), 0, nil
	if s.What == ContentHole {
		s.Length = r.Uint64()
	} else {
		s.Data = r.Opaque(unbounded)
	}
}

// Advice is an IO_ADVISE_type4: how a client intends to use part of a file (RFC
// 7862, Section 15.5).
type Advice uint32

// The Advice values.
const (
	AdviseNormal Advice = iota
	AdviseSequential
	AdviseSequentialBackwards
	AdviseRandom
	AdviseWillNeed
	AdviseWillNeedOpportunistic
	AdviseDontNeed
	AdviseNoReuse
	AdviseRead
	AdviseWrite
	AdviseInitProximity
)

// IOAdviseArgs are the IO_ADVISE arguments. Count 0 means up to the end.
type IOAdviseArgs struct {
	StateID       StateID
	Offset, Count uint64 // bytes
	Hints         Bitmap // Advice values
}

// AppendTo appends a's wire form to b.
func (a *IOAdviseArgs) AppendTo(b []byte) []byte {
	return a.Hints.AppendTo(xdr.AppendUint64(xdr.AppendUint64(a.StateID.AppendTo(b), a.Offset), a.Count))
}

// Decode reads a.
func (a *IOAdviseArgs) Decode(r *xdr.Reader) {
	a.StateID.Decode(r)
	a.Offset, a.Count = r.Uint64(), r.Uint64()
	a.Hints.Decode(r)
}

// IOAdviseRes are the IO_ADVISE results. Hints, those that the server follows,
// are valid only if Status is OK.
type IOAdviseRes struct {
	Status Status
	Hints  Bitmap // Advice values
}

// AppendTo appends s's wire form to b.
func (s *IOAdviseRes) AppendTo(b []byte) []byte {
	if b = xdr.AppendUint32(b, uint32(s.Status)); s.Status == OK {
		b = s.Hints.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *IOAdviseRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Hints.Decode(r)
	}
}
