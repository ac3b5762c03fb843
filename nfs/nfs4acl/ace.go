package nfs4acl

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Kind says which users an ACE applies to.
type Kind uint8

// The Kind values.
const (
	Owner      Kind = iota // OWNER@
	OwnerGroup             // GROUP@
	Everyone               // EVERYONE@
	User                   // the user with the ACE's ID
	Group                  // the group with the ACE's ID
)

// An ACE is an nfs4.ACE whose Who is translated: a Kind, and an ID for User and
// Group.
type ACE struct {
	Type, Flag, Mask uint32
	Kind             Kind
	ID               uint32
}

// ErrUnsupported reports a list that a host cannot store: an ACE that neither
// allows nor denies, inheritance only by files or only by directories, or a
// denial of what hosts grant to everyone. It corresponds to NFS4ERR_ATTRNOTSUPP.
var ErrUnsupported = errors.New("nfs4acl: a POSIX list cannot represent the entry")

// The ACE flags in a default list.
const (
	inherits  = nfs4.ACEFileInherit | nfs4.ACEDirectoryInherit
	inDefault = inherits | nfs4.ACEInheritOnly
)

// The POSIX permissions.
const (
	permRead  uint8 = 4
	permWrite uint8 = 2
	permExec  uint8 = 1
	permAll   uint8 = 7
)

const (
	// always has what hosts grant to everyone.
	always = nfs4.ACEReadAttributes | nfs4.ACEReadACL | nfs4.ACESynchronize

	// byOwner has what hosts grant to every owner.
	byOwner = nfs4.ACEWriteAttributes | nfs4.ACEWriteACL
)

// writeMask returns the ACE bits that together are write permission.
func writeMask(isDir bool) uint32 {
	m := nfs4.ACEWriteData | nfs4.ACEAppendData
	if isDir {
		m |= nfs4.ACEDeleteChild
	}
	return m
}

// maskOf returns the ACE bits for POSIX permissions.
func maskOf(perm uint8, isDir bool) (m uint32) {
	if perm&permRead != 0 {
		m |= nfs4.ACEReadData
	}
	if perm&permWrite != 0 {
		m |= writeMask(isDir)
	}
	if perm&permExec != 0 {
		m |= nfs4.ACEExecute
	}
	return m
}

// permOf returns the POSIX permissions whose bits are all in m.
func permOf(m uint32, isDir bool) (perm uint8) {
	for _, p := range [...]uint8{permRead, permWrite, permExec} {
		if bits := maskOf(p, isDir); m&bits == bits {
			perm |= p
		}
	}
	return perm
}
