package nfs4test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

const garbageArgs = rpcmsg.GarbageArgs

// wait waits for the end of a lease.
func (t *T) wait(d time.Duration) { time.Sleep(d) }

// top returns the operations that lead to Path.
func (t *T) top() []op {
	ops := []op{putRootFH()}
	for _, name := range t.Path {
		ops = append(ops, lookup(name))
	}
	return ops
}

// dir returns the handle of the scenario's own directory, in which everybody
// may do everything.
func (t *T) dir() nfs4.FH {
	if t.at == nil {
		t.at = t.make(create(nfs4.TypeDir, t.unique(), mode(0o777)), t.top()...)
	}
	return t.at
}

// make creates an object in the directory to which before leads, and returns the
// handle.
func (t *T) make(o op, before ...op) nfs4.FH {
	var res nfs4.HandleRes
	t.want(nfs4.OK, append(before, o, getFH(&res))...)
	return slices.Clone(res.Object)
}

// kinds are the types of objects.
var kinds = map[string]nfs4.FileType{
	"file": nfs4.TypeReg, "directory": nfs4.TypeDir, "symbolic link": nfs4.TypeLnk, "pipe": nfs4.TypeFIFO,
	"socket": nfs4.TypeSock, "block device": nfs4.TypeBlk, "character device": nfs4.TypeChr,
}

// object returns the handle of a new object in the scenario's directory.
func (t *T) object(kind nfs4.FileType, name string) nfs4.FH {
	if kind == nfs4.TypeReg {
		fh, id := t.openNew(t.session(), name)
		t.want(nfs4.OK, putFH(fh), closeFile(id))
		return fh
	}
	return t.make(create(kind, name, mode(0o777)), putFH(t.dir()))
}

// each runs check for a new object of each type in want, or of all.
func (t *T) each(check func(name string, kind nfs4.FileType, fh nfs4.FH)) {
	for name, kind := range kinds {
		check(name, kind, t.object(kind, "of type "+name))
	}
}

// openName returns OPEN of a name, without creation.
func openName(name, owner string, share, deny uint32) nfs4.OpenArgs {
	return nfs4.OpenArgs{
		ShareAccess: share, ShareDeny: deny, Owner: nfs4.StateOwner{Owner: []byte(owner)}, How: nfs4.NoCreate, Name: []byte(name),
	}
}

// creating returns a with a creation mode and attributes.
func creating(a nfs4.OpenArgs, how nfs4.CreateMode, set nfs4.Attrs) nfs4.OpenArgs {
	a.How, a.Attrs = how, set
	return a
}

// openFH returns OPEN of the current file.
func openFH(owner string, share, deny uint32) nfs4.OpenArgs {
	a := openName("", owner, share, deny)
	a.Claim = nfs4.ClaimFH
	return a
}

// An opened is a file and an open of it.
type opened struct {
	fh nfs4.FH
	id nfs4.StateID
	s  *session
}

// openAs opens a file of the scenario's directory, which is created if there is
// none.
func (t *T) openAs(s *session, name, owner string, share, deny uint32) *opened {
	var fh nfs4.HandleRes
	var res nfs4.OpenRes
	a := creating(openName(name, owner, share, deny), nfs4.Unchecked, mode(0o666))
	s.want(nfs4.OK, putFH(t.dir()), open(a, &res), getFH(&fh))
	return &opened{slices.Clone(fh.Object), res.StateID, s}
}

// openNew creates a file and opens it for reading and writing.
func (t *T) openNew(s *session, name string) (nfs4.FH, nfs4.StateID) {
	o := t.openAs(s, name, "owner", nfs4.ShareBoth, 0)
	return o.fh, o.id
}

// file creates a file with some data, and leaves it open.
func (t *T) file(name, data string) *opened {
	o := t.openAs(t.session(), name, "owner", nfs4.ShareBoth, 0)
	if data != "" {
		var res nfs4.WriteRes
		t.want(nfs4.OK, putFH(o.fh), write(o.id, 0, nfs4.FileSync, data, &res))
		require.EqualValues(t, len(data), res.Count)
	}
	return o
}

// current makes an operation use the current stateid.
func (o op) current() op {
	switch a := o.args.(type) {
	case *nfs4.CloseArgs:
		a.StateID = nfs4.CurrentStateID
	case *nfs4.ReadArgs:
		a.StateID = nfs4.CurrentStateID
	case *nfs4.WriteArgs:
		a.StateID = nfs4.CurrentStateID
	}
	return o
}

// attrsOf returns attributes of an object.
func (t *T) attrsOf(fh nfs4.FH, ids ...nfs4.AttrID) nfs4.Attrs {
	var res nfs4.GetAttrRes
	t.want(nfs4.OK, putFH(fh), getAttr(&res, ids...))
	return res.Attrs
}
