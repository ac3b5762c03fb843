package nfs4acl

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// FromPOSIX returns the entries for an access list, which must have an owner, a
// group and others, and for the default list of a directory, which may be empty.
func FromPOSIX(access, def vfs.ACL, isDir bool) []ACE {
	w := writer{isDir: isDir}
	w.writeList(access)
	if len(def) > 0 {
		w.flag = inDefault
		w.writeList(def)
	}
	return w.out
}

// A writer appends entries to out.
type writer struct {
	out   []ACE
	flag  uint32
	isDir bool
}

// A summary has the permissions in a POSIX list, with the mask applied.
type summary struct {
	owner, users, group, groups, other uint8
	mask                               uint8
}

func summarizeACL(a vfs.ACL) summary {
	s := summary{mask: permAll}
	for _, e := range a {
		switch e.Tag {
		case vfs.ACLUserObj:
			s.owner = e.Perm
		case vfs.ACLUser:
			s.users |= e.Perm
		case vfs.ACLGroupObj:
			s.group = e.Perm
		case vfs.ACLGroup:
			s.groups |= e.Perm
		case vfs.ACLMask:
			s.mask = e.Perm
		case vfs.ACLOther:
			s.other = e.Perm
		}
	}
	s.users &= s.mask
	s.group &= s.mask
	s.groups &= s.mask
	return s
}

// writeList appends the entries for one POSIX list.
func (w *writer) writeList(a vfs.ACL) {
	s := summarizeACL(a)
	byGroup := s.group | s.groups | s.other
	w.addDeny(Owner, 0, ^s.owner&(s.users|byGroup))
	w.addAllow(Owner, 0, s.owner, byOwner)
	for _, e := range a {
		if e.Tag == vfs.ACLUser {
			perm := e.Perm & s.mask
			w.addDeny(User, e.ID, ^perm&byGroup)
			w.addAllow(User, e.ID, perm, 0)
		}
	}
	w.addAllow(OwnerGroup, 0, s.group, 0)
	for _, e := range a {
		if e.Tag == vfs.ACLGroup {
			w.addAllow(Group, e.ID, e.Perm&s.mask, 0)
		}
	}
	w.addDeny(OwnerGroup, 0, ^s.group&s.other)
	for _, e := range a {
		if e.Tag == vfs.ACLGroup {
			w.addDeny(Group, e.ID, ^(e.Perm&s.mask)&s.other)
		}
	}
	w.addAllow(Everyone, 0, s.other, 0)
}

// addAllow appends an entry that allows rights, and other bits.
func (w *writer) addAllow(k Kind, id uint32, perm uint8, more uint32) {
	w.addEntry(nfs4.ACEAllow, k, id, maskOf(perm, w.isDir)|always|more)
}

// addDeny appends an entry that denies rights, unless there are none.
func (w *writer) addDeny(k Kind, id uint32, perm uint8) {
	if perm &= permAll; perm != 0 {
		w.addEntry(nfs4.ACEDeny, k, id, maskOf(perm, w.isDir))
	}
}

func (w *writer) addEntry(typ uint32, k Kind, id, mask uint32) {
	flag := w.flag
	if k == Group {
		flag |= nfs4.ACEIdentifierGroup
	}
	w.out = append(w.out, ACE{Type: typ, Flag: flag, Mask: mask, Kind: k, ID: id})
}
