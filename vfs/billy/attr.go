package billy

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// modeBits maps the mode bits other than permissions to package os's.
var modeBits = []struct {
	mode uint32
	os   os.FileMode
}{{0o4000, os.ModeSetuid}, {0o2000, os.ModeSetgid}, {0o1000, os.ModeSticky}}

func modeOf(m os.FileMode) uint32 {
	out := uint32(m.Perm())
	for _, b := range modeBits {
		if m&b.os != 0 {
			out |= b.mode
		}
	}
	return out
}

func fileMode(mode uint32) os.FileMode {
	out := os.FileMode(mode) & os.ModePerm
	for _, b := range modeBits {
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

func nanoseconds(t vfs.Time) uint64 { return uint64(t.Sec)*1e9 + uint64(t.Nsec) }

func goTime(t vfs.Time) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

func laterOf(a, b vfs.Time) vfs.Time {
	if a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec {
		return a
	}
	return b
}

// attrOf returns a node's attributes. A file system without change times often does not update
// directories' times either; then the last change through the FS counts. A file system that knows
// no time, such as an archive, has the zero time: it counts as unchanged since New.
func (f *FS) attrOf(n *node, fi os.FileInfo) vfs.Attr {
	x := f.infoOf(fi)
	mtime := f.started
	if t := fi.ModTime(); !t.IsZero() {
		mtime = timeOf(t)
	}
	a := vfs.Attr{
		Type: typeOf(fi.Mode()), Mode: modeOf(fi.Mode()), Nlink: x.Nlink, UID: x.UID, GID: x.GID,
		Size: uint64(max(fi.Size(), 0)), Used: x.Used, Rdev: x.Rdev, FSID: f.fsid, FileID: x.FileID,
		Atime: x.Atime, Mtime: mtime, Ctime: x.Ctime,
	}
	if a.FileID == 0 {
		a.FileID = n.id
	}
	if !x.Times {
		touched := f.table.lastChange(n)
		if a.Type == vfs.TypeDir {
			a.Mtime = laterOf(mtime, touched)
		}
		a.Atime, a.Ctime = a.Mtime, laterOf(a.Mtime, touched)
		// An object's times in the table all differ, but mtime may be any time.
		a.HasChange, a.Change = true, nanoseconds(mtime)+nanoseconds(touched)
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

func maybeAttrOf(a *vfs.Attr) vfs.MaybeAttr { return vfs.MaybeAttr{OK: true, Attr: *a} }

func preAttrOf(a *vfs.Attr) vfs.PreAttr {
	return vfs.PreAttr{OK: true, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime, HasChange: a.HasChange, Change: a.Change}
}
