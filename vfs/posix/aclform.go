//go:build linux

package posix

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// An ACL's format in an extended attribute, little-endian:
//
//	version (4) │ n × ( tag (2) │ perm (2) │ id (4) )
const (
	aclVersion  = 2
	aclHeadLen  = 4
	aclEntryLen = 8

	// aclNoID is the id in entries whose tag needs none.
	aclNoID = ^uint32(0)
)

// appendACL appends a to b in the attribute's format.
func appendACL(b []byte, a vfs.ACL) []byte {
	b = binary.LittleEndian.AppendUint32(b, aclVersion)
	for _, e := range a {
		id := aclNoID
		if e.Tag == vfs.ACLUser || e.Tag == vfs.ACLGroup {
			id = e.ID
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// parseACL parses a list in the attribute's format. It returns EUCLEAN if b is
// not a list.
func parseACL(b []byte) (vfs.ACL, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < aclHeadLen || (len(b)-aclHeadLen)%aclEntryLen != 0 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, unix.EUCLEAN
	}
	a := make(vfs.ACL, 0, (len(b)-aclHeadLen)/aclEntryLen)
	for b = b[aclHeadLen:]; len(b) > 0; b = b[aclEntryLen:] {
		e := vfs.ACLEntry{Tag: vfs.ACLTag(binary.LittleEndian.Uint16(b)), Perm: uint8(b[2])}
		if e.Tag == vfs.ACLUser || e.Tag == vfs.ACLGroup {
			e.ID = binary.LittleEndian.Uint32(b[4:])
		}
		a = append(a, e)
	}
	return a, nil
}
