package nfs3

import "math"

// FHSize is the maximum length of a file handle in bytes (RFC 1813, Section
// 2.4).
const FHSize = 64

// The maximum lengths of names and paths that a server must support, in bytes.
// The protocol sets no limit. Decode accepts any length that fits the message,
// so that a server can return NFS3ERR_NAMETOOLONG.
const (
	MaxName = 1024 // a name: four times the limit of Linux's file systems
	MaxPath = 4096 // the path in a symbolic link: Linux's PATH_MAX
)

// unbounded is the limit for items that only the message length limits.
const unbounded = math.MaxInt32

// ReadHeadLen is the maximum length of the READ results without the data, in
// bytes: that is, with attributes. Error results lack the last ReadOKLen bytes.
const (
	ReadHeadLen = statusLen + postAttrLen + ReadOKLen
	ReadOKLen   = 4 + 4 + 4
)

// The lengths of wire forms, in bytes.
const (
	statusLen   = 4
	attrLen     = 84          // fattr3
	postAttrLen = 4 + attrLen // post_op_attr with attributes
	preAttrLen  = 4 + 24      // pre_op_attr with attributes
	wccLen      = preAttrLen + postAttrLen
	handleLen   = 4 + FHSize      // nfs_fh3 (maximum)
	postFHLen   = 4 + handleLen   // post_op_fh3 with a handle
	dirHeadLen  = postAttrLen + 8 // READDIR3resok in front of its entries
	dirTailLen  = 4 + 4           // no more entries, eof
	entryLen    = 4 + 8 + 4 + 8   // entry3 without its name
)
