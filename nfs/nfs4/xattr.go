package nfs4

import "github.com/nfsrdma/nfsrdma/xdr"

// XattrHow is a setxattr_option4: whether SETXATTR may find the key.
type XattrHow uint32

// The values of XattrHow.
const (
	XattrEither XattrHow = iota
	XattrCreate
	XattrReplace
)

// maxXattrNames bounds the keys of LISTXATTRS' results that Decode accepts: more
// than Linux's list of 64 KiB can hold.
const maxXattrNames = 16 << 10

// GetXattrRes are the results of GETXATTR (RFC 8276, Section 8.4.1), whose
// arguments, and those of REMOVEXATTR, are NameArgs: a key. Value is valid only
// if Status is OK; it is not a data item.
type GetXattrRes struct {
	Status Status
	Value  []byte
}

// AppendTo appends the wire form of s to b.
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

// SetXattrArgs are the arguments of SETXATTR (RFC 8276, Section 8.4.2). The
// results of SETXATTR and REMOVEXATTR are ChangeRes, of the object itself.
type SetXattrArgs struct {
	How   XattrHow
	Key   []byte
	Value []byte
}

// AppendTo appends the wire form of a to b.
func (a *SetXattrArgs) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendOpaque(xdr.AppendUint32(b, uint32(a.How)), a.Key), a.Value)
}

// Decode reads a.
func (a *SetXattrArgs) Decode(r *xdr.Reader) {
	a.How = XattrHow(enum(r, "setxattr_option4", uint32(XattrEither), uint32(XattrReplace)))
	a.Key, a.Value = r.Opaque(unbounded), r.Opaque(unbounded)
}

// ListXattrsArgs are the arguments of LISTXATTRS (RFC 8276, Section 8.4.3).
type ListXattrsArgs struct {
	Cookie   uint64 // 0 first, and then that of the last results
	MaxCount uint32 // bytes of the results behind the status
}

// AppendTo appends the wire form of a to b.
func (a *ListXattrsArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(b, a.Cookie), a.MaxCount)
}

// Decode reads a.
func (a *ListXattrsArgs) Decode(r *xdr.Reader) { a.Cookie, a.MaxCount = r.Uint64(), r.Uint32() }

// ListXattrsRes are the results of LISTXATTRS: some keys. All but Status is
// valid only if Status is OK.
type ListXattrsRes struct {
	Status Status
	Cookie uint64 // continues behind the last key
	Names  [][]byte
	EOF    bool // no key follows
}

// AppendTo appends the wire form of s to b.
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

// XattrsLen is the length in bytes of a ListXattrsRes without keys, behind the
// status.
const XattrsLen = 8 + 4 + 4

// XattrLen returns the length in bytes of a key in a ListXattrsRes.
func XattrLen(name int) int { return 4 + name + xdr.Pad(name) }
