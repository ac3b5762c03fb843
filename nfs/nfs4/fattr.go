package nfs4

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// FileType is an nfs_ftype4. The first seven values are the same as in NFSv3.
type FileType uint32

// The FileType values.
const (
	TypeReg FileType = iota + 1
	TypeDir
	TypeBlk
	TypeChr
	TypeLnk
	TypeSock
	TypeFIFO
	TypeAttrDir
	TypeNamedAttr
)

// An FSID identifies a file system on a server.
type FSID struct{ Major, Minor uint64 }

// A SpecData is a device number.
type SpecData struct{ Major, Minor uint32 }

// A SetTime is a settime4: the server's time, or with Client the given time.
type SetTime struct {
	Client bool
	Time   Time
}

// A ModeUmask is a mode_umask4: a new object's mode and the umask that applies
// if the directory has no default ACL (RFC 8275).
type ModeUmask struct{ Mode, Umask uint32 }

// A ModeMasked is a mode_masked4: the mode bits in Mask are set to those in
// Value (RFC 8881, Section 5.12).
type ModeMasked struct{ Value, Mask uint32 }

// Attrs is a fattr4: the attributes in Mask, in fields with the standard's
// names. A field whose attribute is not in Mask has no meaning. Decode supports
// all attributes that have a field; Known is their set.
type Attrs struct {
	Mask Bitmap

	SupportedAttrs    Bitmap
	Type              FileType
	FHExpireType      uint32
	Change            uint64
	Size              uint64 // bytes
	LinkSupport       bool
	SymlinkSupport    bool
	NamedAttr         bool
	FSID              FSID
	UniqueHandles     bool
	LeaseTime         uint32 // seconds
	RdattrError       Status
	ACL               ACL
	ACLSupport        uint32
	CanSetTime        bool
	CaseInsensitive   bool
	CasePreserving    bool
	ChownRestricted   bool
	FileHandle        FH
	FileID            uint64
	FilesAvail        uint64
	FilesFree         uint64
	FilesTotal        uint64
	FSLocations       FSLocations
	Homogeneous       bool
	MaxFileSize       uint64 // bytes
	MaxLink           uint32
	MaxName           uint32 // bytes
	MaxRead           uint64 // bytes
	MaxWrite          uint64 // bytes
	Mode              uint32
	NoTrunc           bool
	NumLinks          uint32
	Owner             []byte
	OwnerGroup        []byte
	RawDev            SpecData
	SpaceAvail        uint64 // bytes, like the next three
	SpaceFree         uint64
	SpaceTotal        uint64
	SpaceUsed         uint64
	TimeAccess        Time
	TimeAccessSet     SetTime
	TimeCreate        Time
	TimeDelta         Time
	TimeMetadata      Time
	TimeModify        Time
	TimeModifySet     SetTime
	MountedOnFileID   uint64
	ModeSetMasked     ModeMasked
	SuppattrExclCreat Bitmap
	FSCharsetCap      uint32
	CloneBlkSize      uint32 // bytes
	ChangeAttrType    uint32
	ModeUmask         ModeUmask
	XattrSupport      bool
	TimeDelegAccess   Time
	TimeDelegModify   Time
	OpenArguments     OpenArguments
}

// Known is the set of attributes that have a field in Attrs.
var Known = BitmapOf(
	AttrSupportedAttrs, AttrType, AttrFHExpireType, AttrChange, AttrSize, AttrLinkSupport, AttrSymlinkSupport,
	AttrNamedAttr, AttrFSID, AttrUniqueHandles, AttrLeaseTime, AttrRdattrError, AttrACL, AttrACLSupport, AttrCanSetTime,
	AttrCaseInsensitive, AttrCasePreserving, AttrChownRestricted, AttrFileHandle, AttrFileID, AttrFilesAvail,
	AttrFilesFree, AttrFilesTotal, AttrFSLocations, AttrHomogeneous, AttrMaxFileSize, AttrMaxLink, AttrMaxName,
	AttrMaxRead, AttrMaxWrite, AttrMode, AttrNoTrunc, AttrNumLinks, AttrOwner, AttrOwnerGroup, AttrRawDev,
	AttrSpaceAvail, AttrSpaceFree, AttrSpaceTotal, AttrSpaceUsed, AttrTimeAccess, AttrTimeAccessSet, AttrTimeCreate,
	AttrTimeDelta, AttrTimeMetadata, AttrTimeModify, AttrTimeModifySet, AttrMountedOnFileID, AttrModeSetMasked,
	AttrSuppattrExclCreat, AttrFSCharsetCap, AttrCloneBlkSize, AttrChangeAttrType, AttrModeUmask, AttrXattrSupport,
	AttrTimeDelegAccess, AttrTimeDelegModify, AttrOpenArguments,
)

// AppendTo appends a's wire form to b. The caller must keep Mask within Known.
func (a *Attrs) AppendTo(b []byte) []byte {
	b = a.Mask.AppendTo(b)
	length := len(b)
	b = xdr.AppendUint32(b, 0)
	start := len(b)
	for id, ok := a.Mask.nextAttr(0); ok; id, ok = a.Mask.nextAttr(id + 1) {
		b = a.appendValue(b, id)
	}
	binary.BigEndian.PutUint32(b[length:], uint32(len(b)-start))
	return b
}

// Decode reads a. If the mask has an attribute that is not in Known, Decode
// skips the values: all fields but Mask are then zero. If the values do not
// fill the attribute list, r fails with xdr.ErrValue.
func (a *Attrs) Decode(r *xdr.Reader) {
	*a = Attrs{}
	a.Mask.Decode(r)
	list := r.Opaque(unbounded)
	unknown := a.Mask.Without(Known)
	if r.Err() != nil || !unknown.Empty() {
		return
	}
	rest := *r // another Reader would need an allocation
	*r = xdr.NewReader(list)
	for id, ok := a.Mask.nextAttr(0); ok; id, ok = a.Mask.nextAttr(id + 1) {
		a.decodeValue(r, id)
	}
	err := r.Done()
	if *r = rest; err != nil {
		r.Fail(xdr.ErrValue)
	}
}

// wordField, longField, flagField and timeField return the field of an attribute
// whose wire form is an unsigned integer, an unsigned hyper, a boolean or an
// nfstime4, or nil.
func (a *Attrs) wordField(id AttrID) *uint32 {
	switch id {
	case AttrType:
		return (*uint32)(&a.Type)
	case AttrFHExpireType:
		return &a.FHExpireType
	case AttrLeaseTime:
		return &a.LeaseTime
	case AttrRdattrError:
		return (*uint32)(&a.RdattrError)
	case AttrACLSupport:
		return &a.ACLSupport
	case AttrMaxLink:
		return &a.MaxLink
	case AttrMaxName:
		return &a.MaxName
	case AttrMode:
		return &a.Mode
	case AttrNumLinks:
		return &a.NumLinks
	case AttrFSCharsetCap:
		return &a.FSCharsetCap
	case AttrCloneBlkSize:
		return &a.CloneBlkSize
	case AttrChangeAttrType:
		return &a.ChangeAttrType
	}
	return nil
}

func (a *Attrs) longField(id AttrID) *uint64 {
	switch id {
	case AttrChange:
		return &a.Change
	case AttrSize:
		return &a.Size
	case AttrFileID:
		return &a.FileID
	case AttrFilesAvail:
		return &a.FilesAvail
	case AttrFilesFree:
		return &a.FilesFree
	case AttrFilesTotal:
		return &a.FilesTotal
	case AttrMaxFileSize:
		return &a.MaxFileSize
	case AttrMaxRead:
		return &a.MaxRead
	case AttrMaxWrite:
		return &a.MaxWrite
	case AttrSpaceAvail:
		return &a.SpaceAvail
	case AttrSpaceFree:
		return &a.SpaceFree
	case AttrSpaceTotal:
		return &a.SpaceTotal
	case AttrSpaceUsed:
		return &a.SpaceUsed
	case AttrMountedOnFileID:
		return &a.MountedOnFileID
	}
	return nil
}

func (a *Attrs) flagField(id AttrID) *bool {
	switch id {
	case AttrLinkSupport:
		return &a.LinkSupport
	case AttrSymlinkSupport:
		return &a.SymlinkSupport
	case AttrNamedAttr:
		return &a.NamedAttr
	case AttrUniqueHandles:
		return &a.UniqueHandles
	case AttrCanSetTime:
		return &a.CanSetTime
	case AttrCaseInsensitive:
		return &a.CaseInsensitive
	case AttrCasePreserving:
		return &a.CasePreserving
	case AttrChownRestricted:
		return &a.ChownRestricted
	case AttrHomogeneous:
		return &a.Homogeneous
	case AttrNoTrunc:
		return &a.NoTrunc
	case AttrXattrSupport:
		return &a.XattrSupport
	}
	return nil
}

func (a *Attrs) timeField(id AttrID) *Time {
	switch id {
	case AttrTimeAccess:
		return &a.TimeAccess
	case AttrTimeCreate:
		return &a.TimeCreate
	case AttrTimeDelta:
		return &a.TimeDelta
	case AttrTimeMetadata:
		return &a.TimeMetadata
	case AttrTimeModify:
		return &a.TimeModify
	case AttrTimeDelegAccess:
		return &a.TimeDelegAccess
	case AttrTimeDelegModify:
		return &a.TimeDelegModify
	}
	return nil
}

// compositeField returns the field of an attribute with any other wire form, or
// nil.
func (a *Attrs) compositeField(id AttrID) Message {
	switch id {
	case AttrSupportedAttrs:
		return &a.SupportedAttrs
	case AttrSuppattrExclCreat:
		return &a.SuppattrExclCreat
	case AttrFSID:
		return &a.FSID
	case AttrFileHandle:
		return &a.FileHandle
	case AttrACL:
		return &a.ACL
	case AttrFSLocations:
		return &a.FSLocations
	case AttrRawDev:
		return &a.RawDev
	case AttrTimeAccessSet:
		return &a.TimeAccessSet
	case AttrTimeModifySet:
		return &a.TimeModifySet
	case AttrModeSetMasked:
		return &a.ModeSetMasked
	case AttrModeUmask:
		return &a.ModeUmask
	case AttrOpenArguments:
		return &a.OpenArguments
	}
	return nil
}

// A wireForm is an attribute's kind of wire form.
type wireForm uint8

const (
	formOther wireForm = iota
	formWord
	formLong
	formFlag
	formTime
	formOwner
	formOwnerGroup
)

// wireForms has each attribute's wire form, for fast lookup.
var wireForms = func() (all [96]wireForm) {
	var a Attrs
	for i := range all {
		switch id := AttrID(i); {
		case a.wordField(id) != nil:
			all[i] = formWord
		case a.longField(id) != nil:
			all[i] = formLong
		case a.flagField(id) != nil:
			all[i] = formFlag
		case a.timeField(id) != nil:
			all[i] = formTime
		}
	}
	all[AttrOwner], all[AttrOwnerGroup] = formOwner, formOwnerGroup
	return all
}()

// appendValue appends the value of one attribute.
func (a *Attrs) appendValue(b []byte, id AttrID) []byte {
	switch wireForms[id] {
	case formWord:
		return xdr.AppendUint32(b, *a.wordField(id))
	case formLong:
		return xdr.AppendUint64(b, *a.longField(id))
	case formFlag:
		return xdr.AppendBool(b, *a.flagField(id))
	case formTime:
		return a.timeField(id).AppendTo(b)
	case formOwner:
		return xdr.AppendOpaque(b, a.Owner)
	case formOwnerGroup:
		return xdr.AppendOpaque(b, a.OwnerGroup)
	}
	if v := a.compositeField(id); v != nil {
		return v.AppendTo(b)
	}
	return b
}

// decodeValue reads the value of one attribute.
func (a *Attrs) decodeValue(r *xdr.Reader, id AttrID) {
	switch wireForms[id] {
	case formWord:
		*a.wordField(id) = r.Uint32()
	case formLong:
		*a.longField(id) = r.Uint64()
	case formFlag:
		*a.flagField(id) = r.Bool()
	case formTime:
		a.timeField(id).Decode(r)
	case formOwner:
		a.Owner = r.Opaque(unbounded)
	case formOwnerGroup:
		a.OwnerGroup = r.Opaque(unbounded)
	default:
		if v := a.compositeField(id); v != nil {
			v.Decode(r)
		}
	}
	if id == AttrType && (a.Type < TypeReg || a.Type > TypeNamedAttr) {
		r.Fail(xdr.ErrValue)
	}
}

// AppendTo appends f's wire form to b.
func (f *FSID) AppendTo(b []byte) []byte {
	return xdr.AppendUint64(xdr.AppendUint64(b, f.Major), f.Minor)
}

// Decode reads f.
func (f *FSID) Decode(r *xdr.Reader) { f.Major, f.Minor = r.Uint64(), r.Uint64() }

// AppendTo appends d's wire form to b.
func (d *SpecData) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, d.Major), d.Minor)
}

// Decode reads d.
func (d *SpecData) Decode(r *xdr.Reader) { d.Major, d.Minor = r.Uint32(), r.Uint32() }

// AppendTo appends s's wire form to b.
func (s *SetTime) AppendTo(b []byte) []byte {
	if b = xdr.AppendBool(b, s.Client); s.Client {
		b = s.Time.AppendTo(b)
	}
	return b
}

// Decode reads s.
func (s *SetTime) Decode(r *xdr.Reader) {
	if s.Client = decodeEnum(r, "time_how4", 0, 1) == 1; s.Client {
		s.Time.Decode(r)
	}
}

// AppendTo appends m's wire form to b.
func (m *ModeUmask) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, m.Mode), m.Umask)
}

// Decode reads m.
func (m *ModeUmask) Decode(r *xdr.Reader) { m.Mode, m.Umask = r.Uint32(), r.Uint32() }

// AppendTo appends m's wire form to b.
func (m *ModeMasked) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, m.Value), m.Mask)
}

// Decode reads m.
func (m *ModeMasked) Decode(r *xdr.Reader) { m.Value, m.Mask = r.Uint32(), r.Uint32() }

// A Pathname is a pathname4: the names from a root to an object.
type Pathname [][]byte

// maxListLen bounds the names in a Pathname, the servers and locations in an
// FSLocations, and the referring calls in a CB_SEQUENCE that Decode accepts.
const maxListLen = 1024

// AppendTo appends p's wire form to b.
func (p *Pathname) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(len(*p)))
	for _, name := range *p {
		b = xdr.AppendOpaque(b, name)
	}
	return b
}

// Decode reads p.
func (p *Pathname) Decode(r *xdr.Reader) {
	*p = nil
	for n := listLen(r); n > 0 && r.Err() == nil; n-- {
		*p = append(*p, r.Opaque(unbounded))
	}
}

// An FSLocation is a file system's location: its servers, each with the same
// path.
type FSLocation struct {
	Servers [][]byte
	Root    Pathname
}

// FSLocations is the attribute fs_locations (RFC 8881, Section 11.16): a file
// system's path on this server, and its other locations.
type FSLocations struct {
	Root      Pathname
	Locations []FSLocation
}

// AppendTo appends f's wire form to b.
func (f *FSLocations) AppendTo(b []byte) []byte {
	b = f.Root.AppendTo(b)
	b = xdr.AppendUint32(b, uint32(len(f.Locations)))
	for i := range f.Locations {
		servers := Pathname(f.Locations[i].Servers) // the same wire form
		b = f.Locations[i].Root.AppendTo(servers.AppendTo(b))
	}
	return b
}

// Decode reads f.
func (f *FSLocations) Decode(r *xdr.Reader) {
	f.Root.Decode(r)
	f.Locations = nil
	for n := listLen(r); n > 0 && r.Err() == nil; n-- {
		var servers, root Pathname
		servers.Decode(r)
		root.Decode(r)
		f.Locations = append(f.Locations, FSLocation{servers, root})
	}
}

// listLen reads the length of a list that may have maxListLen values.
func listLen(r *xdr.Reader) uint32 {
	n := r.Uint32()
	if n > maxListLen {
		r.Fail(xdr.ErrLong)
	}
	return n
}
