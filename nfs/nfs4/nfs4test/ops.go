package nfs4test

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/xdr"
)

var void nfs4.Void

// status is memory for results that have nothing but a status.
func status() *nfs4.StatusRes { return new(nfs4.StatusRes) }

func putRootFH() op { return op{nfs4.OpPutRootFH, &void, status()} }

func putFH(h nfs4.FH) op { return op{nfs4.OpPutFH, &nfs4.HandleArgs{Object: h}, status()} }

func getFH(res *nfs4.HandleRes) op { return op{nfs4.OpGetFH, &void, res} }

func saveFH() op { return op{nfs4.OpSaveFH, &void, status()} }

func restoreFH() op { return op{nfs4.OpRestoreFH, &void, status()} }

func lookup(name string) op { return op{nfs4.OpLookup, name4(name), status()} }

func lookupP() op { return op{nfs4.OpLookupP, &void, status()} }

func name4(name string) *nfs4.NameArgs { return &nfs4.NameArgs{Name: []byte(name)} }

func getAttr(res *nfs4.GetAttrRes, ids ...nfs4.AttrID) op {
	return op{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(ids...)}, res}
}

// attrs returns attributes with some of them set.
func attrs(set func(a *nfs4.Attrs), ids ...nfs4.AttrID) nfs4.Attrs {
	a := nfs4.Attrs{Mask: nfs4.BitmapOf(ids...)}
	if set != nil {
		set(&a)
	}
	return a
}

// mode returns attributes with a mode.
func mode(m uint32) nfs4.Attrs {
	return attrs(func(a *nfs4.Attrs) { a.Mode = m }, nfs4.AttrMode)
}

func setAttr(id nfs4.StateID, a nfs4.Attrs) op {
	return op{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: a}, new(nfs4.SetAttrRes)}
}

func access(want uint32, res *nfs4.AccessRes) op {
	return op{nfs4.OpAccess, &nfs4.AccessArgs{Access: want}, res}
}

func open(a nfs4.OpenArgs, res *nfs4.OpenRes) op { return op{nfs4.OpOpen, &a, res} }

func closeFile(id nfs4.StateID) op {
	return op{nfs4.OpClose, &nfs4.CloseArgs{StateID: id}, new(nfs4.StateIDRes)}
}

func downgrade(id nfs4.StateID, share, deny uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: id, ShareAccess: share, ShareDeny: deny}, res}
}

func read(id nfs4.StateID, off uint64, count uint32, res *nfs4.ReadRes) op {
	return op{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Offset: off, Count: count}, res}
}

func write(id nfs4.StateID, off uint64, how nfs4.Stable, data string, res *nfs4.WriteRes) op {
	return op{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Offset: off, Stable: how, Data: []byte(data)}, res}
}

func commit(off uint64, count uint32, res *nfs4.CommitRes) op {
	return op{nfs4.OpCommit, &nfs4.CommitArgs{Offset: off, Count: count}, res}
}

// create makes an object of any type but a regular file.
func create(kind nfs4.FileType, name string, a nfs4.Attrs) op {
	args := &nfs4.CreateArgs{Type: kind, Name: []byte(name), Attrs: a}
	switch kind {
	case nfs4.TypeLnk:
		args.LinkData = []byte("target")
	case nfs4.TypeBlk, nfs4.TypeChr:
		args.Dev = nfs4.SpecData{Major: 1, Minor: 3}
	}
	return op{nfs4.OpCreate, args, new(nfs4.CreateRes)}
}

func remove(name string) op { return op{nfs4.OpRemove, name4(name), new(nfs4.ChangeRes)} }

func rename(from, to string) op {
	return op{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(from), New: []byte(to)}, new(nfs4.RenameRes)}
}

func link(name string) op { return op{nfs4.OpLink, name4(name), new(nfs4.ChangeRes)} }

func readLink(res *nfs4.ReadLinkRes) op { return op{nfs4.OpReadLink, &void, res} }

// readDir asks for some entries from a cookie on.
func readDir(a nfs4.ReadDirArgs, res *listing) op { return op{nfs4.OpReadDir, &a, res} }

// A listing is the results of READDIR with its entries.
type listing struct {
	nfs4.ReadDirRes
	entries []nfs4.DirEntry
	names   []string
	cookies []uint64
	eof     bool
	size    int // bytes of the READDIR4resok
}

func (l *listing) read(r *xdr.Reader) {
	l.entries, l.names, l.cookies = nil, nil, nil
	before := r.Left()
	d := nfs4.DirReader{R: r}
	for e := (nfs4.DirEntry{}); d.Next(&e); {
		l.entries, l.names, l.cookies = append(l.entries, e), append(l.names, string(e.Name)), append(l.cookies, e.Cookie)
	}
	l.eof, l.size = d.EOF, nfs4.VerifierSize+before-r.Left()
}

// A seen is the results of TEST_STATEID.
type seen struct{ all []nfs4.Status }

func (s *seen) AppendTo(b []byte) []byte { return b }

func (s *seen) Decode(r *xdr.Reader) {
	var head nfs4.TestStateIDRes
	head.Decode(r)
	for range min(head.N, 100) {
		s.all = append(s.all, nfs4.Status(r.Uint32()))
	}
}

func testStateID(res *seen, ids ...nfs4.StateID) op {
	a := nfs4.TestStateIDArgs{N: uint32(len(ids))}
	m := raw(a.AppendTo(nil))
	for i := range ids {
		m = ids[i].AppendTo(m)
	}
	return op{nfs4.OpTestStateID, &m, res}
}

func freeStateID(id nfs4.StateID) op {
	return op{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: id}, status()}
}

func destroySessionOp(id nfs4.SessionID) op {
	return op{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: id}, status()}
}

func destroyClientIDOp(id uint64) op {
	return op{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id}, status()}
}

func reclaimCompleteOp(oneFS bool) op {
	return op{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{OneFS: oneFS}, status()}
}
