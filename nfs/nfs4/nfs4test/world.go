package nfs4test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

const garbageArgs = rpcmsg.GarbageArgs

// waitForLease waits until a lease has expired.
func (t *T) waitForLease(d time.Duration) { time.Sleep(d) }

// lookupPathOps returns the operations that look up Path.
func (t *T) lookupPathOps() []op {
	ops := []op{putRootFH()}
	for _, name := range t.Path {
		ops = append(ops, lookupOp(name))
	}
	return ops
}

// ownDir returns the handle of the scenario's own directory, with mode 0777.
func (t *T) ownDir() nfs4.FH {
	if t.dirFH == nil {
		t.dirFH = t.createObject(createOp(nfs4.TypeDir, t.uniqueName(), modeAttrs(0o777)), t.lookupPathOps()...)
	}
	return t.dirFH
}

// createObject creates an object in the directory that before looks up, and returns its
// handle.
func (t *T) createObject(o op, before ...op) nfs4.FH {
	var res nfs4.HandleRes
	t.expectStatus(nfs4.OK, append(before, o, getFH(&res))...)
	return slices.Clone(res.Object)
}

// objectTypes are the object types, by name.
var objectTypes = map[string]nfs4.FileType{
	"file": nfs4.TypeReg, "directory": nfs4.TypeDir, "symbolic link": nfs4.TypeLnk, "pipe": nfs4.TypeFIFO,
	"socket": nfs4.TypeSock, "block device": nfs4.TypeBlk, "character device": nfs4.TypeChr,
}

// newObject creates an object in the scenario's directory, and returns its
// handle.
func (t *T) newObject(kind nfs4.FileType, name string) nfs4.FH {
	if kind == nfs4.TypeReg {
		fh, id := t.openNew(t.ownSession(), name)
		t.expectStatus(nfs4.OK, putFH(fh), closeFile(id))
		return fh
	}
	return t.createObject(createOp(kind, name, modeAttrs(0o777)), putFH(t.ownDir()))
}

// forEachType runs check for a new object of each type.
func (t *T) forEachType(check func(name string, kind nfs4.FileType, fh nfs4.FH)) {
	for name, kind := range objectTypes {
		check(name, kind, t.newObject(kind, "of type "+name))
	}
}

// openName returns the arguments of an OPEN by name, without creation.
func openName(name, owner string, share, deny uint32) nfs4.OpenArgs {
	return nfs4.OpenArgs{
		ShareAccess: share, ShareDeny: deny, Owner: nfs4.StateOwner{Owner: []byte(owner)}, How: nfs4.NoCreate, Name: []byte(name),
	}
}

// withCreate returns a copy with a creation mode and attributes.
func withCreate(a nfs4.OpenArgs, how nfs4.CreateMode, set nfs4.Attrs) nfs4.OpenArgs {
	a.How, a.Attrs = how, set
	return a
}

// openFH returns the arguments of an OPEN by the current filehandle.
func openFH(owner string, share, deny uint32) nfs4.OpenArgs {
	a := openName("", owner, share, deny)
	a.Claim = nfs4.ClaimFH
	return a
}

// An openedFile is a file and its open stateid.
type openedFile struct {
	fh nfs4.FH
	id nfs4.StateID
	s  *session
}

// openAs opens a file in the scenario's directory, and creates it if necessary.
func (t *T) openAs(s *session, name, owner string, share, deny uint32) *openedFile {
	var fh nfs4.HandleRes
	var res nfs4.OpenRes
	a := withCreate(openName(name, owner, share, deny), nfs4.Unchecked, modeAttrs(0o666))
	s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, &res), getFH(&fh))
	return &openedFile{slices.Clone(fh.Object), res.StateID, s}
}

// openNew creates a file and opens it for reading and writing.
func (t *T) openNew(s *session, name string) (nfs4.FH, nfs4.StateID) {
	o := t.openAs(s, name, "owner", nfs4.ShareBoth, 0)
	return o.fh, o.id
}

// newFile creates a file with data, and leaves it open.
func (t *T) newFile(name, data string) *openedFile {
	o := t.openAs(t.ownSession(), name, "owner", nfs4.ShareBoth, 0)
	if data != "" {
		var res nfs4.WriteRes
		t.expectStatus(nfs4.OK, putFH(o.fh), writeOp(o.id, 0, nfs4.FileSync, data, &res))
		require.EqualValues(t, len(data), res.Count)
	}
	return o
}

// withCurrentStateID replaces an operation's stateid by the current stateid.
func (o op) withCurrentStateID() op {
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

// getAttrs returns an object's attributes.
func (t *T) getAttrs(fh nfs4.FH, ids ...nfs4.AttrID) nfs4.Attrs {
	var res nfs4.GetAttrRes
	t.expectStatus(nfs4.OK, putFH(fh), getAttr(&res, ids...))
	return res.Attrs
}
