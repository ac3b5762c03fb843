//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

const modeBits = 0o7777

func typeOf(mode uint16) vfs.Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return vfs.TypeReg
	case unix.S_IFDIR:
		return vfs.TypeDir
	case unix.S_IFBLK:
		return vfs.TypeBlk
	case unix.S_IFCHR:
		return vfs.TypeChr
	case unix.S_IFLNK:
		return vfs.TypeLnk
	case unix.S_IFSOCK:
		return vfs.TypeSock
	default:
		return vfs.TypeFIFO
	}
}

func timeOf(t unix.StatxTimestamp) vfs.Time { return vfs.Time{Sec: t.Sec, Nsec: t.Nsec} }

func (f *FS) attrOfStat(st *unix.Statx_t) vfs.Attr {
	return vfs.Attr{
		Type: typeOf(st.Mode), Mode: uint32(st.Mode) & modeBits, Nlink: st.Nlink,
		UID: st.Uid, GID: st.Gid, Size: st.Size, Used: st.Blocks * 512,
		Rdev: vfs.Dev{Major: st.Rdev_major, Minor: st.Rdev_minor},
		FSID: f.fsid, FileID: st.Ino,
		Atime: timeOf(st.Atime), Mtime: timeOf(st.Mtime), Ctime: timeOf(st.Ctime),
		HasChange: true, Change: f.changeAttr(st),
		HasBirth: st.Mask&unix.STATX_BTIME != 0, Birth: timeOf(st.Btime),
	}
}

func (f *FS) maybeAttrOf(st *unix.Statx_t) vfs.MaybeAttr {
	return vfs.MaybeAttr{OK: true, Attr: f.attrOfStat(st)}
}

// unchangedWCC returns WCC data with st both before and after.
func (f *FS) unchangedWCC(st *unix.Statx_t) vfs.WCC {
	a := f.maybeAttrOf(st)
	before := vfs.PreAttr{OK: true, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime, HasChange: true, Change: a.Change}
	return vfs.WCC{Before: before, After: a}
}
