package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// ReadDirArgs are the READDIR arguments.
type ReadDirArgs struct {
	Dir    FH
	Cookie uint64
	Verf   uint64 // a cookieverf3
	Count  uint32 // maximum size of the READDIR3resok in bytes
}

// AppendTo appends a's wire form to b.
func (a *ReadDirArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(a.Dir.AppendTo(b), a.Cookie)
	return xdr.AppendUint32(xdr.AppendUint64(b, a.Verf), a.Count)
}

// Decode reads a.
func (a *ReadDirArgs) Decode(r *xdr.Reader) {
	a.Dir.Decode(r)
	a.Cookie, a.Verf = r.Uint64(), r.Uint64()
	a.Count = r.Uint32()
}

// ReadDirPlusArgs are the READDIRPLUS arguments.
type ReadDirPlusArgs struct {
	Dir      FH
	Cookie   uint64
	Verf     uint64 // a cookieverf3
	DirCount uint32 // maximum size of entries without attributes and handles, in bytes
	MaxCount uint32 // maximum size of the READDIRPLUS3resok in bytes
}

// AppendTo appends a's wire form to b.
func (a *ReadDirPlusArgs) AppendTo(b []byte) []byte {
	b = xdr.AppendUint64(a.Dir.AppendTo(b), a.Cookie)
	b = xdr.AppendUint32(xdr.AppendUint64(b, a.Verf), a.DirCount)
	return xdr.AppendUint32(b, a.MaxCount)
}

// Decode reads a.
func (a *ReadDirPlusArgs) Decode(r *xdr.Reader) {
	a.Dir.Decode(r)
	a.Cookie, a.Verf = r.Uint64(), r.Uint64()
	a.DirCount, a.MaxCount = r.Uint32(), r.Uint32()
}

// DirRes is the beginning of the READDIR and READDIRPLUS results. If Status is
// OK, Verf, a cookieverf3, is valid, and a list of entries follows: see
// DirWriter and DirReader.
type DirRes struct {
	Status  Status
	DirAttr PostOpAttr
	Verf    uint64
}

// AppendTo appends s's wire form to b.
func (s *DirRes) AppendTo(b []byte) []byte {
	b = s.DirAttr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status == OK {
		b = xdr.AppendUint64(b, s.Verf)
	}
	return b
}

// Decode reads s.
func (s *DirRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.DirAttr.Decode(r); s.Status == OK {
		s.Verf = r.Uint64()
	}
}

// An Entry is an entry3, or an entryplus3 with Attr and Handle.
type Entry struct {
	FileID uint64
	Name   []byte
	Cookie uint64
	Attr   PostOpAttr
	Handle FH // nil: none
}

// wireSizes returns the size of e's wire form in bytes, without and with the
// fields that only READDIRPLUS has.
func (e *Entry) wireSizes(plus bool) (names, all int) {
	names = entryLen + len(e.Name) + xdr.Pad(len(e.Name))
	all = names
	if !plus {
		return names, all
	}
	all += 4 + 4
	if e.Attr.OK {
		all += attrLen
	}
	if e.Handle != nil {
		all += 4 + len(e.Handle) + xdr.Pad(len(e.Handle))
	}
	return names, all
}

// appendTo appends e to b, after the word that precedes an entry.
func (e *Entry) appendTo(b []byte, plus bool) []byte {
	b = xdr.AppendUint64(xdr.AppendBool(b, true), e.FileID)
	b = xdr.AppendUint64(xdr.AppendOpaque(b, e.Name), e.Cookie)
	if plus {
		b = e.Handle.appendPost(e.Attr.AppendTo(b))
	}
	return b
}

// A DirReader reads the entries after a DirRes whose Status is OK.
type DirReader struct {
	R    *xdr.Reader
	Plus bool // entryplus3
	EOF  bool // set at the list's end: the directory also ends here
}

// Next reads the next entry into e. At the end of the list and after an error
// of R it returns false.
func (d *DirReader) Next(e *Entry) bool {
	if more := d.R.Bool(); !more {
		d.EOF = d.R.Bool()
		return false
	}
	*e = Entry{FileID: d.R.Uint64(), Name: d.R.Opaque(unbounded), Cookie: d.R.Uint64()}
	if d.Plus {
		e.Attr.Decode(d.R)
		e.Handle.decodePost(d.R)
	}
	return d.R.Err() == nil
}
