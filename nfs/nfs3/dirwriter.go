package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// A DirWriter writes READDIR or READDIRPLUS results, entry by entry, within the
// call's size limits. The directory's attributes and verifier are known only
// when the entries have been read, so DirWriter reserves space for them at the
// beginning.
//
//	status │ dir_attributes │ cookieverf │ entry … entry │ FALSE │ eof
//	       └───────────── count or maxcount ────────────────────────┘
type DirWriter struct {
	b         []byte
	start     int // where the status begins in b
	plus      bool
	bytesLeft int // bytes left for entries
	names     int // bytes left for entries without attributes and handles
	n         int // entries written
	full      bool
}

// NewDirWriter returns a DirWriter that appends to b. maxCount is the maximum
// size of the READDIR3resok or READDIRPLUS3resok in bytes; dirCount, with plus,
// that of the entries without their attributes and handles.
func NewDirWriter(b []byte, plus bool, maxCount, dirCount uint32) DirWriter {
	w := DirWriter{start: len(b), plus: plus, bytesLeft: int(int64(maxCount) - dirHeadLen - dirTailLen), names: int(dirCount)}
	if !plus {
		w.names = w.bytesLeft
	}
	var head [statusLen + dirHeadLen]byte
	w.b = append(b, head[:]...)
	return w
}

// Add appends e and keeps no reference to e. It returns false if e does not
// fit; Add must not be called again after that.
func (w *DirWriter) Add(e *Entry) bool {
	names, all := e.wireSizes(w.plus)
	if names > w.names || all > w.bytesLeft {
		w.full = true
		return false
	}
	w.names -= names
	w.bytesLeft -= all
	w.n++
	w.b = e.appendTo(w.b, w.plus)
	return true
}

// TooSmall reports that not even one entry, or not even the empty list, fits
// into the call's limits: NFS3ERR_TOOSMALL.
func (w *DirWriter) TooSmall() bool { return w.bytesLeft < 0 || w.full && w.n == 0 }

// Finish returns the slice passed to NewDirWriter, with the results appended.
// eof reports that the directory ends after the offered entries.
func (w *DirWriter) Finish(dirAttr *PostOpAttr, verf uint64, eof bool) []byte {
	res := DirRes{Status: OK, DirAttr: *dirAttr, Verf: verf}
	entries := w.b[w.start+statusLen+dirHeadLen:]
	b := append(res.AppendTo(w.b[:w.start]), entries...) // in place; moved if there are no attributes
	b = xdr.AppendBool(b, false)
	return xdr.AppendBool(b, eof && !w.full)
}
