package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// TimeHow is a time_how: how SETATTR changes a time stamp.
type TimeHow uint32

// The TimeHow values.
const (
	DontChange TimeHow = iota
	SetToServerTime
	SetToClientTime
)

// An OptUint32 is a set_mode3, set_uid3 or set_gid3: a value, if Set is true.
type OptUint32 struct {
	Set   bool
	Value uint32
}

func (o OptUint32) appendTo(b []byte) []byte {
	b = xdr.AppendBool(b, o.Set)
	if o.Set {
		b = xdr.AppendUint32(b, o.Value)
	}
	return b
}

func (o *OptUint32) decodeFrom(r *xdr.Reader) {
	if o.Set = r.Bool(); o.Set {
		o.Value = r.Uint32()
	}
}

// An OptUint64 is a set_size3: a value, if Set is true.
type OptUint64 struct {
	Set   bool
	Value uint64
}

// A SetTime is a set_atime or set_mtime; Time is used only if How is
// SetToClientTime.
type SetTime struct {
	How  TimeHow
	Time Time
}

func (s SetTime) appendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.How))
	if s.How == SetToClientTime {
		b = s.Time.AppendTo(b)
	}
	return b
}

func (s *SetTime) decodeFrom(r *xdr.Reader) {
	s.How = TimeHow(decodeEnum(r, "time_how", uint32(DontChange), uint32(SetToClientTime)))
	if s.How == SetToClientTime {
		s.Time.Decode(r)
	}
}

// A SetAttr is a sattr3: the attributes that a client can set (RFC 1813,
// Section 2.6).
type SetAttr struct {
	Mode, UID, GID OptUint32
	Size           OptUint64 // bytes
	Atime, Mtime   SetTime
}

// AppendTo appends s's wire form to b.
func (s *SetAttr) AppendTo(b []byte) []byte {
	b = s.Mode.appendTo(b)
	b = s.UID.appendTo(b)
	b = s.GID.appendTo(b)
	b = xdr.AppendBool(b, s.Size.Set)
	if s.Size.Set {
		b = xdr.AppendUint64(b, s.Size.Value)
	}
	b = s.Atime.appendTo(b)
	return s.Mtime.appendTo(b)
}

// Decode reads s.
func (s *SetAttr) Decode(r *xdr.Reader) {
	s.Mode.decodeFrom(r)
	s.UID.decodeFrom(r)
	s.GID.decodeFrom(r)
	if s.Size.Set = r.Bool(); s.Size.Set {
		s.Size.Value = r.Uint64()
	}
	s.Atime.decodeFrom(r)
	s.Mtime.decodeFrom(r)
}

// SetAttrArgs are the SETATTR arguments. With Check, the server makes the
// change only if the object's ctime equals Guard (RFC 1813, Section 3.3.2).
type SetAttrArgs struct {
	Object FH
	Attr   SetAttr
	Check  bool
	Guard  Time
}

// AppendTo appends a's wire form to b.
func (a *SetAttrArgs) AppendTo(b []byte) []byte {
	b = a.Object.AppendTo(b)
	b = a.Attr.AppendTo(b)
	b = xdr.AppendBool(b, a.Check)
	if a.Check {
		b = a.Guard.AppendTo(b)
	}
	return b
}

// Decode reads a.
func (a *SetAttrArgs) Decode(r *xdr.Reader) {
	a.Object.Decode(r)
	a.Attr.Decode(r)
	if a.Check = r.Bool(); a.Check {
		a.Guard.Decode(r)
	}
}

// WccRes are the SETATTR, REMOVE and RMDIR results: in each arm the attributes
// of the object, or of the directory that held the name.
type WccRes struct {
	Status Status
	Wcc    WccData
}

// AppendTo appends s's wire form to b.
func (s *WccRes) AppendTo(b []byte) []byte {
	return s.Wcc.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
}

// Decode reads s.
func (s *WccRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	s.Wcc.Decode(r)
}
