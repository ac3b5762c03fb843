package nfs3

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Type is an ftype3 (RFC 1813, Section 2.6).
type Type uint32

// The Type values.
const (
	TypeReg Type = iota + 1
	TypeDir
	TypeBlk
	TypeChr
	TypeLnk
	TypeSock
	TypeFIFO
)

// A Time is an nfstime3: seconds and nanoseconds since 1970 (UTC).
type Time struct{ Sec, Nsec uint32 }

// AppendTo appends t's wire form to b.
func (t Time) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, t.Sec), t.Nsec)
}

// Decode reads t.
func (t *Time) Decode(r *xdr.Reader) { t.Sec, t.Nsec = r.Uint32(), r.Uint32() }

// A SpecData is a specdata3: a device's major and minor number.
type SpecData struct{ Major, Minor uint32 }

// An Attr is a fattr3: the attributes of an object.
type Attr struct {
	Type                Type
	Mode                uint32
	Nlink               uint32
	UID, GID            uint32
	Size, Used          uint64 // bytes
	Rdev                SpecData
	FSID, FileID        uint64
	Atime, Mtime, Ctime Time
}

// AppendTo appends a's wire form to b.
func (a *Attr) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(a.Type))
	b = xdr.AppendUint32(b, a.Mode)
	b = xdr.AppendUint32(b, a.Nlink)
	b = xdr.AppendUint32(b, a.UID)
	b = xdr.AppendUint32(b, a.GID)
	b = xdr.AppendUint64(b, a.Size)
	b = xdr.AppendUint64(b, a.Used)
	b = xdr.AppendUint32(b, a.Rdev.Major)
	b = xdr.AppendUint32(b, a.Rdev.Minor)
	b = xdr.AppendUint64(b, a.FSID)
	b = xdr.AppendUint64(b, a.FileID)
	b = a.Atime.AppendTo(b)
	b = a.Mtime.AppendTo(b)
	return a.Ctime.AppendTo(b)
}

// Decode reads a.
func (a *Attr) Decode(r *xdr.Reader) {
	a.Type = Type(decodeEnum(r, "ftype3", uint32(TypeReg), uint32(TypeFIFO)))
	a.Mode = r.Uint32()
	a.Nlink = r.Uint32()
	a.UID, a.GID = r.Uint32(), r.Uint32()
	a.Size, a.Used = r.Uint64(), r.Uint64()
	a.Rdev = SpecData{Major: r.Uint32(), Minor: r.Uint32()}
	a.FSID, a.FileID = r.Uint64(), r.Uint64()
	a.Atime.Decode(r)
	a.Mtime.Decode(r)
	a.Ctime.Decode(r)
}

// A PostOpAttr is a post_op_attr: attributes that the server may have been
// unable to read.
type PostOpAttr struct {
	OK   bool
	Attr Attr
}

// AppendTo appends a's wire form to b.
func (a *PostOpAttr) AppendTo(b []byte) []byte {
	b = xdr.AppendBool(b, a.OK)
	if a.OK {
		b = a.Attr.AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *PostOpAttr) Decode(r *xdr.Reader) {
	if a.OK = r.Bool(); a.OK {
		a.Attr.Decode(r)
	}
}

// A PreOpAttr is a pre_op_attr: attributes before a change, or nothing if OK is
// false.
type PreOpAttr struct {
	OK           bool
	Size         uint64 // bytes
	Mtime, Ctime Time
}

// AppendTo appends a's wire form to b.
func (a *PreOpAttr) AppendTo(b []byte) []byte {
	b = xdr.AppendBool(b, a.OK)
	if a.OK {
		b = xdr.AppendUint64(b, a.Size)
		b = a.Mtime.AppendTo(b)
		b = a.Ctime.AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *PreOpAttr) Decode(r *xdr.Reader) {
	if a.OK = r.Bool(); a.OK {
		a.Size = r.Uint64()
		a.Mtime.Decode(r)
		a.Ctime.Decode(r)
	}
}

// A WccData is a wcc_data: the attributes before and after a change.
type WccData struct {
	Before PreOpAttr
	After  PostOpAttr
}

// AppendTo appends w's wire form to b.
func (w *WccData) AppendTo(b []byte) []byte { return w.After.AppendTo(w.Before.AppendTo(b)) }

// Decode reads w.
func (w *WccData) Decode(r *xdr.Reader) {
	w.Before.Decode(r)
	w.After.Decode(r)
}

// decodeEnum reads an enumeration whose values are first to last.
func decodeEnum(r *xdr.Reader, name string, first, last uint32) uint32 {
	v := r.Uint32()
	if r.Err() == nil && (v < first || v > last) {
		r.Fail(fmt.Errorf("%w: %s %d", xdr.ErrValue, name, v))
	}
	return v
}

// checkCount checks that the length of data equals the separate count.
func checkCount(r *xdr.Reader, count uint32, data []byte) {
	if r.Err() == nil && uint64(count) != uint64(len(data)) {
		r.Fail(fmt.Errorf("%w: count %d of %d bytes", xdr.ErrValue, count, len(data)))
	}
}
