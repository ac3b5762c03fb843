package nfsacl

// MaxEntries is the largest number of entries in a list: Linux's
// NFS_ACL_MAX_ENTRIES. The program itself sets no limit (RFC 8267, Section
// 5.2), and Linux's client has memory for no more.
const MaxEntries = 1024

// The lengths in bytes of wire forms.
const (
	entryLen    = 3 * 4
	listLen     = 2*4 + MaxEntries*entryLen // the longest list
	statusLen   = 4
	postAttrLen = 4 + 84 // post_op_attr of NFS version 3
)

// permBits are all rights that an entry can grant: read, write, execute.
const permBits = 7
