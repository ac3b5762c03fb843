package mem

import (
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Rights, as the bits of a mode have them.
const (
	read    = 4
	write   = 2
	execute = 1
)

// valid refuses callers whose user or group is none: EACCES.
func valid(c *vfs.Cred) error {
	if c.UID == noID || c.GID == noID || slices.Contains(c.Groups, noID) {
		return syscall.EACCES
	}
	return nil
}

func inGroup(c *vfs.Cred, gid uint32) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// rights returns what c may do with n.
func (n *node) rights(c *vfs.Cred) uint32 {
	mode := n.attr.Mode
	switch {
	case valid(c) != nil:
		return 0
	case c.UID == 0:
		if n.attr.Type == vfs.TypeDir || mode&0o111 != 0 {
			return read | write | execute
		}
		return read | write
	case c.UID == n.attr.UID:
		return mode >> 6 & 7
	case inGroup(c, n.attr.GID):
		return mode >> 3 & 7
	}
	return mode & 7
}

// may tells by EACCES that c has not got all of some rights to n.
func (n *node) may(c *vfs.Cred, want uint32) error {
	if n.rights(c)&want != want {
		return syscall.EACCES
	}
	return nil
}

// mayRead is may for the data of a file: its owner reads it whatever the mode,
// and who may execute it may read it (RFC 1813, Section 4.4).
func (n *node) mayRead(c *vfs.Cred) error {
	if n.owned(c) || n.rights(c)&(read|execute) != 0 {
		return nil
	}
	return syscall.EACCES
}

// mayWrite is may for the data of a file, which its owner may always write.
func (n *node) mayWrite(c *vfs.Cred) error {
	if n.owned(c) {
		return nil
	}
	return n.may(c, write)
}

func (n *node) owned(c *vfs.Cred) bool {
	return valid(c) == nil && (c.UID == 0 || c.UID == n.attr.UID)
}

// mayTake tells by EPERM that c may not take a name of kid's from n, a sticky
// directory.
func (n *node) mayTake(c *vfs.Cred, kid *node) error {
	if n.attr.Mode&0o1000 != 0 && !n.owned(c) && !kid.owned(c) {
		return syscall.EPERM
	}
	return nil
}

// plain takes the bits from a file's mode that let others act as its owner or
// group. Without execution by the group, the second means something else.
func (n *node) plain() {
	if n.attr.Type == vfs.TypeDir {
		return
	}
	n.attr.Mode &^= 0o4000
	if n.attr.Mode&0o010 != 0 {
		n.attr.Mode &^= 0o2000
	}
}
