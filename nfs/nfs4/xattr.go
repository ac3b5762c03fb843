package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// XattrHow is a setxattr_option4: whether the key may exist before SETXATTR.
type XattrHow uint32

// The XattrHow values.
const (
	XattrEither XattrHow = iota
	XattrCreate
	XattrReplace
)

// maxXattrNames bounds the keys in LISTXATTRS results that Decode accepts. It
// exceeds what Linux's 64 KiB list can hold.
const maxXattrNames = 16 << 10

// GetXattrRes are the GETXATTR results (RFC 8276, Section 8.4.1), whose
// arguments, and those of REMOVEXATTR, are NameArgs: a key. Value is valid only
// if Status is OK; it is not a data item.
type GetXattrRes struct {
	Status Status
	Value  []byte
}

// AppendTo appends s's wire form to b.
func (s *GetXattrRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status == OK {
		b = xdr.AppendOpaque(b, s.Value)
	}
	return b
}

// Decode reads s.
func (s *GetXattrRes) Decode(r *xdr.Reader) {
	if s.Status = Status(r.Uint32()); s.Status == OK {
		s.Value = r.Opaque(unbounded)
	}
}

// SetXattrArgs are the SETXATTR arguments (RFC 8276, Section 8.4.2). The
// results of SETXATTR and REMOVEXATTR are ChangeRes, of the object itself.
type SetXattrArgs struct {
	How   XattrHow
	Key   []byte
	Value []byte
}

// AppendTo appends a's wire form to b.
func (a *SetXattrArgs) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendOpaque(xdr.AppendUint32(b, uint32(a.How)), a.Key), a.Value)
}

// Decode reads a.
func (a *SetXattrArgs) Decode(r *xdr.Reader) {
	a.How = XattrHow(decodeEnum(r, "setxattr_option4", uint32(XattrEither), uint32(XattrReplace)))
	a.Key, a.Value = r.Opaque(unbounded), r.Opaque(unbounded)
}

// ListXattrsArgs are the LISTXATTRS arguments (RFC 8276, Section 8.4.3).
type ListXattrsArgs struct {
	Cookie   uint64 // 0 first, and then from the last results
	MaxCount uint32 // maximum size of the results after the status, in bytes
}

// AppendTo appends a's wire form to b.
func (a *ListXattrsArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(b, a.Cookie), a.MaxCount)
}

// Decode reads a.
func (a *ListXattrsArgs) Decode(r *xdr.Reader) { a.Cookie, a.MaxCount = r.Uint64(), r.Uint32() }

// ListXattrsRes are the LISTXATTRS results: some keys. All fields except Status
// are valid only if Status is OK.
type ListXattrsRes struct {
	Status Status
	Cookie uint64 // continues after the last key
	Names  [][]byte
	EOF    bool // no key follows
}

// AppendTo appends s's wire form to b.
func (s *ListXattrsRes) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Status))
	if s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendUint64(b, s.Cookie), uint32(len(s.Names)))
	for _, name := range s.Names {
		b = xdr.AppendOpaque(b, name)
	}
	return xdr.AppendBool(b, s.EOF)
}

// Decode reads s.
func (s *ListXattrsRes) Decode(r *xdr.Reader) {
	s.Names = nil
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.Cookie = r.Uint64()
	n := r.Uint32()
	if n > maxXattrNames {
		r.Fail(xdr.ErrLong)
	}
	for ; n > 0 && r.Err() == nil; n-- {
		s.Names = append(s.Names, r.Opaque(unbounded))
	}
	s.EOF = r.Bool()
}

// XattrsLen is the length of a ListXattrsRes without keys and status, in bytes.
const XattrsLen = 8 + 4 + 4

// XattrLen returns the length in bytes of a key in a ListXattrsRes.
func XattrLen(name int) int { return 4 + name + xdr.Pad(name) }
