package nfs4acl

import (
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A subject is a user who requests access to an object.
type subject struct {
	uid    uint32
	groups []uint32
	object
}

// An object has an owner and a group.
type object struct{ owner, group uint32 }

// matches reports whether an entry applies to the subject (RFC 8881, Section
// 6.2.1.5).
func (s *subject) matches(e *ACE) bool {
	switch e.Kind {
	case Owner:
		return s.uid == s.owner
	case OwnerGroup:
		return slices.Contains(s.groups, s.group)
	case User:
		return s.uid == e.ID
	case Group:
		return slices.Contains(s.groups, e.ID)
	}
	return true
}

// evaluateEntries evaluates entries in order for each bit (RFC 8881, Section
// 6.2.1). inherited selects the entries that a new object gets, otherwise those of
// the object itself.
func (s *subject) evaluateEntries(aces []ACE, inherited bool) (allowed, denied uint32) {
	for _, e := range aces {
		counts := e.Flag&nfs4.ACEInheritOnly == 0
		if inherited {
			counts = e.Flag&(nfs4.ACEFileInherit|nfs4.ACEDirectoryInherit) != 0
		}
		if !counts || !s.matches(&e) {
			continue
		}
		if e.Type == nfs4.ACEAllow {
			allowed |= e.Mask &^ denied
		} else {
			denied |= e.Mask &^ allowed
		}
	}
	return allowed, denied
}

// evaluateOnHost evaluates a list as acl(5) defines, for each permission.
func (s *subject) evaluateOnHost(a vfs.ACL) uint8 {
	mask := permAll
	for _, e := range a {
		if e.Tag == vfs.ACLMask {
			mask = e.Perm
		}
	}
	var other, group uint8
	grouped := false
	for _, e := range a {
		switch {
		case e.Tag == vfs.ACLUserObj && s.uid == s.owner:
			return e.Perm
		case e.Tag == vfs.ACLUser && s.uid == e.ID:
			return e.Perm & mask
		case e.Tag == vfs.ACLGroupObj && slices.Contains(s.groups, s.group), e.Tag == vfs.ACLGroup && slices.Contains(s.groups, e.ID):
			grouped, group = true, group|e.Perm&mask
		case e.Tag == vfs.ACLOther:
			other = e.Perm
		}
	}
	if grouped {
		return group
	}
	return other
}

// The users and groups of the tests.
const (
	user1, user2, stranger = 1, 2, 9
	group1, group2         = 11, 12
	owningGroup            = 10
)

// allSubjects returns all users in all groups, for objects whose owner no entry
// names and whose owner entries may name.
func allSubjects() (all []subject) {
	for _, owner := range []uint32{3, user1} {
		for _, uid := range []uint32{3, user1, user2, stranger} {
			for in := range 8 {
				s := subject{uid: uid, object: object{owner, owningGroup}, groups: []uint32{99}}
				for i, g := range []uint32{owningGroup, group1, group2} {
					if in>>i&1 != 0 {
						s.groups = append(s.groups, g)
					}
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// excessRights describes what a stored list grants and the entries do not, or
// returns "".
func excessRights(aces []ACE, a vfs.ACL, isDir bool, all []subject) string {
	for i := range all {
		s := &all[i]
		allowed, _ := s.evaluateEntries(aces, false)
		if more := s.evaluateOnHost(a) &^ permOf(allowed, isDir); more != 0 {
			return fmt.Sprintf("%+v get %o more from %+v by %+v", *s, more, a, aces)
		}
	}
	return ""
}

// excessInherited describes what a default list grants and the entries do not, or
// returns "". The list may grant the owner, group and others what the object's own
// list grants them, unless an entry denies it.
func excessInherited(aces []ACE, access, def vfs.ACL, isDir bool, all []subject) string {
	own := summarizeACL(access)
	for i := range all {
		s := &all[i]
		allowed, denied := s.evaluateEntries(aces, true)
		completed := slices.Clone(def) // with owner, group and others from the object's own list
		for i, e := range completed {
			switch e.Tag {
			case vfs.ACLUserObj:
				completed[i].Perm = own.owner
			case vfs.ACLGroupObj:
				completed[i].Perm = own.group
			case vfs.ACLOther:
				completed[i].Perm = own.other
			case vfs.ACLMask:
				completed[i].Perm = permAll
			default:
				completed[i].Perm = 0
			}
		}
		may := permOf(allowed, isDir) | s.evaluateOnHost(completed)&permOf(^denied, isDir)
		if more := s.evaluateOnHost(def) &^ may; more != 0 {
			return fmt.Sprintf("%+v inherit %o more from %+v by %+v", *s, more, def, aces)
		}
	}
	return ""
}
