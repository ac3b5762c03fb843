package vfs

import "context"

// XattrHow says whether SetXattr may find the attribute, with the numbers of
// setxattr_option4 (RFC 8276, Section 8.4.2).
type XattrHow uint32

// The values of XattrHow.
const (
	XattrEither  XattrHow = iota // the attribute is created or replaced
	XattrCreate                  // EEXIST if it exists
	XattrReplace                 // ENODATA if it does not
)

// Linux's limits on extended attributes, in bytes.
const (
	MaxXattrName  = 255 - len("user.") // the host's names have the prefix
	MaxXattrValue = 64 << 10
)

// Xattrs is an FS whose regular files and directories may have extended attributes: names with
// values that mean nothing to the FS. Names come without Linux's prefix "user."; attributes with
// other prefixes do not show.
//
// ENODATA: no attribute has the name. EINVAL: the name is empty or has a NUL.
// ERANGE: the name is too long. E2BIG: the value is too long.
type Xattrs interface {
	// HasXattrs reports whether the objects can have extended attributes.
	HasXattrs() bool

	// GetXattr returns an attribute's value, for callers that may read h.
	GetXattr(ctx context.Context, c *Cred, h Handle, name string) ([]byte, error)

	// SetXattr sets an attribute, for callers that may write to h. The caller
	// keeps value.
	SetXattr(ctx context.Context, c *Cred, h Handle, name string, value []byte, how XattrHow) (WCC, error)

	// ListXattrs returns the names of all attributes, in any order. It needs no
	// right.
	ListXattrs(ctx context.Context, c *Cred, h Handle) ([]string, error)

	// RemoveXattr removes an attribute, for callers that may write to h.
	RemoveXattr(ctx context.Context, c *Cred, h Handle, name string) (WCC, error)
}
