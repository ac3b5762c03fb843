package mem

import (
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Rights, as bits of a mode.
const (
	read    = 4
	write   = 2
	execute = 1
)

// checkCred returns EACCES for callers with an invalid user or group.
func checkCred(c *vfs.Cred) error {
	if c.UID == noID || c.GID == noID || slices.Contains(c.Groups, noID) {
		return syscall.EACCES
	}
	return nil
}

func inGroup(c *vfs.Cred, gid uint32) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// rightsOf returns c's rights to n.
func (n *node) rightsOf(c *vfs.Cred) uint32 {
	mode := n.attr.Mode
	switch {
	case checkCred(c) != nil:
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

// checkRights returns EACCES unless c has all wanted rights to n.
func (n *node) checkRights(c *vfs.Cred, want uint32) error {
	if n.rightsOf(c)&want != want {
		return syscall.EACCES
	}
	return nil
}

// mayRead is like checkRights, but for file data: the owner may read it regardless of the mode,
// and a user who may execute it may read it (RFC 1813, Section 4.4).
func (n *node) mayRead(c *vfs.Cred) error {
	if n.isOwnedBy(c) || n.rightsOf(c)&(read|execute) != 0 {
		return nil
	}
	return syscall.EACCES
}

// mayWrite is like checkRights, but for file data, which the owner may always write.
func (n *node) mayWrite(c *vfs.Cred) error {
	if n.isOwnedBy(c) {
		return nil
	}
	return n.checkRights(c, write)
}

func (n *node) isOwnedBy(c *vfs.Cred) bool {
	return checkCred(c) == nil && (c.UID == 0 || c.UID == n.attr.UID)
}

// mayTake returns EPERM if n is a sticky directory from which c may not remove kid's name.
func (n *node) mayTake(c *vfs.Cred, kid *node) error {
	if n.attr.Mode&0o1000 != 0 && !n.isOwnedBy(c) && !kid.isOwnedBy(c) {
		return syscall.EPERM
	}
	return nil
}

// clearSetID clears the bits of a file's mode that let other users act as its owner
// or group. Without group execution, the set-group-ID bit has another meaning
// and stays.
func (n *node) clearSetID() {
	if n.attr.Type == vfs.TypeDir {
		return
	}
	n.attr.Mode &^= 0o4000
	if n.attr.Mode&0o010 != 0 {
		n.attr.Mode &^= 0o2000
	}
}
