package nfs4test

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

var void nfs4.Void

// statusRes returns memory for results that consist of a status.
func statusRes() *nfs4.StatusRes { return new(nfs4.StatusRes) }

func putRootFH() op { return op{nfs4.OpPutRootFH, &void, statusRes()} }

func putFH(h nfs4.FH) op { return op{nfs4.OpPutFH, &nfs4.HandleArgs{Object: h}, statusRes()} }

func getFH(res *nfs4.HandleRes) op { return op{nfs4.OpGetFH, &void, res} }

func saveFH() op { return op{nfs4.OpSaveFH, &void, statusRes()} }

func restoreFH() op { return op{nfs4.OpRestoreFH, &void, statusRes()} }

func lookupOp(name string) op { return op{nfs4.OpLookup, nameArgs(name), statusRes()} }

func lookupP() op { return op{nfs4.OpLookupP, &void, statusRes()} }

func nameArgs(name string) *nfs4.NameArgs { return &nfs4.NameArgs{Name: []byte(name)} }

func getAttr(res *nfs4.GetAttrRes, ids ...nfs4.AttrID) op {
	return op{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(ids...)}, res}
}

// newAttrs returns attributes with the given mask, filled in by set.
func newAttrs(set func(a *nfs4.Attrs), ids ...nfs4.AttrID) nfs4.Attrs {
	a := nfs4.Attrs{Mask: nfs4.BitmapOf(ids...)}
	if set != nil {
		set(&a)
	}
	return a
}

// modeAttrs returns attributes with a mode.
func modeAttrs(m uint32) nfs4.Attrs {
	return newAttrs(func(a *nfs4.Attrs) { a.Mode = m }, nfs4.AttrMode)
}

func setAttr(id nfs4.StateID, a nfs4.Attrs) op {
	return op{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: a}, new(nfs4.SetAttrRes)}
}

func accessOp(want uint32, res *nfs4.AccessRes) op {
	return op{nfs4.OpAccess, &nfs4.AccessArgs{Access: want}, res}
}

func openOp(a nfs4.OpenArgs, res *nfs4.OpenRes) op { return op{nfs4.OpOpen, &a, res} }

func closeFile(id nfs4.StateID) op {
	return op{nfs4.OpClose, &nfs4.CloseArgs{StateID: id}, new(nfs4.StateIDRes)}
}

func downgradeOp(id nfs4.StateID, share, deny uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: id, ShareAccess: share, ShareDeny: deny}, res}
}

func readOp(id nfs4.StateID, off uint64, count uint32, res *nfs4.ReadRes) op {
	return op{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Offset: off, Count: count}, res}
}

func writeOp(id nfs4.StateID, off uint64, how nfs4.Stable, data string, res *nfs4.WriteRes) op {
	return op{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Offset: off, Stable: how, Data: []byte(data)}, res}
}

func commitOp(off uint64, count uint32, res *nfs4.CommitRes) op {
	return op{nfs4.OpCommit, &nfs4.CommitArgs{Offset: off, Count: count}, res}
}

// createOp returns CREATE for any type except a regular file.
func createOp(kind nfs4.FileType, name string, a nfs4.Attrs) op {
	args := &nfs4.CreateArgs{Type: kind, Name: []byte(name), Attrs: a}
	switch kind {
	case nfs4.TypeLnk:
		args.LinkData = []byte("target")
	case nfs4.TypeBlk, nfs4.TypeChr:
		args.Dev = nfs4.SpecData{Major: 1, Minor: 3}
	}
	return op{nfs4.OpCreate, args, new(nfs4.CreateRes)}
}

func removeOp(name string) op { return op{nfs4.OpRemove, nameArgs(name), new(nfs4.ChangeRes)} }

func renameOp(from, to string) op {
	return op{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(from), New: []byte(to)}, new(nfs4.RenameRes)}
}

func linkOp(name string) op { return op{nfs4.OpLink, nameArgs(name), new(nfs4.ChangeRes)} }

func readLink(res *nfs4.ReadLinkRes) op { return op{nfs4.OpReadLink, &void, res} }

// readDir returns READDIR.
func readDir(a nfs4.ReadDirArgs, res *listing) op { return op{nfs4.OpReadDir, &a, res} }

// A listing holds the results of READDIR, with the entries.
type listing struct {
	nfs4.ReadDirRes
	entries []nfs4.DirEntry
	names   []string
	cookies []uint64
	eof     bool
	size    int // READDIR4resok, in bytes
}

func (l *listing) readEntries(r *xdr.Reader) {
	l.entries, l.names, l.cookies = nil, nil, nil
	before := r.Left()
	d := nfs4.DirReader{R: r}
	for e := (nfs4.DirEntry{}); d.Next(&e); {
		l.entries, l.names, l.cookies = append(l.entries, e), append(l.names, string(e.Name)), append(l.cookies, e.Cookie)
	}
	l.eof, l.size = d.EOF, nfs4.VerifierSize+before-r.Left()
}

// A testedStateIDs holds the results of TEST_STATEID.
type testedStateIDs struct{ statuses []nfs4.Status }

func (s *testedStateIDs) AppendTo(b []byte) []byte { return b }

func (s *testedStateIDs) Decode(r *xdr.Reader) {
	var head nfs4.TestStateIDRes
	head.Decode(r)
	for range min(head.N, 100) {
		s.statuses = append(s.statuses, nfs4.Status(r.Uint32()))
	}
}

func testStateID(res *testedStateIDs, ids ...nfs4.StateID) op {
	a := nfs4.TestStateIDArgs{N: uint32(len(ids))}
	m := raw(a.AppendTo(nil))
	for i := range ids {
		m = ids[i].AppendTo(m)
	}
	return op{nfs4.OpTestStateID, &m, res}
}

func freeStateID(id nfs4.StateID) op {
	return op{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: id}, statusRes()}
}

func destroySessionOp(id nfs4.SessionID) op {
	return op{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: id}, statusRes()}
}

func destroyClientIDOp(id uint64) op {
	return op{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id}, statusRes()}
}

func reclaimCompleteOp(oneFS bool) op {
	return op{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{OneFS: oneFS}, statusRes()}
}
