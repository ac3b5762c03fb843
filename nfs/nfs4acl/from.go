package nfs4acl

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// FromPOSIX returns the entries for an access list, which must have an owner, a
// group and others, and for the default list of a directory, which may be empty.
func FromPOSIX(access, def vfs.ACL, isDir bool) []ACE {
	w := writer{isDir: isDir}
	w.list(access)
	if len(def) > 0 {
		w.flag = inDefault
		w.list(def)
	}
	return w.out
}

// A writer appends entries to out.
type writer struct {
	out   []ACE
	flag  uint32
	isDir bool
}

// A summary has the rights in a POSIX list, with the mask applied.
type summary struct {
	owner, users, group, groups, other uint8
	mask                               uint8
}

func summarize(a vfs.ACL) summary {
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

// list appends the entries of one POSIX list.
func (w *writer) list(a vfs.ACL) {
	s := summarize(a)
	byGroup := s.group | s.groups | s.other
	w.deny(Owner, 0, ^s.owner&(s.users|byGroup))
	w.allow(Owner, 0, s.owner, byOwner)
	for _, e := range a {
		if e.Tag == vfs.ACLUser {
			perm := e.Perm & s.mask
			w.deny(User, e.ID, ^perm&byGroup)
			w.allow(User, e.ID, perm, 0)
		}
	}
	w.allow(OwnerGroup, 0, s.group, 0)
	for _, e := range a {
		if e.Tag == vfs.ACLGroup {
			w.allow(Group, e.ID, e.Perm&s.mask, 0)
		}
	}
	w.deny(OwnerGroup, 0, ^s.group&s.other)
	for _, e := range a {
		if e.Tag == vfs.ACLGroup {
			w.deny(Group, e.ID, ^(e.Perm&s.mask)&s.other)
		}
	}
	w.allow(Everyone, 0, s.other, 0)
}

// allow appends an entry that allows rights, and other bits.
func (w *writer) allow(k Kind, id uint32, perm uint8, more uint32) {
	w.add(nfs4.ACEAllow, k, id, maskOf(perm, w.isDir)|always|more)
}

// deny appends an entry that denies rights, unless there are none.
func (w *writer) deny(k Kind, id uint32, perm uint8) {
	if perm &= permAll; perm != 0 {
		w.add(nfs4.ACEDeny, k, id, maskOf(perm, w.isDir))
	}
}

func (w *writer) add(typ uint32, k Kind, id, mask uint32) {
	flag := w.flag
	if k == Group {
		flag |= nfs4.ACEIdentifierGroup
	}
	w.out = append(w.out, ACE{Type: typ, Flag: flag, Mask: mask, Kind: k, ID: id})
}
