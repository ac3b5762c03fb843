package billy

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// bits maps the bits of a mode besides permissions to those of package os.
var bits = []struct {
	mode uint32
	os   os.FileMode
}{{0o4000, os.ModeSetuid}, {0o2000, os.ModeSetgid}, {0o1000, os.ModeSticky}}

func modeOf(m os.FileMode) uint32 {
	out := uint32(m.Perm())
	for _, b := range bits {
		if m&b.os != 0 {
			out |= b.mode
		}
	}
	return out
}

func fileMode(mode uint32) os.FileMode {
	out := os.FileMode(mode) & os.ModePerm
	for _, b := range bits {
		if mode&b.mode != 0 {
			out |= b.os
		}
	}
	return out
}

func typeOf(m os.FileMode) vfs.Type {
	switch {
	case m.IsDir():
		return vfs.TypeDir
	case m&os.ModeSymlink != 0:
		return vfs.TypeLnk
	case m&os.ModeCharDevice != 0:
		return vfs.TypeChr
	case m&os.ModeDevice != 0:
		return vfs.TypeBlk
	case m&os.ModeSocket != 0:
		return vfs.TypeSock
	case m&os.ModeNamedPipe != 0:
		return vfs.TypeFIFO
	}
	return vfs.TypeReg
}

func timeOf(t time.Time) vfs.Time { return vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

func nanos(t vfs.Time) uint64 { return uint64(t.Sec)*1e9 + uint64(t.Nsec) }

func goTime(t vfs.Time) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

func later(a, b vfs.Time) vfs.Time {
	if a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec {
		return a
	}
	return b
}

// attrOf returns the attributes of a node. A file system without change times
// often does not update the times of directories either; then the last change
// through the FS counts.
func (f *FS) attrOf(n *node, fi os.FileInfo) vfs.Attr {
	x := f.infoOf(fi)
	mtime := timeOf(fi.ModTime())
	a := vfs.Attr{
		Type: typeOf(fi.Mode()), Mode: modeOf(fi.Mode()), Nlink: x.Nlink, UID: x.UID, GID: x.GID,
		Size: uint64(max(fi.Size(), 0)), Used: x.Used, Rdev: x.Rdev, FSID: f.fsid, FileID: x.FileID,
		Atime: x.Atime, Mtime: mtime, Ctime: x.Ctime,
	}
	if a.FileID == 0 {
		a.FileID = n.id
	}
	if !x.Times {
		touched := f.table.touched(n)
		if a.Type == vfs.TypeDir {
			a.Mtime = later(mtime, touched)
		}
		a.Atime, a.Ctime = a.Mtime, later(a.Mtime, touched)
		// The table's times of an object are all different, but mtime may be
		// any time.
		a.HasChange, a.Change = true, nanos(mtime)+nanos(touched)
	}
	return a
}

func (f *FS) infoOf(fi os.FileInfo) Info {
	x, ok := f.info(fi)
	if !ok {
		x = Info{Used: uint64(max(fi.Size(), 0))}
	}
	x.Nlink = max(x.Nlink, 1)
	return x
}

func some(a *vfs.Attr) vfs.MaybeAttr { return vfs.MaybeAttr{OK: true, Attr: *a} }

func pre(a *vfs.Attr) vfs.PreAttr {
	return vfs.PreAttr{OK: true, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime, HasChange: a.HasChange, Change: a.Change}
}
