package nfs4acl

import (
	"cmp"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// ToPOSIX returns the access list and the default list for the entries of an
// object. def is nil if no entry is inherited; the object must then have none. If
// inherited entries concern neither owner, group nor everyone, these have the
// rights in the default list that they have in the access list: a default list
// has all three, and without them new objects would be of no use to their makers.
func ToPOSIX(aces []ACE, isDir bool) (access, def vfs.ACL, err error) {
	own, inherited := newReader(), newReader()
	for _, e := range aces {
		if e.Type != nfs4.ACEAllow && e.Type != nfs4.ACEDeny {
			return nil, nil, ErrUnsupported
		}
		e.Flag &^= nfs4.ACEIdentifierGroup | nfs4.ACEInherited // e.Kind; only of dacl and sacl
		switch e.Flag {
		case 0:
			err = own.read(&e)
		case inherits:
			err = cmp.Or(own.read(&e), inherited.read(&e))
		case inDefault:
			err = inherited.read(&e)
		default:
			err = ErrUnsupported
		}
		if err != nil || e.Flag != 0 && !isDir {
			return nil, nil, ErrUnsupported
		}
	}
	if inherited.seen != 0 {
		inherited.complete(own)
		def = inherited.list(isDir)
	}
	return own.list(isDir), def, nil
}

// decided are the bits of ACEs that are allowed or denied to somebody so far.
// What comes first counts.
type decided struct{ allow, deny uint32 }

// decide allows or denies bits, and returns those that were not decided before.
func (d *decided) decide(typ, mask uint32) uint32 {
	mask &^= d.allow | d.deny
	if typ == nfs4.ACEAllow {
		d.allow |= mask
	} else {
		d.deny |= mask
	}
	return mask
}

// A reader evaluates entries at once for everybody whom they may concern. The host
// evaluates a list otherwise: it looks for one entry that fits, the owner's
// first, then the user's. So an entry of the stored list has the bits that are
// allowed to whoever the host may apply it to, whatever groups he is in: what is
// denied to a group counts as denied to everybody but those to whom it was
// allowed before.
type reader struct {
	owner decided // as whatever user, and in whatever groups
	other decided // to everybody who is in no entry

	// common is what EVERYONE@ and denials of groups decide, for users and groups.
	common decided

	// named are users and groups, and the owning group, with the bits that were
	// decided for them before they were in common.
	named map[name]*decided

	seen seen
}

// A name is User or Group with an ID, or OwnerGroup.
type name struct {
	kind Kind
	id   uint32
}

// seen says whom entries concern by their Kind.
type seen uint8

const (
	seenOwner seen = 1 << iota
	seenGroup
	seenEveryone
	seenNamed
)

func newReader() *reader {
	return &reader{named: map[name]*decided{{kind: OwnerGroup}: {}}}
}

// read evaluates the next entry. It fails if the entry denies what hosts grant.
func (r *reader) read(e *ACE) error {
	var bits uint32 // decided by this entry
	switch e.Kind {
	case Owner:
		r.seen |= seenOwner
		bits = r.owner.decide(e.Type, e.Mask)
	case Everyone:
		r.seen |= seenEveryone
		bits = r.owner.decide(e.Type, e.Mask) | r.other.decide(e.Type, e.Mask) | r.common.decide(e.Type, e.Mask)
	default:
		r.seen |= seenNamed
		key := name{e.Kind, e.ID}
		if e.Kind == OwnerGroup {
			r.seen |= seenGroup
			key.id = 0
		}
		bits = r.of(key).decide(e.Type, e.Mask&^(r.common.allow|r.common.deny))
		if e.Type == nfs4.ACEDeny {
			r.owner.decide(e.Type, bits) // who may be the user, or in the group
			if e.Kind != User {
				r.common.decide(e.Type, bits) // for everybody may be in the group
			}
		}
	}
	if e.Type == nfs4.ACEDeny && bits&nfs4.ACEReadAttributes != 0 {
		return ErrUnsupported // RFC 8881, Section 6.2.1
	}
	return nil
}

func (r *reader) of(n name) *decided {
	d := r.named[n]
	if d == nil {
		d = new(decided)
		r.named[n] = d
	}
	return d
}

// allowed returns the bits that are allowed to a user or a group.
func (r *reader) allowed(n name) uint32 {
	d := r.of(n)
	return d.allow | r.common.allow&^d.deny
}

// complete takes the rights of those whom no entry concerns from another list,
// without the bits that may be denied to them.
func (r *reader) complete(from *reader) {
	group := name{kind: OwnerGroup}
	if r.seen&(seenOwner|seenEveryone) == 0 {
		r.owner.allow = from.owner.allow &^ r.owner.deny
	}
	if r.seen&(seenGroup|seenEveryone) == 0 {
		r.of(group).allow = from.allowed(group) &^ r.common.deny
	}
	if r.seen&seenEveryone == 0 {
		r.other.allow = from.other.allow
	}
}

// list returns the stored list. It has a mask if it names users or groups.
func (r *reader) list(isDir bool) vfs.ACL {
	var users, groups vfs.ACL
	group := permOf(r.allowed(name{kind: OwnerGroup}), isDir)
	mask := group
	for n := range r.named {
		e := vfs.ACLEntry{ID: n.id, Perm: permOf(r.allowed(n), isDir)}
		mask |= e.Perm
		switch n.kind {
		case User:
			e.Tag = vfs.ACLUser
			users = append(users, e)
		case Group:
			e.Tag = vfs.ACLGroup
			groups = append(groups, e)
		}
	}
	byID := func(a, b vfs.ACLEntry) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(users, byID)
	slices.SortFunc(groups, byID)
	a := append(vfs.ACL{{Tag: vfs.ACLUserObj, Perm: permOf(r.owner.allow, isDir)}}, users...)
	a = append(append(a, vfs.ACLEntry{Tag: vfs.ACLGroupObj, Perm: group}), groups...)
	if len(users)+len(groups) > 0 {
		a = append(a, vfs.ACLEntry{Tag: vfs.ACLMask, Perm: mask})
	}
	return append(a, vfs.ACLEntry{Tag: vfs.ACLOther, Perm: permOf(r.other.allow, isDir)})
}
