package vfs

import "context"

// ACLTag says whom an entry of an access control list is for, with the numbers
// of Linux's extended attributes.
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

// An ACLEntry grants rights to those whom its tag and ID name.
type ACLEntry struct {
	Tag  ACLTag
	ID   uint32 // of ACLUser and ACLGroup; else 0
	Perm uint8  // read 4, write 2, execute 1
}

// An ACL is an access control list as POSIX 1003.1e has it. Nil is none: the
// mode says all.
type ACL []ACLEntry

// ACLs is an FS that has access control lists.
type ACLs interface {
	// GetACL returns the access list of h, and the default list, which only
	// directories can have: what new objects in them begin with. No right
	// is needed.
	GetACL(ctx context.Context, c *Cred, h Handle) (access, def ACL, a MaybeAttr, err error)

	// SetACL changes the lists that are not nil. One without entries takes
	// the object's away. The access list sets the mode too; one that says
	// what a mode can say is not kept beside it.
	SetACL(ctx context.Context, c *Cred, h Handle, access, def *ACL) (MaybeAttr, error)
}
