package nfs3

import "math"

// FHSize is the length in bytes of the longest file handle (RFC 1813,
// Section 2.4).
const FHSize = 64

// The lengths in bytes of names and paths, to which the protocol sets no limit.
// Decode accepts any length that fits the message, so that a server can answer
// NFS3ERR_NAMETOOLONG. A server need not process names and paths longer than
// these.
const (
	MaxName = 1024 // a name: four times the limit of Linux's file systems
	MaxPath = 4096 // the path in a symbolic link: Linux's PATH_MAX
)

// unbounded is the limit of items that only the message's own length limits.
const unbounded = math.MaxInt32

// ReadHeadLen is the length in bytes of the longest results of READ without the
// data, that is, with attributes. Results that report an error lack the last
// ReadOKLen bytes.
const (
	ReadHeadLen = statusLen + postAttrLen + ReadOKLen
	ReadOKLen   = 4 + 4 + 4
)

// The lengths in bytes of wire forms.
const (
	statusLen   = 4
	attrLen     = 84          // fattr3
	postAttrLen = 4 + attrLen // post_op_attr with attributes
	preAttrLen  = 4 + 24      // pre_op_attr with attributes
	wccLen      = preAttrLen + postAttrLen
	handleLen   = 4 + FHSize      // nfs_fh3 at its longest
	postFHLen   = 4 + handleLen   // post_op_fh3 with a handle
	dirHeadLen  = postAttrLen + 8 // READDIR3resok in front of its entries
	dirTailLen  = 4 + 4           // no more entries, eof
	entryLen    = 4 + 8 + 4 + 8   // entry3 without its name
)
