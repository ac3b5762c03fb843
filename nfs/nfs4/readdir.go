package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// ReadDirArgs are the READDIR arguments (RFC 8881, Section 18.23).
type ReadDirArgs struct {
	Cookie   uint64
	Verf     Verifier
	DirCount uint32 // maximum size of names and cookies in bytes: a hint
	MaxCount uint32 // maximum size of the READDIR4resok in bytes
	Request  Bitmap
}

// AppendTo appends a's wire form to b.
func (a *ReadDirArgs) AppendTo(b []byte) []byte {
	b = a.Verf.AppendTo(xdr.AppendUint64(b, a.Cookie))
	return a.Request.AppendTo(xdr.AppendUint32(xdr.AppendUint32(b, a.DirCount), a.MaxCount))
}

// Decode reads a.
func (a *ReadDirArgs) Decode(r *xdr.Reader) {
	a.Cookie = r.Uint64()
	a.Verf.Decode(r)
	a.DirCount, a.MaxCount = r.Uint32(), r.Uint32()
	a.Request.Decode(r)
}

// ReadDirRes is the beginning of the READDIR results. If Status is OK, Verf is
// valid and a list of entries follows: see DirWriter and DirReader.
type ReadDirRes struct {
	Status Status
	Verf   Verifier
}

// AppendTo appends s's wire form to b.
func (s *ReadDirRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = s.Verf.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *ReadDirRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Verf.Decode(r)
	}
}

// A DirEntry is an entry4.
type DirEntry struct {
	Cookie uint64
	Name   []byte
	Attrs  Attrs
}

// dirTailLen is the length of the end of the list and eof, in bytes.
const dirTailLen = 4 + 4

// A DirWriter writes READDIR results, entry by entry, within the call's size
// limit.
//
//	status │ cookieverf │ TRUE entry … TRUE entry │ FALSE │ eof
//	       └──────────────── maxcount ────────────────────────┘
type DirWriter struct {
	b         []byte
	start     int // where the status begins in b
	bytesLeft int // bytes left for entries
	n         int // entries written
	full      bool
}

// NewDirWriter returns a DirWriter that appends to b at most maxCount bytes
// after the status.
func NewDirWriter(b []byte, maxCount uint32) DirWriter {
	w := DirWriter{start: len(b), bytesLeft: int(int64(maxCount) - VerifierSize - dirTailLen)}
	res := ReadDirRes{Status: OK}
	w.b = res.AppendTo(b)
	return w
}

// Add appends e and keeps no reference to it. It returns false if e does not
// fit; Add must not be called again after that.
func (w *DirWriter) Add(e *DirEntry) bool {
	n := len(w.b)
	b := xdr.AppendUint64(xdr.AppendBool(w.b, true), e.Cookie)
	b = e.Attrs.AppendTo(xdr.AppendOpaque(b, e.Name))
	if len(b)-n > w.bytesLeft {
		w.b, w.full = b[:n], true
		return false
	}
	w.b = b
	w.bytesLeft -= len(b) - n
	w.n++
	return true
}

// Empty reports that no entry was added.
func (w *DirWriter) Empty() bool { return w.n == 0 }

// TooSmall reports that not even one entry, or not even the empty list, fits
// into the call's limit: NFS4ERR_TOOSMALL.
func (w *DirWriter) TooSmall() bool { return w.bytesLeft < 0 || w.full && w.n == 0 }

// Finish returns the slice passed to NewDirWriter, with the results appended.
// eof reports that the directory ends after the offered entries.
func (w *DirWriter) Finish(verf Verifier, eof bool) []byte {
	copy(w.b[w.start+4:], verf[:])
	return xdr.AppendBool(xdr.AppendBool(w.b, false), eof && !w.full)
}

// A DirReader reads the entries after a ReadDirRes whose Status is OK.
type DirReader struct {
	R   *xdr.Reader
	EOF bool // set at the list's end: the directory also ends here
}

// Next reads the next entry into e. At the end of the list and after an error
// of R it returns false.
func (d *DirReader) Next(e *DirEntry) bool {
	if more := d.R.Bool(); !more {
		d.EOF = d.R.Bool()
		return false
	}
	e.Cookie, e.Name = d.R.Uint64(), d.R.Opaque(unbounded)
	e.Attrs.Decode(d.R)
	return d.R.Err() == nil
}
