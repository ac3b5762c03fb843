package nfsserver

import (
	"bytes"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A dotStatuses holds a procedure's statuses for the names "." and "..", which differ between
// procedures (RFC 1813, Section 3.2).
type dotStatuses struct{ dot, dotDot nfs3.Status }

var (
	dotsFound  = dotStatuses{nfs3.OK, nfs3.OK}             // LOOKUP
	dotsExist  = dotStatuses{nfs3.ErrExist, nfs3.ErrExist} // Section 3.3.9; CREATE, SYMLINK and MKNOD alike
	dotsRemove = dotStatuses{nfs3.ErrAcces, nfs3.ErrAcces} // unspecified; as in knfsd
	dotsRmdir  = dotStatuses{nfs3.ErrInval, nfs3.ErrExist} // Section 3.3.13
	dotsRename = dotStatuses{nfs3.ErrInval, nfs3.ErrInval} // Sections 3.3.14 and 3.3.15
)

// checkName returns an error status if a name must not reach the file system, or OK.
func (d dotStatuses) checkName(name []byte) nfs3.Status {
	switch {
	case len(name) == 0:
		return nfs3.ErrAcces // Section 3.2, item 1
	case len(name) > nfs3.MaxName:
		return nfs3.ErrNameTooLong
	case string(name) == ".":
		return d.dot
	case string(name) == "..":
		return d.dotDot
	case bytes.IndexByte(name, '/') >= 0, bytes.IndexByte(name, 0) >= 0:
		return nfs3.ErrAcces // Section 3.2, item 5
	}
	return nfs3.OK
}
