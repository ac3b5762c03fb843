package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A DirWriter writes the results of READDIR or READDIRPLUS, entry by entry,
// within the sizes of the call. The attributes and the verifier of the
// directory are known only when the entries have been read, so DirWriter
// reserves their place in front.
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

// Add appends e and keeps no reference to e. It returns false if e does not
// fit; Add must not be called again after that.
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

// TooSmall reports that not even one entry, or not even the empty list, fits
// into the sizes of the call: NFS3ERR_TOOSMALL.
func (w *DirWriter) TooSmall() bool { return w.room < 0 || w.full && w.n == 0 }

// Finish returns the slice passed to NewDirWriter, with the results appended.
// eof reports that the directory ends after the offered entries.
func (w *DirWriter) Finish(dirAttr *PostOpAttr, verf uint64, eof bool) []byte {
	res := DirRes{Status: OK, DirAttr: *dirAttr, Verf: verf}
	entries := w.b[w.start+statusLen+dirHeadLen:]
	b := append(res.AppendTo(w.b[:w.start]), entries...) // in place; moved if there are no attributes
	b = xdr.AppendBool(b, false)
	return xdr.AppendBool(b, eof && !w.full)
}
