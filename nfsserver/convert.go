package nfsserver

import (
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// modeBits are the mode bits that RFC 1813, Section 2.6, defines.
const modeBits = 0o7777

// toWireTime returns t's wire form. Times before 1970 and after 2106 have none: the nearest
// representable time is sent. knfsd sends them modulo 2^32, which turns 1960 into 2096.
func toWireTime(t vfs.Time) nfs3.Time {
	switch {
	case t.Sec < 0:
		return nfs3.Time{}
	case t.Sec > math.MaxUint32:
		return nfs3.Time{Sec: math.MaxUint32, Nsec: 999_999_999}
	}
	return nfs3.Time{Sec: uint32(t.Sec), Nsec: t.Nsec}
}

func toHostTime(t nfs3.Time) vfs.Time { return vfs.Time{Sec: int64(t.Sec), Nsec: t.Nsec} }

func toWireAttr(a *vfs.Attr) nfs3.Attr {
	return nfs3.Attr{
		Type:   nfs3.Type(a.Type),
		Mode:   a.Mode & modeBits,
		Nlink:  a.Nlink,
		UID:    a.UID,
		GID:    a.GID,
		Size:   a.Size,
		Used:   a.Used,
		Rdev:   nfs3.SpecData{Major: a.Rdev.Major, Minor: a.Rdev.Minor},
		FSID:   a.FSID,
		FileID: a.FileID,
		Atime:  toWireTime(a.Atime),
		Mtime:  toWireTime(a.Mtime),
		Ctime:  toWireTime(a.Ctime),
	}
}

func toPostOpAttr(a *vfs.MaybeAttr) nfs3.PostOpAttr {
	if !a.OK {
		return nfs3.PostOpAttr{}
	}
	return nfs3.PostOpAttr{OK: true, Attr: toWireAttr(&a.Attr)}
}

func toWccData(w *vfs.WCC) nfs3.WccData {
	out := nfs3.WccData{After: toPostOpAttr(&w.After)}
	if b := &w.Before; b.OK {
		out.Before = nfs3.PreOpAttr{OK: true, Size: b.Size, Mtime: toWireTime(b.Mtime), Ctime: toWireTime(b.Ctime)}
	}
	return out
}

// toSetAttr returns the changes that a sattr3 requests; the result points into s. It returns
// NFS3ERR_INVAL for values that the host cannot store: no file size has 64 bits, the largest
// user and group mean "none" to chown, and a second or more of nanoseconds has a special
// meaning to utimensat.
func toSetAttr(s *nfs3.SetAttr) (vfs.SetAttr, nfs3.Status) {
	switch {
	case s.UID.Set && s.UID.Value == math.MaxUint32,
		s.GID.Set && s.GID.Value == math.MaxUint32,
		s.Size.Set && s.Size.Value > math.MaxInt64,
		!isStorable(s.Atime), !isStorable(s.Mtime):
		return vfs.SetAttr{}, nfs3.ErrInval
	}
	s.Mode.Value &= modeBits
	out := vfs.SetAttr{
		Mode:     optionalValue(&s.Mode),
		UID:      optionalValue(&s.UID),
		GID:      optionalValue(&s.GID),
		AtimeHow: vfs.SetTime(s.Atime.How),
		MtimeHow: vfs.SetTime(s.Mtime.How),
		Atime:    toHostTime(s.Atime.Time),
		Mtime:    toHostTime(s.Mtime.Time),
	}
	if s.Size.Set {
		out.Size = &s.Size.Value
	}
	return out, nfs3.OK
}

func isStorable(t nfs3.SetTime) bool {
	return t.How != nfs3.SetToClientTime || t.Time.Nsec < 1e9
}

func optionalValue(o *nfs3.OptUint32) *uint32 {
	if !o.Set {
		return nil
	}
	return &o.Value
}
