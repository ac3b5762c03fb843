//go:build linux

package posix

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// The form of a list in an extended attribute, in little-endian order:
//
//	version (4) │ n × ( tag (2) │ perm (2) │ id (4) )
const (
	aclVersion  = 2
	aclHeadLen  = 4
	aclEntryLen = 8

	// aclNoID stands in the entries whose tag says all.
	aclNoID = ^uint32(0)
)

// appendACL appends the attribute's form of a to b.
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

// parseACL reads the attribute's form of a list. EUCLEAN: it is none.
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
