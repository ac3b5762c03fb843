package nfsacl

// The program. Linux and Solaris serve it on the NFS port.
const (
	Program uint32 = 100227
	Version uint32 = 3
)

// Procedures.
const (
	ProcNull uint32 = iota
	ProcGetACL
	ProcSetACL

	// NumProc is the number of procedures.
	NumProc
)

var procNames = [NumProc]string{"NULL", "GETACL", "SETACL"}

// ProcName returns the name of a procedure, for logs.
func ProcName(proc uint32) string {
	if proc < NumProc {
		return procNames[proc]
	}
	return "undefined"
}

// Mask bits: the lists that GETACL requests, or that SETACL sets.
const (
	MaskAccess       uint32 = 1 << iota // the entries of the access list
	MaskAccessCount                     // the number of these entries
	MaskDefault                         // the entries of the default list
	MaskDefaultCount                    // the number of these entries

	MaskAll = MaskAccess | MaskAccessCount | MaskDefault | MaskDefaultCount
)

// Tag identifies the holder of an entry's permissions.
type Tag uint32

// The tags, which Linux also uses in memory.
const (
	UserObj  Tag = 0x01 // the owner
	User     Tag = 0x02 // the user with the entry's id
	GroupObj Tag = 0x04 // the owning group
	Group    Tag = 0x08 // the group with the entry's id
	Mask     Tag = 0x10 // the maximum that User, GroupObj and Group can grant
	Other    Tag = 0x20 // everyone else

	// defaultFlag is added to each tag of a default list.
	defaultFlag Tag = 0x1000
)

// hasID reports whether entries with this tag have an id.
func (t Tag) hasID() bool { return t == User || t == Group }

// MaxEntries is the maximum number of entries in a list: Linux's
// NFS_ACL_MAX_ENTRIES. The program itself sets no limit (RFC 8267, Section
// 5.2), but Linux's client has no memory for more.
const MaxEntries = 1024

// The lengths of wire forms, in bytes.
const (
	entryLen    = 3 * 4
	listLen     = 2*4 + MaxEntries*entryLen // a list (maximum)
	statusLen   = 4
	postAttrLen = 4 + 84 // NFSv3's post_op_attr
)

// permBits are all permissions that an entry can grant: read, write, execute.
const permBits = 7
