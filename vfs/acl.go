package vfs

import "context"

// ACLTag says to which users an ACL entry applies, with the numbers in Linux's extended attributes.
type ACLTag uint16

// The values of ACLTag.
const (
	ACLUserObj  ACLTag = 0x01 // the owner
	ACLUser     ACLTag = 0x02 // the user with the entry's ID
	ACLGroupObj ACLTag = 0x04 // the owning group
	ACLGroup    ACLTag = 0x08 // the group with the entry's ID
	ACLMask     ACLTag = 0x10 // the most that ACLUser, ACLGroupObj and ACLGroup grant
	ACLOther    ACLTag = 0x20 // everyone else
)

// An ACLEntry grants rights to the users given by its tag and ID.
type ACLEntry struct {
	Tag  ACLTag
	ID   uint32 // for ACLUser and ACLGroup; otherwise 0
	Perm uint8  // read 4, write 2, execute 1
}

// An ACL is an access control list as in POSIX 1003.1e. Nil means that the
// object has none: its mode is complete.
type ACL []ACLEntry

// ModeACL returns the list that is equivalent to a mode.
func ModeACL(mode uint32) ACL {
	return ACL{
		{Tag: ACLUserObj, Perm: uint8(mode >> 6 & 7)},
		{Tag: ACLGroupObj, Perm: uint8(mode >> 3 & 7)},
		{Tag: ACLOther, Perm: uint8(mode & 7)},
	}
}

// ACLs is an FS that may have access control lists.
type ACLs interface {
	// HasACLs reports whether the objects can have access control lists.
	HasACLs() bool

	// GetACL returns h's access ACL, and the default ACL, which new objects in a directory
	// inherit. Only directories have a default ACL. GetACL requires no permission.
	GetACL(ctx context.Context, c *Cred, h Handle) (access, def ACL, a MaybeAttr, err error)

	// SetACL changes the lists that are not nil. A list without entries removes
	// the object's list. The access list sets the mode too. An access list that
	// is equivalent to a mode is not stored.
	SetACL(ctx context.Context, c *Cred, h Handle, access, def *ACL) (MaybeAttr, error)
}
