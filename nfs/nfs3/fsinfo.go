package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// FSStatRes are the FSSTAT results. All fields except Attr are valid only if
// Status is OK.
type FSStatRes struct {
	Status                            Status
	Attr                              PostOpAttr
	TotalBytes, FreeBytes, AvailBytes uint64 // bytes
	TotalFiles, FreeFiles, AvailFiles uint64
	Invarsec                          uint32 // seconds without an expected change
}

// AppendTo appends s's wire form to b.
func (s *FSStatRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status != OK {
		return b
	}
	b = xdr.AppendUint64(b, s.TotalBytes)
	b = xdr.AppendUint64(b, s.FreeBytes)
	b = xdr.AppendUint64(b, s.AvailBytes)
	b = xdr.AppendUint64(b, s.TotalFiles)
	b = xdr.AppendUint64(b, s.FreeFiles)
	b = xdr.AppendUint64(b, s.AvailFiles)
	return xdr.AppendUint32(b, s.Invarsec)
}

// Decode reads s.
func (s *FSStatRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Attr.Decode(r); s.Status != OK {
		return
	}
	s.TotalBytes, s.FreeBytes, s.AvailBytes = r.Uint64(), r.Uint64(), r.Uint64()
	s.TotalFiles, s.FreeFiles, s.AvailFiles = r.Uint64(), r.Uint64(), r.Uint64()
	s.Invarsec = r.Uint32()
}

// FSInfoRes are the FSINFO results. All fields except Attr are valid only if
// Status is OK. Sizes are in bytes.
type FSInfoRes struct {
	Status                Status
	Attr                  PostOpAttr
	RTMax, RTPref, RTMult uint32 // READ: maximum, preferred, multiple
	WTMax, WTPref, WTMult uint32 // WRITE
	DTPref                uint32 // READDIR
	MaxFileSize           uint64
	TimeDelta             Time
	Properties            uint32 // FSFLink and so on
}

// AppendTo appends s's wire form to b.
func (s *FSInfoRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(b, s.RTMax)
	b = xdr.AppendUint32(b, s.RTPref)
	b = xdr.AppendUint32(b, s.RTMult)
	b = xdr.AppendUint32(b, s.WTMax)
	b = xdr.AppendUint32(b, s.WTPref)
	b = xdr.AppendUint32(b, s.WTMult)
	b = xdr.AppendUint32(b, s.DTPref)
	b = xdr.AppendUint64(b, s.MaxFileSize)
	return xdr.AppendUint32(s.TimeDelta.AppendTo(b), s.Properties)
}

// Decode reads s.
func (s *FSInfoRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Attr.Decode(r); s.Status != OK {
		return
	}
	s.RTMax, s.RTPref, s.RTMult = r.Uint32(), r.Uint32(), r.Uint32()
	s.WTMax, s.WTPref, s.WTMult = r.Uint32(), r.Uint32(), r.Uint32()
	s.DTPref = r.Uint32()
	s.MaxFileSize = r.Uint64()
	s.TimeDelta.Decode(r)
	s.Properties = r.Uint32()
}

// PathConfRes are the PATHCONF results. All fields except Attr are valid only
// if Status is OK.
type PathConfRes struct {
	Status           Status
	Attr             PostOpAttr
	LinkMax, NameMax uint32
	NoTrunc          bool
	ChownRestricted  bool
	CaseInsensitive  bool
	CasePreserving   bool
}

// AppendTo appends s's wire form to b.
func (s *PathConfRes) AppendTo(b []byte) []byte {
	b = s.Attr.AppendTo(xdr.AppendUint32(b, uint32(s.Status)))
	if s.Status != OK {
		return b
	}
	b = xdr.AppendUint32(b, s.LinkMax)
	b = xdr.AppendUint32(b, s.NameMax)
	b = xdr.AppendBool(b, s.NoTrunc)
	b = xdr.AppendBool(b, s.ChownRestricted)
	b = xdr.AppendBool(b, s.CaseInsensitive)
	return xdr.AppendBool(b, s.CasePreserving)
}

// Decode reads s.
func (s *PathConfRes) Decode(r *xdr.Reader) {
	s.Status = Status(r.Uint32())
	if s.Attr.Decode(r); s.Status != OK {
		return
	}
	s.LinkMax, s.NameMax = r.Uint32(), r.Uint32()
	s.NoTrunc, s.ChownRestricted = r.Bool(), r.Bool()
	s.CaseInsensitive, s.CasePreserving = r.Bool(), r.Bool()
}
