package nfsserver

import (
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// modeBits are the bits of a mode that RFC 1813, Section 2.6, defines.
const modeBits = 0o7777

// wireTime returns the wire form of t. Times before 1970 and after 2106 have
// none. They are sent modulo 2^32, as in knfsd: two different times stay
// different, and clients only compare them.
func wireTime(t vfs.Time) nfs3.Time { return nfs3.Time{Sec: uint32(t.Sec), Nsec: t.Nsec} }

func hostTime(t nfs3.Time) vfs.Time { return vfs.Time{Sec: int64(t.Sec), Nsec: t.Nsec} }

func wireAttr(a *vfs.Attr) nfs3.Attr {
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
		Atime:  wireTime(a.Atime),
		Mtime:  wireTime(a.Mtime),
		Ctime:  wireTime(a.Ctime),
	}
}

func wirePostAttr(a *vfs.MaybeAttr) nfs3.PostOpAttr {
	if !a.OK {
		return nfs3.PostOpAttr{}
	}
	return nfs3.PostOpAttr{OK: true, Attr: wireAttr(&a.Attr)}
}

func wireWcc(w *vfs.WCC) nfs3.WccData {
	out := nfs3.WccData{After: wirePostAttr(&w.After)}
	if b := &w.Before; b.OK {
		out.Before = nfs3.PreOpAttr{OK: true, Size: b.Size, Mtime: wireTime(b.Mtime), Ctime: wireTime(b.Ctime)}
	}
	return out
}

// hostSetAttr returns the changes that a sattr3 asks for; the result points
// into s. It returns NFS3ERR_INVAL for values that the host cannot store: no
// file size has 64 bits, the largest user and group mean "none" to chown, and
// nanoseconds beyond a second are special values of utimensat.
func hostSetAttr(s *nfs3.SetAttr) (vfs.SetAttr, nfs3.Status) {
	switch {
	case s.UID.Set && s.UID.Value == math.MaxUint32,
		s.GID.Set && s.GID.Value == math.MaxUint32,
		s.Size.Set && s.Size.Value > math.MaxInt64,
		!storable(s.Atime), !storable(s.Mtime):
		return vfs.SetAttr{}, nfs3.ErrInval
	}
	s.Mode.Value &= modeBits
	out := vfs.SetAttr{
		Mode:     optional(&s.Mode),
		UID:      optional(&s.UID),
		GID:      optional(&s.GID),
		AtimeHow: vfs.SetTime(s.Atime.How),
		MtimeHow: vfs.SetTime(s.Mtime.How),
		Atime:    hostTime(s.Atime.Time),
		Mtime:    hostTime(s.Mtime.Time),
	}
	if s.Size.Set {
		out.Size = &s.Size.Value
	}
	return out, nfs3.OK
}

func storable(t nfs3.SetTime) bool {
	return t.How != nfs3.SetToClientTime || t.Time.Nsec < 1e9
}

func optional(o *nfs3.OptUint32) *uint32 {
	if !o.Set {
		return nil
	}
	return &o.Value
}
