package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// RenameArgs are the RENAME arguments.
type RenameArgs struct{ From, To DirOpArgs }

// AppendTo appends a's wire form to b.
func (a *RenameArgs) AppendTo(b []byte) []byte { return a.To.AppendTo(a.From.AppendTo(b)) }

// Decode reads a.
func (a *RenameArgs) Decode(r *xdr.Reader) {
	a.From.Decode(r)
	a.To.Decode(r)
}

// RenameRes are the RENAME results.
type RenameRes struct {
	Status         Status
	FromDir, ToDir WccData
}

// AppendTo appends s's wire form to b.
func (s *RenameRes) AppendTo(b []byte) []byte {
	return s.ToDir.AppendTo(s.FromDir.AppendTo(xdr.AppendUint32(b, uint32(s.Status))))
}

// Decode reads s.
func (s *RenameRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	s.FromDir.Decode(r)
	s.ToDir.Decode(r)
}

// LinkArgs are the LINK arguments: File gets another name.
type LinkArgs struct {
	File FH
	Link DirOpArgs
}

// AppendTo appends a's wire form to b.
func (a *LinkArgs) AppendTo(b []byte) []byte { return a.Link.AppendTo(a.File.AppendTo(b)) }

// Decode reads a.
func (a *LinkArgs) Decode(r *xdr.Reader) {
	a.File.Decode(r)
	a.Link.Decode(r)
}

// LinkRes are the LINK results.
type LinkRes struct {
	Status Status
	Attr   PostOpAttr // the file's
	Dir    WccData
}

// AppendTo appends s's wire form to b.
func (s *LinkRes) AppendTo(b []byte) []byte {
	return s.Dir.AppendTo(s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status))))
}

// Decode reads s.
func (s *LinkRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	s.Attr.Decode(r)
	s.Dir.Decode(r)
}
