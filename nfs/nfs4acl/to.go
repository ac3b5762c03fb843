package nfs4acl

import (
	"cmp"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// ToPOSIX returns the access list and the default list for an object's entries.
// def is nil if no entry is inherited; the object must then have no default list.
// If inherited entries do not cover the owner, the group or everyone, these get
// the same rights in the default list as in the access list: a default list needs
// all three, and without them new objects would be useless to their creators.
func ToPOSIX(aces []ACE, isDir bool) (access, def vfs.ACL, err error) {
	own, inherited := newReader(), newReader()
	for _, e := range aces {
		if e.Type != nfs4.ACEAllow && e.Type != nfs4.ACEDeny {
			return nil, nil, ErrUnsupported
		}
		e.Flag &^= nfs4.ACEIdentifierGroup | nfs4.ACEInherited // e.Kind; only of dacl and sacl
		switch e.Flag {
		case 0:
			err = own.readEntry(&e)
		case inherits:
			err = cmp.Or(own.readEntry(&e), inherited.readEntry(&e))
		case inDefault:
			err = inherited.readEntry(&e)
		default:
			err = ErrUnsupported
		}
		if err != nil || e.Flag != 0 && !isDir {
			return nil, nil, ErrUnsupported
		}
	}
	if inherited.seen != 0 {
		inherited.completeFrom(own)
		def = inherited.posixList(isDir)
	}
	return own.posixList(isDir), def, nil
}

// decidedBits are the ACE bits that earlier entries have allowed or denied. The
// first decision counts.
type decidedBits struct{ allow, deny uint32 }

// decideBits allows or denies bits, and returns those that were not decided before.
func (d *decidedBits) decideBits(typ, mask uint32) uint32 {
	mask &^= d.allow | d.deny
	if typ == nfs4.ACEAllow {
		d.allow |= mask
	} else {
		d.deny |= mask
	}
	return mask
}

// A reader evaluates entries at the same time for all users to whom they may
// apply. The host evaluates a list differently: it uses one entry that matches,
// the owner's first, then the user's. So an entry in the stored list has the bits
// that are allowed to every user to whom the host may apply it, in any groups:
// what is denied to a group counts as denied to everyone except those to whom it
// was allowed before.
type reader struct {
	owner decidedBits // as any user, and in any groups
	other decidedBits // for everyone without an entry

	// common is what EVERYONE@ and group denials decide, for users and groups.
	common decidedBits

	// named has the users and groups, and the owning group, with the bits that
	// were decided for them before common.
	named map[name]*decidedBits

	seen seen
}

// A name is User or Group with an ID, or OwnerGroup.
type name struct {
	kind Kind
	id   uint32
}

// seen says which Kinds the entries have.
type seen uint8

const (
	seenOwner seen = 1 << iota
	seenGroup
	seenEveryone
	seenNamed
)

func newReader() *reader {
	return &reader{named: map[name]*decidedBits{{kind: OwnerGroup}: {}}}
}

// readEntry evaluates the next entry. It fails if the entry denies what hosts always
// grant.
func (r *reader) readEntry(e *ACE) error {
	var bits uint32 // decided by this entry
	switch e.Kind {
	case Owner:
		r.seen |= seenOwner
		bits = r.owner.decideBits(e.Type, e.Mask)
	case Everyone:
		r.seen |= seenEveryone
		bits = r.owner.decideBits(e.Type, e.Mask) | r.other.decideBits(e.Type, e.Mask) | r.common.decideBits(e.Type, e.Mask)
	default:
		r.seen |= seenNamed
		key := name{e.Kind, e.ID}
		if e.Kind == OwnerGroup {
			r.seen |= seenGroup
			key.id = 0
		}
		bits = r.bitsOf(key).decideBits(e.Type, e.Mask&^(r.common.allow|r.common.deny))
		if e.Type == nfs4.ACEDeny {
			r.owner.decideBits(e.Type, bits) // the owner may be the user, or in the group
			if e.Kind != User {
				r.common.decideBits(e.Type, bits) // because everyone may be in the group
			}
		}
	}
	if e.Type == nfs4.ACEDeny && bits&nfs4.ACEReadAttributes != 0 {
		return ErrUnsupported // RFC 8881, Section 6.2.1
	}
	return nil
}

func (r *reader) bitsOf(n name) *decidedBits {
	d := r.named[n]
	if d == nil {
		d = new(decidedBits)
		r.named[n] = d
	}
	return d
}

// allowedBits returns the bits that are allowed to a user or a group.
func (r *reader) allowedBits(n name) uint32 {
	d := r.bitsOf(n)
	return d.allow | r.common.allow&^d.deny
}

// completeFrom copies the rights of those without an entry from another list,
// without the bits that may be denied to them.
func (r *reader) completeFrom(from *reader) {
	group := name{kind: OwnerGroup}
	if r.seen&(seenOwner|seenEveryone) == 0 {
		r.owner.allow = from.owner.allow &^ r.owner.deny
	}
	if r.seen&(seenGroup|seenEveryone) == 0 {
		r.bitsOf(group).allow = from.allowedBits(group) &^ r.common.deny
	}
	if r.seen&seenEveryone == 0 {
		r.other.allow = from.other.allow
	}
}

// posixList returns the stored list. It has a mask if it names users or groups.
func (r *reader) posixList(isDir bool) vfs.ACL {
	var users, groups vfs.ACL
	group := permOf(r.allowedBits(name{kind: OwnerGroup}), isDir)
	mask := group
	for n := range r.named {
		e := vfs.ACLEntry{ID: n.id, Perm: permOf(r.allowedBits(n), isDir)}
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
