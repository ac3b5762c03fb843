package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A DirWriter writes the results of READDIR or READDIRPLUS, entry by entry,
// within the sizes that the call gives. Attributes and verifier of the
// directory come last, when the entries have been read, so their place in
// front is kept for them.
//
//	status │ dir_attributes │ cookieverf │ entry … entry │ FALSE │ eof
//	       └───────────── count or maxcount ────────────────────────┘
type DirWriter struct {
	b     []byte
	start int // of the status in b
	plus  bool
	room  int // bytes left for entries
	names int // bytes left for entries without attributes and handles
	n     int // entries written
	full  bool
}

// NewDirWriter returns a DirWriter that appends to b. maxCount is the largest
// READDIR3resok or READDIRPLUS3resok in bytes; dirCount, with plus, the most
// bytes of entries without their attributes and handles.
func NewDirWriter(b []byte, plus bool, maxCount, dirCount uint32) DirWriter {
	w := DirWriter{start: len(b), plus: plus, room: int(int64(maxCount) - dirHeadLen - dirTailLen), names: int(dirCount)}
	if !plus {
		w.names = w.room
	}
	var head [statusLen + dirHeadLen]byte
	w.b = append(b, head[:]...)
	return w
}

// Add appends e, which it does not keep, or returns false if there is no room
// for it. After that it must not be called again.
func (w *DirWriter) Add(e *Entry) bool {
	names, all := e.size(w.plus)
	if names > w.names || all > w.room {
		w.full = true
		return false
	}
	w.names -= names
	w.room -= all
	w.n++
	w.b = e.appendTo(w.b, w.plus)
	return true
}

// TooSmall tells that not even one entry, or not even the empty list, fits
// into the sizes that the call gives: NFS3ERR_TOOSMALL.
func (w *DirWriter) TooSmall() bool { return w.room < 0 || w.full && w.n == 0 }

// Finish returns the slice that NewDirWriter got, with the results appended.
// eof tells that the directory ends behind the entries that were offered.
func (w *DirWriter) Finish(dirAttr *PostOpAttr, verf uint64, eof bool) []byte {
	res := DirRes{Status: OK, DirAttr: *dirAttr, Verf: verf}
	entries := w.b[w.start+statusLen+dirHeadLen:]
	b := append(res.AppendTo(w.b[:w.start]), entries...) // in place; moved where there are no attributes
	b = xdr.AppendBool(b, false)
	return xdr.AppendBool(b, eof && !w.full)
}
