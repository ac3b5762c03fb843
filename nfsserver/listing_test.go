package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A listing is the results of READDIR or READDIRPLUS.
type listing struct {
	Status  nfs3.Status
	DirAttr nfs3.PostOpAttr
	Verf    uint64
	Entries []nfs3.Entry
	EOF     bool
	plus    bool
}

func (l *listing) AppendTo(b []byte) []byte { panic("results are only read here") }

func (l *listing) Decode(r *xdr.Reader) {
	var head nfs3.DirRes
	head.Decode(r)
	l.Status, l.DirAttr, l.Verf = head.Status, head.DirAttr, head.Verf
	if head.Status != nfs3.OK {
		return
	}
	d := nfs3.DirReader{R: r, Plus: l.plus}
	for e := (nfs3.Entry{}); d.Next(&e); {
		l.Entries = append(l.Entries, e)
	}
	l.EOF = d.EOF
}
