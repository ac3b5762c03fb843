package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// modeACL returns the list that says what a mode says.
func modeACL(mode uint32) vfs.ACL {
	return vfs.ACL{
		{Tag: vfs.ACLUserObj, Perm: uint8(mode >> 6 & 7)},
		{Tag: vfs.ACLGroupObj, Perm: uint8(mode >> 3 & 7)},
		{Tag: vfs.ACLOther, Perm: uint8(mode & 7)},
	}
}

func wireACL(a vfs.ACL) nfsacl.ACL {
	if a == nil {
		return nil
	}
	out := make(nfsacl.ACL, len(a))
	for i, e := range a {
		out[i] = nfsacl.Entry{Tag: nfsacl.Tag(e.Tag), ID: e.ID, Perm: uint32(e.Perm)}
	}
	return out
}

// hostACL returns a list that is to be set, or nil where it is not meant.
func hostACL(a nfsacl.ACL, meant bool) *vfs.ACL {
	if !meant {
		return nil
	}
	out := make(vfs.ACL, len(a))
	for i, e := range a {
		out[i] = vfs.ACLEntry{Tag: vfs.ACLTag(e.Tag), ID: e.ID, Perm: uint8(e.Perm)}
	}
	return &out
}
